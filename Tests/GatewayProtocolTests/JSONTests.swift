import TestSupport
import Testing

@testable import GatewayProtocol

@Suite("JSON")
struct JSONTests {
  private func parse(_ text: String) throws -> JSON { try JSON(parsing: text) }

  @Test(
    "every kind of value is read",
    arguments: [
      ("null", .null), ("true", true), ("false", false), ("0", 0), ("-7", -7), ("1.5", 1.5), ("1e3", .double(1000)),
      ("-0.25E-2", .double(-0.0025)), ("\"\"", ""), ("[]", []), ("{}", [:]), (" [ 1 , \"a\" ] ", [1, "a"]),
      ("{\"a\":{\"b\":[null]}}", ["a": ["b": [nil]]]), ("9223372036854775807", .int(.max)),
      ("9223372036854775808", .double(9.223372036854775808e18)),
    ] as [(String, JSON)])
  func values(text: String, value: JSON) throws { #expect(try parse(text) == value) }

  @Test(
    "what is no JSON is refused, with the place",
    arguments: [
      ("", 0), ("nul", 3), ("[1,]", 3), ("{\"a\"}", 4), ("{a:1}", 1), ("01", 2), ("1.", 2), ("-", 1), ("1e", 2),
      ("\"a", 2), ("[1 2]", 3), ("{} x", 3), ("\"\u{1}\"", 1), ("\"\\q\"", 3), ("\"\\u12\"", 5), ("1e999", 5), ("[", 1),
    ] as [(String, Int)])
  func mistakes(text: String, offset: Int) {
    let error = #expect(throws: JSONError.self) { try parse(text) }
    #expect(error?.offset == offset)
  }

  @Test("escapes and surrogates are understood; a lone surrogate becomes a replacement character")
  func escapes() throws {
    #expect(try parse(#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#) == "\"\\/\u{8}\u{C}\n\r\té😀")
    #expect(try parse(#""\ud83d x""#) == "\u{FFFD} x")
    #expect(try parse(#""\ude00\ud83d\ud83d\ude00""#) == "\u{FFFD}\u{FFFD}😀")
  }

  @Test("bytes that are not UTF-8 are refused, in values and in names")
  func notUTF8() {
    for bytes: [UInt8] in [
      [0x22, 0xFF, 0x22], [0x7B, 0x22, 0xC0, 0x80, 0x22, 0x3A, 0x31, 0x7D], [0x22, 0x5C, 0x6E, 0xED, 0xA0, 0x80, 0x22],
    ] {
      #expect(throws: JSONError.self) { try JSON(parsing: bytes) }
    }
  }

  @Test("nesting has a bound, so that hostile text can't exhaust the stack")
  func depth() throws {
    let deep = String(repeating: "[", count: 96) + String(repeating: "]", count: 96)
    _ = try parse(deep)
    #expect(throws: JSONError.self) { try parse("[" + deep + "]") }
    #expect(throws: JSONError.self) { try parse(String(repeating: "{\"a\":", count: 100_000)) }
    // Side by side is not nested.
    _ = try parse("[" + Array(repeating: "[[]]", count: 1000).joined(separator: ",") + "]")
  }

  @Test("of a repeated member the last counts; null is as good as absent")
  func members() throws {
    #expect(try parse(#"{"a":1,"a":2,"b":null}"#)["a"] == 2)
    #expect(try parse(#"{"b":null}"#)["b"] == nil)
    #expect(JSON.object(present: ["a": nil, "b": 1]) == ["b": 1])
  }

  @Test("numbers are whole when they are, also when written with a fraction of zero")
  func wholeNumbers() throws {
    #expect(try parse("5.0").int == 5)
    #expect(try parse("5.5").int == nil)
    #expect(try parse("1e30").int == nil)
    #expect(JSON.double(.nan).text == "null")
  }

  @Test("names are sorted, slashes stay, control characters are escaped")
  func writing() {
    #expect((["b": 1, "a": "x/y\u{1}\"\\\n"] as JSON).text == #"{"a":"x/y\u0001\"\\\n","b":1}"#)
  }

  @Test("what is written is read back the same: two thousand values at random")
  func roundTrip() throws {
    var random = SeededRandom()
    print("JSON seed \(random.seed)")
    for _ in 0..<2000 {
      let value = Self.random(&random, depth: 4)
      #expect(try JSON(parsing: value.encoded()) == value)
    }
  }

  @Test("any cut or damage ends in a value or an error: twenty thousand at random")
  func damage() {
    var random = SeededRandom()
    print("JSON damage seed \(random.seed)")
    for _ in 0..<20_000 {
      var bytes = Self.random(&random, depth: 3).encoded()
      for _ in 0..<(1 + random.below(3)) where !bytes.isEmpty {
        bytes[random.below(bytes.count)] = UInt8(random.below(256))
      }
      if random.below(2) == 0 { bytes.removeLast(min(bytes.count, random.below(4))) }
      _ = try? JSON(parsing: bytes)
    }
  }

  @Test("a long string without escapes and one with escapes at every place near the eight-byte step")
  func longStrings() throws {
    for length in 0..<40 {
      for place in 0..<length {
        var text = String(repeating: "x", count: length)
        text.replaceSubrange(
          text.index(text.startIndex, offsetBy: place)...text.index(text.startIndex, offsetBy: place), with: "\"é\u{7}")
        #expect(try JSON(parsing: JSON.string(text).encoded()) == .string(text))
      }
    }
  }

  private static func random(_ random: inout SeededRandom, depth: Int) -> JSON {
    switch random.below(depth == 0 ? 5 : 7) {
    case 0: return .null
    case 1: return .bool(random.below(2) == 0)
    case 2: return .int(Int64(bitPattern: random.next()))
    case 3: return .double(Double(random.below(1_000_000)) / 7)
    case 4: return .string(text(&random))
    case 5: return .array((0..<random.below(5)).map { _ in Self.random(&random, depth: depth - 1) })
    default:
      var members: [String: JSON] = [:]
      for _ in 0..<random.below(5) { members[text(&random)] = Self.random(&random, depth: depth - 1) }
      return .object(members)
    }
  }

  private static func text(_ random: inout SeededRandom) -> String {
    let letters: [Character] = ["a", "\"", "\\", "\n", "\u{0}", "é", "😀", "/", "\u{7F}", " ", "\u{2028}"]
    return String((0..<random.below(20)).map { _ in letters[random.below(letters.count)] })
  }
}
