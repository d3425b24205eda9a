import TestSupport
import Testing

@testable import Configuration

/// Any bytes end in a table or an error, and every value knows its place.
@Suite struct TOMLTests {
  @Test("each value comes with the line and column of its key")
  func places() throws {
    let members = try TOML.document(Array("a = 1\n\n[b]\n  c = [\"x\", 2.5]\n  'd e' = true\n".utf8))
    #expect(members.map(\.name) == ["a", "b"])
    #expect(members[0].value == .integer(1))
    #expect(members[0].place == TOML.Place(line: 1, column: 1))
    guard case .table(let entries) = members[1].value else {
      Issue.record("[b] is no table")
      return
    }
    #expect(entries.map(\.name) == ["c", "d e"])
    #expect(entries[0].place == TOML.Place(line: 4, column: 3))
    guard case .array(let nodes) = entries[0].value else {
      Issue.record("c is no list")
      return
    }
    #expect(nodes.map(\.value) == [.string("x"), .float(2.5)])
    #expect(nodes[1].place == TOML.Place(line: 4, column: 13))
    #expect(entries[1].value == .boolean(true))
  }

  @Test("a date is told apart from a string, and nested tables are put together")
  func kinds() throws {
    let members = try TOML.document(Array("d = 2026-01-02T03:04:05Z\nt = {x = {y = 'z'}}\n".utf8))
    #expect(members[0].value == .date)
    guard case .table(let outer) = members[1].value, case .table(let inner) = outer[0].value else {
      Issue.record("no nested table")
      return
    }
    #expect(inner[0].value == .string("z"))
  }

  @Test("a mistake is named by line and column")
  func mistakes() {
    let error = #expect(throws: TOMLError.self) { try TOML.document(Array("a = 1\nb = = 2\n".utf8)) }
    #expect(error?.line == 2)
    #expect(error?.column == 5)
    #expect(error?.problem.isEmpty == false)
    #expect(throws: TOMLError.self) { try TOML.document([0xFF, 0xFE, 0x00]) }
    #expect(throws: TOMLError.self) { try TOML.document(Array("a = 1\na = 2\n".utf8)) }
  }

  @Test("an empty file is an empty table", arguments: ["", "\n", "# nothing\n", "\u{FEFF}"])
  func empty(text: String) throws {
    #expect(try TOML.document(Array(text.utf8)).isEmpty)
  }

  @Test("a file over the limit is refused before it is parsed")
  func tooLong() {
    let error = #expect(throws: TOMLError.self) { try TOML.document([UInt8](repeating: 0x23, count: TOML.limit + 1)) }
    #expect(error?.problem == "the file is longer than 256 KiB")
  }

  /// `word` and `separator` `count` times.
  private static func chain(_ word: String, _ separator: String, _ count: Int) -> String {
    Array(repeating: word, count: count).joined(separator: separator)
  }

  private static let bottomlessTexts: [String] = [
    "[" + chain("a", ".", 60_000) + "]",
    chain("a", " . ", 60_000) + " = 1",
    "x = " + String(repeating: "[", count: 100_000),
    "x = " + String(repeating: "{a=", count: 50_000),
    "\"\" = '''it''''\n" + chain("\"a\"", ".", 30_000) + " = 1",
    "x = \"\"\"a\\\"\"\"\"\"\n[" + chain("a", ".", 30_000) + "]",
    "x = [\n" + chain("{" + chain("a", ".", 15) + "=", "", 6_000),
  ]

  @Test("text that would nest without end is refused, not a stack overflow", arguments: bottomlessTexts.indices)
  func bottomless(index: Int) {
    #expect(throws: TOMLError.self) { try TOML.document(Array(Self.bottomlessTexts[index].utf8)) }
  }

  @Test("dots in texts and comments are no nesting")
  func harmlessDots() throws {
    let dots = String(repeating: ".", count: 1000)
    let text =
      "a = \"\(dots)\" # \(dots)\nb = '''\n\(dots)''\n'''\nc = '\(dots)'\nd = \"\"\"\\\"\(dots)\"\"\"\n# \(dots)\n"
    #expect(try TOML.document(Array(text.utf8)).map(\.name) == ["a", "b", "c", "d"])
  }

  @Test("random bytes and broken documents end in a table or an error")
  func randomBytes() {
    var random = SeededRandom()
    print("seed \(random.seed)")
    let valid = Array(Settings.sample.utf8).map { $0 == UInt8(ascii: "#") && random.next() % 2 == 0 ? 0x20 : $0 }
    for _ in 0..<300 {
      var bytes = valid
      for _ in 0..<(1 + random.next() % 8) {
        let at = Int(random.next() % UInt64(bytes.count))
        switch random.next() % 3 {
        case 0: bytes[at] = UInt8(truncatingIfNeeded: random.next())
        case 1: bytes.removeSubrange(at..<min(at + 5, bytes.count))
        default: bytes.insert(contentsOf: Array("[{.\"'=#\n".utf8).shuffled(using: &random).prefix(3), at: at)
        }
      }
      _ = LayeredSettings(text: bytes, named: "random")
    }
  }
}
