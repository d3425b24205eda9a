/// One thing that the program can be told to do: an entry of the table from which parsing, help and the manual are made.
struct Verb: Sendable {
  /// The words that choose it, for example `gateways use`.
  let path: [String]
  /// One line for the list, without a full stop.
  let summary: String
  let operands: [Operand]
  /// Its own options; `Option.everywhere` is added.
  let options: [Option]
  /// Paragraphs under its help.
  let notes: [String]
  let run: @Sendable (Arguments, Terminal) async throws(Failure) -> ExitStatus

  init(
    _ path: String, _ summary: String, operands: [Operand] = [], options: [Option] = [], notes: [String] = [],
    run: @escaping @Sendable (Arguments, Terminal) async throws(Failure) -> ExitStatus
  ) {
    self.path = path.split(separator: " ").map(String.init)
    self.summary = summary
    self.operands = operands
    self.options = options
    self.notes = notes
    self.run = run
  }

  var name: String { path.joined(separator: " ") }
  var allOptions: [Option] { options + Option.everywhere }
  /// `talknode pair CODE [--trust SHA256] …`
  var usage: String {
    let words = operands.map(\.usage) + options.map { "[\($0.usage)]" }
    return (["talknode", name] + words).joined(separator: " ")
  }
}

/// A word that is no option.
struct Operand: Sendable, Equatable {
  let name: String
  let help: String
  let isOptional: Bool
  /// The words that it can be, where they are known; for completion.
  let words: [String]

  init(_ name: String, _ help: String, isOptional: Bool = false, _ words: [String] = []) {
    self.name = name
    self.help = help
    self.isOptional = isOptional
    self.words = words
  }

  var usage: String { isOptional ? "[\(name)]" : name }
}

/// `--name` or `--name VALUE`.
struct Option: Sendable, Equatable {
  let name: String
  /// What stands for its value in help; nil for a switch.
  let value: String?
  let help: String

  init(_ name: String, value: String? = nil, _ help: String) {
    self.name = name
    self.value = value
    self.help = help
  }

  var usage: String { "--\(name)" + (value.map { " \($0)" } ?? "") }

  static let state = Option("state", value: "DIR", "where identity, tokens and switches are kept")
  static let help = Option("help", "show this help")
  static let json = Option("json", "one JSON object, with keys that stay")
  static let config = Option("config", value: "FILE", "settings from FILE in place of the user's own")

  static let noColour = Option("no-color", "no colours, as with NO_COLOR in the environment")

  static let everywhere = [state, noColour, help]
}

/// A command line that fits a verb.
struct Arguments: Sendable, Equatable {
  var operands: [String] = []
  var values: [String: [String]] = [:]

  /// The value given last.
  subscript(_ option: Option) -> String? { values[option.name]?.last }
  func has(_ option: Option) -> Bool { values[option.name] != nil }
  /// The nth operand; nil when fewer were given.
  subscript(_ index: Int) -> String? { operands.indices.contains(index) ? operands[index] : nil }
}
