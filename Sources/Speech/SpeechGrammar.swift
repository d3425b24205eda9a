import System

/// The sentences that pocketsphinx listens for, as a grammar in the Java Speech Grammar Format.
///
/// With a grammar it is quick and sure, and hears nothing else: whatever is said becomes one of these sentences or nothing.
public struct SpeechGrammar: Sendable, Equatable {
  /// The grammar's text.
  public let jsgf: String
  /// The words in it, in lower case, sorted.
  public let words: [String]

  /// A longer grammar is refused, in bytes.
  public static let limit = 256 << 10

  /// A grammar of whole sentences. Their punctuation is left out and their case does not matter. Throws `invalidSetting` when nothing
  /// is left.
  public init(sentences: [String]) throws(SpeechError) {
    let cleaned = sentences.map(SpeechGrammar.normalized).filter { !$0.isEmpty }
    if cleaned.isEmpty { throw SpeechError(.invalidSetting, "The list of sentences to listen for is empty.") }
    var seen: Set<String> = []
    let unique = cleaned.filter { seen.insert($0).inserted }
    try self.init(
      jsgf: "#JSGF V1.0;\ngrammar sentences;\npublic <sentence> = " + unique.joined(separator: "\n  | ") + ";\n")
  }

  /// A grammar as written by hand. Throws `invalidSetting` when it is none.
  public init(jsgf: String) throws(SpeechError) {
    func refuse(_ why: String) -> SpeechError {
      SpeechError(
        .invalidSetting, "The grammar \(why).",
        remedy: "A grammar looks like: #JSGF V1.0; grammar g; public <s> = turn on the light | stop;")
    }
    if jsgf.utf8.count > SpeechGrammar.limit { throw refuse("is longer than \(SpeechGrammar.limit >> 10) KiB") }
    let body = SpeechGrammar.withoutComments(jsgf)
    guard body.trimmed.hasPrefix("#JSGF") else { throw refuse("does not begin with #JSGF") }
    guard body.contains("public") else { throw refuse("has no public rule") }
    var words: Set<String> = []
    // After the header, what is not a mark, a rule's name, a weight or a tag is a word.
    for statement in body.split(separator: ";").dropFirst() {
      guard let equals = statement.firstIndex(of: "=") else { continue }
      for word in SpeechGrammar.words(statement[statement.index(after: equals)...]) { words.insert(word) }
    }
    if words.isEmpty { throw refuse("has no words in it") }
    self.jsgf = jsgf
    self.words = words.sorted()
  }

  /// Lower case, single spaces, no punctuation but apostrophes within words: how the recogniser writes.
  public static func normalized(_ sentence: String) -> String {
    let spaced = sentence.prefix(1_000).lowercased().map { character -> Character in
      if character == "’" { return "'" }
      return character.isLetter || character.isNumber || character == "'" || character == "-" ? character : " "
    }
    return String(spaced).split(separator: " ").map { $0.trimmed }
      .map { word in String(word.drop { $0 == "'" || $0 == "-" }) }.filter { !$0.isEmpty }.joined(separator: " ")
  }

  private static func words(_ expansion: Substring) -> [String] {
    var words: [String] = []
    var word = ""
    var closing: Character?
    func end() {
      if !word.isEmpty { words.append(word.lowercased()) }
      word = ""
    }
    for character in expansion {
      if let wanted = closing {
        if character == wanted { closing = nil }
        continue
      }
      switch character {
      case "<": (closing, _) = (">", end())
      case "{": (closing, _) = ("}", end())
      case "/": (closing, _) = ("/", end())
      case "(", ")", "[", "]", "|", "*", "+", "\"", "=": end()
      case _ where character.isWhitespace: end()
      default: word.append(character)
      }
    }
    end()
    return words
  }

  private static func withoutComments(_ text: String) -> String {
    var out = ""
    var rest = text[...]
    while let slash = rest.firstIndex(of: "/") {
      out += rest[..<slash]
      rest = rest[slash...]
      if rest.hasPrefix("//") {
        rest = rest.drop { !$0.isNewline }
      } else if rest.hasPrefix("/*") {
        rest = rest.firstRange(of: "*/").map { rest[$0.upperBound...] } ?? ""
        out += " "
      } else {
        out.append("/")
        rest = rest.dropFirst()
      }
    }
    return out + rest
  }
}
