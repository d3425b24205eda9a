import Testing

@testable import talknode

/// What a person types is understood, or answered with the nearest thing that would be.
@Suite struct ParserTests {
  static let json = Option("json", "as JSON")
  static let trust = Option("trust", value: "SHA256", "a fingerprint")
  static func verb(_ path: String, operands: [Operand] = [], options: [Option] = []) -> Verb {
    Verb(path, "does \(path)", operands: operands, options: options) { _, _ in .ok }
  }
  static let verbs = [
    verb("run"), verb("pair", operands: [Operand("CODE", "a code")], options: [trust, json]),
    verb("status", options: [json]), verb("things list", options: [json]),
    verb("things use", operands: [Operand("ID", "an id")]),
    verb("maybe", operands: [Operand("WHAT", "something", isOptional: true)]),
  ]
  let parser = Parser(verbs: verbs)

  private func parse(_ line: String) throws(Failure) -> (name: String, arguments: Arguments) {
    switch try parser.parse(line.split(separator: " ").map(String.init)) {
    case .run(let verb, let arguments): return (verb.name, arguments)
    case .help(let path): return ("help", Arguments(operands: path))
    }
  }

  @Test(
    "options may be written with a blank or an equals sign, before and after operands",
    arguments: [
      "pair --trust AA CODE", "pair CODE --trust AA", "pair --trust=AA CODE", "pair --trust BB --trust=AA CODE",
    ])
  func options(line: String) throws {
    let (name, arguments) = try parse(line)
    #expect(name == "pair")
    #expect(arguments[0] == "CODE")
    #expect(arguments[Self.trust] == "AA")
    #expect(!arguments.has(Self.json))
  }

  @Test("a group's own name means its first command")
  func groups() throws {
    #expect(try parse("things").name == "things list")
    #expect(try parse("things list --json").arguments.has(Self.json))
    #expect(try parse("things --json").name == "things list")
    #expect(try parse("things use 7").arguments[0] == "7")
  }

  @Test("after -- and as a single hyphen, words are operands")
  func hyphens() throws {
    #expect(try parse("pair -- --trust").arguments[0] == "--trust")
    #expect(try parse("pair -").arguments[0] == "-")
  }

  @Test(
    "help is found wherever it is asked for",
    arguments: [
      ("", []), ("--help", []), ("-h", []), ("help", []), ("help pair", ["pair"]), ("pair --help", ["pair"]),
      ("pair CODE --help", ["pair"]), ("help things", ["things"]), ("help things use", ["things", "use"]),
      ("things use -h", ["things", "use"]),
    ])
  func help(line: String, path: [String]) throws {
    let (name, arguments) = try parse(line)
    #expect(name == "help")
    #expect(arguments.operands == path)
  }

  @Test(
    "a slip is answered with what was meant",
    arguments: [
      ("pari CODE", "There is no command `pari`.", "talknode pair"),
      ("frobnicate", "There is no command `frobnicate`.", "talknode help"),
      ("pair --turst AA CODE", "`talknode pair` has no option `--turst`.", "--trust"),
      ("pair -t AA", "`talknode pair` has no option `-t`.", "talknode help pair"),
      ("status --jsno", "`talknode status` has no option `--jsno`.", "--json"),
      ("things lsit", "There is no command `things lsit`.", "talknode things list"),
      ("--json status", "The command comes before its options.", "talknode help"),
      ("help psir", "There is no command `psir`.", "talknode pair"),
    ])
  func slips(line: String, summary: String, remedy: String) {
    let failure = #expect(throws: Failure.self) { try parse(line) }
    #expect(failure?.summary == summary)
    #expect(failure?.remedy == remedy)
    #expect(failure?.exit == .usage)
  }

  @Test(
    "what is missing or too much is named",
    arguments: [
      ("pair", "`talknode pair` needs CODE: a code."), ("pair A B", "`talknode pair` does not take `B`."),
      ("pair --trust", "--trust needs a value."), ("pair --trust= X", "--trust needs a value."),
      ("status --json=yes", "--json is a switch and takes no value."),
      ("maybe A B", "`talknode maybe` does not take `B`."),
    ])
  func wrongNumber(line: String, summary: String) {
    let failure = #expect(throws: Failure.self) { try parse(line) }
    #expect(failure?.summary == summary)
  }

  @Test("an unexpected long word is not repeated whole: it could be a pasted token")
  func pastedSecret() {
    let secret = String(repeating: "s3cret", count: 20)
    for line in ["status \(secret)", "status --\(secret)"] {
      let failure = #expect(throws: Failure.self) { try parse(line) }
      #expect(failure?.summary.contains(secret) == false)
    }
  }
}

/// The real table.
@Suite struct TableTests {
  @Test("each command has its own name, a summary without full stop, and options explained")
  func table() {
    #expect(Set(Table.verbs.map(\.name)).count == Table.verbs.count)
    for verb in Table.verbs {
      #expect(!verb.summary.isEmpty && !verb.summary.hasSuffix("."), "\(verb.name)")
      #expect(Set(verb.allOptions.map(\.name)).count == verb.allOptions.count, "\(verb.name)")
      for option in verb.allOptions {
        #expect(!option.help.isEmpty && option.help.count < 90, "\(verb.name) --\(option.name)")
      }
    }
  }

  @Test("help names every command, and each command's page every option")
  func help() {
    let help = Help(verbs: Table.verbs)
    for verb in Table.verbs {
      #expect(help.text(about: []).contains("  \(verb.name) "), "\(verb.name)")
      let page = help.text(about: verb.path)
      for option in verb.allOptions { #expect(page.contains("--\(option.name)"), "\(verb.name) --\(option.name)") }
      for operand in verb.operands { #expect(page.contains(operand.help), "\(verb.name) \(operand.name)") }
    }
    #expect(help.text(about: ["gateways"]).contains("talknode gateways forget GATEWAY"))
  }

  @Test("no line of the help is wider than a terminal")
  func width() {
    let help = Help(verbs: Table.verbs)
    for path in [[]] + Table.verbs.map(\.path) {
      for line in help.text(about: path).split(separator: "\n") where !line.contains("talknode") || !line.contains("[")
      {
        #expect(line.count <= 110, "\(line)")
      }
    }
  }
}
