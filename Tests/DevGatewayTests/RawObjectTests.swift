import GatewayProtocol
import TestSupport
import Testing

@testable import DevGateway

@Suite("Members of an object as ranges of its text")
struct RawObjectTests {
  @Test("members are found where they are, the last of two counts, null is none")
  func members() throws {
    let object = try RawObject(
      Array(#" {"a" : {"b":[1,{"c":"}"}]} ,"n":null,"s":"x\"y","s":"é","\u0061b":true} "#.utf8))
    #expect(object.members.map(\.key) == ["a", "n", "s", "s", "ab"])
    #expect(object.json("a") == ["b": [1, ["c": "}"]]])
    #expect(object["n"] == nil)
    #expect(object["missing"] == nil)
    #expect(object.string("s") == "é")
    #expect(object.string("a") == nil)
    #expect(object.bool("ab") == true)
    #expect(object.isString("s"))
    let inner = try RawObject(object.bytes, in: object["a"])
    #expect(inner.json("b") == [1, ["c": "}"]])
  }

  @Test("nesting has a limit")
  func depth() {
    let deep = #"{"a":"# + String(repeating: "[", count: 200) + String(repeating: "]", count: 200) + "}"
    #expect(throws: JSONError.self) { try RawObject(Array(deep.utf8)) }
  }

  /// A random JSON text, valid as it is.
  private func text(_ depth: Int, _ random: inout SeededRandom) -> String {
    let scalars = [
      "0", "-1", "12.5e3", "1E-2", "true", "false", "null", "\"\"", "\"plain text, rather long\"",
      "\"\\n\\\"\\\\\\u00e9\"",
      "\"ü😀\"",
    ]
    switch depth == 0 ? 0 : Int.random(in: 0..<3, using: &random) {
    case 0: return scalars.randomElement(using: &random)!
    case 1:
      let count = Int.random(in: 0..<4, using: &random)
      return "[" + (0..<count).map { _ in " " + text(depth - 1, &random) }.joined(separator: " ,") + "]"
    default:
      let count = Int.random(in: 0..<4, using: &random)
      return "{" + (0..<count).map { "\"k\($0)\":" + text(depth - 1, &random) }.joined(separator: ",\n") + "}"
    }
  }

  @Test("it takes and refuses exactly what the coder does, whatever a byte is changed to")
  func agrees() {
    var random = SeededRandom()
    for _ in 0..<3000 {
      var bytes = Array("{\"a\":\(text(4, &random))}".utf8)
      for _ in 0..<Int.random(in: 0..<3, using: &random) {
        let index = bytes.indices.randomElement(using: &random)!
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes[index] = UInt8.random(in: 0...127, using: &random)
        case 1: bytes.remove(at: index)
        default: bytes.insert(Array("{}[]\",:\\u0e-".utf8).randomElement(using: &random)!, at: index)
        }
        if bytes.isEmpty { bytes = [0x20] }
      }
      // The coder also checks UTF-8, which the WebSocket has done by then.
      guard String(validating: bytes, as: UTF8.self) != nil else { continue }
      let value = try? JSON(parsing: bytes)
      let why: Comment = "seed \(random.seed): \(String(decoding: bytes, as: UTF8.self))"
      #expect(RawObject.isJSON(bytes) == (value != nil), why)
      let object = try? RawObject(bytes)
      #expect((object != nil) == (value?.object != nil), why)
      if let object, let members = value?.object {
        for (key, member) in members where member != .null { #expect(object.json(key) == member, why) }
      }
    }
  }
}
