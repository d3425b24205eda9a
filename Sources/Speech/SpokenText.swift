import System

/// What of an answer is fit to be spoken.
///
/// Agents write Markdown for the eye. Marks, addresses, pictures and code are taken out or announced; every block ends in a way that
/// makes the voice pause. Numbers and abbreviations are the voice's own business. Total, and bounded in time and length, for any text.
public struct SpokenText: Sendable {
  /// Longer answers are cut before they are looked at, in characters.
  static let inputLimit = 60_000
  /// A longer table is read so far, in rows.
  static let rowLimit = 10

  let phrases: Phrases
  /// What is spoken ends after about so many characters, at the end of a block, and says that there is more.
  let limit: Int

  /// `language`, a BCP-47 name, decides in which words things are announced.
  public init(language: String? = nil, limit: Int = 12_000) {
    phrases = Phrases(language: language)
    self.limit = limit
  }

  /// The text for the voice; empty when there is nothing to say.
  public func text(of markdown: String) -> String {
    var blocks = SpokenBlocks(phrases: phrases)
    // Scalars, so that "\r\n", which is one character, is two line ends at worst.
    let lines = markdown.prefix(SpokenText.inputLimit).unicodeScalars.split(
      omittingEmptySubsequences: false,
      whereSeparator: { $0 == "\n" || $0 == "\r" || $0 == "\u{2028}" || $0 == "\u{2029}" })
    blocks.read(lines.map { SpokenLine(Array($0)) })
    if blocks.codeLength > 0 && blocks.codeLength >= blocks.proseLength { return phrases.codeOnScreen }
    var spoken = ""
    for block in blocks.blocks {
      for line in block.split(separator: "\n") {
        let sentence = SpokenText.sentence(String(line))
        if sentence.isEmpty { continue }
        if spoken.count + sentence.count > limit && !spoken.isEmpty { return spoken + "\n" + phrases.restOnScreen }
        spoken += (spoken.isEmpty ? "" : "\n") + sentence.prefix(limit)
      }
    }
    return spoken
  }

  /// White space made single, none before punctuation, and an end at which the voice pauses.
  static func sentence(_ line: String) -> String {
    var out: [Unicode.Scalar] = []
    var pendingSpace = false
    for scalar in line.unicodeScalars {
      let kind = SpokenInline.kind(of: scalar, next: nil)
      if kind == .silent { continue }
      if kind == .space || scalar.properties.isWhitespace {
        pendingSpace = true
        continue
      }
      let clings = [",", ".", "!", "?", ";", ":", ")", "]"].contains(scalar)
      // What stood between was taken out: two commas in a row are one.
      if scalar == "," && (out.last == "," || out.isEmpty) { continue }
      if pendingSpace && !out.isEmpty && !(clings && !isOpening(out.last)) { out.append(" ") }
      pendingSpace = false
      out.append(scalar)
    }
    guard out.contains(where: { $0.properties.isAlphabetic || $0.properties.numericType != nil }) else { return "" }
    while let last = out.last, last == "," || last == " " { out.removeLast() }
    var end = out.count - 1
    while end > 0, ["\"", "'", ")", "]", "”", "’", "»", "»"].contains(out[end]) { end -= 1 }
    var text = String(String.UnicodeScalarView(out))
    if ![".", "!", "?", ":", ";", "…", "。", "！", "？", "：", "।", "؟", "።"].contains(out[end]) { text += "." }
    return text
  }

  private static func isOpening(_ scalar: Unicode.Scalar?) -> Bool { scalar == "(" || scalar == "[" }
}

/// What is said in place of things that can't be spoken.
struct Phrases: Sendable {
  let codeOnScreen: String
  let code: String
  let codeIn: @Sendable (String) -> String
  let link: @Sendable (String) -> String
  let image: @Sendable (String) -> String
  let formula: String
  let longCode: String
  let moreRows: @Sendable (Int) -> String
  let done: String
  let toDo: String
  let restOnScreen: String

  init(language: String?) {
    switch VoiceChoice.chain(for: language).first(where: { Phrases.all[$0] != nil }) {
    case let tag?: self = Phrases.all[tag]!
    case nil: self = Phrases.english
    }
  }

  private init(
    codeOnScreen: String, code: String, codeIn: @escaping @Sendable (String) -> String,
    link: @escaping @Sendable (String) -> String, image: @escaping @Sendable (String) -> String, formula: String,
    longCode: String, moreRows: @escaping @Sendable (Int) -> String, done: String, toDo: String, restOnScreen: String
  ) {
    self.codeOnScreen = codeOnScreen
    self.code = code
    self.codeIn = codeIn
    self.link = link
    self.image = image
    self.formula = formula
    self.longCode = longCode
    self.moreRows = moreRows
    self.done = done
    self.toDo = toDo
    self.restOnScreen = restOnScreen
  }

  private static let all: [String: Phrases] = ["en": english, "de": german, "fr": french, "es": spanish, "nl": dutch]

  private static let english = Phrases(
    codeOnScreen: "The code is on screen.", code: "A code block is on screen.",
    codeIn: { "A \($0) code block is on screen." }, link: { "link to \($0)" }, image: { "picture: \($0)" },
    formula: "a formula", longCode: "a long code", moreRows: { "And \($0) more rows." }, done: "done:", toDo: "to do:",
    restOnScreen: "The rest is on screen.")
  private static let german = Phrases(
    codeOnScreen: "Der Code steht auf dem Bildschirm.", code: "Ein Codeblock steht auf dem Bildschirm.",
    codeIn: { "Ein Codeblock in \($0) steht auf dem Bildschirm." }, link: { "Link zu \($0)" }, image: { "Bild: \($0)" },
    formula: "eine Formel", longCode: "ein langer Code", moreRows: { "Und \($0) weitere Zeilen." }, done: "erledigt:",
    toDo: "zu tun:", restOnScreen: "Der Rest steht auf dem Bildschirm.")
  private static let french = Phrases(
    codeOnScreen: "Le code est à l'écran.", code: "Un bloc de code est à l'écran.",
    codeIn: { "Un bloc de code \($0) est à l'écran." }, link: { "lien vers \($0)" }, image: { "image : \($0)" },
    formula: "une formule", longCode: "un long code", moreRows: { "Et \($0) autres lignes." }, done: "fait :",
    toDo: "à faire :", restOnScreen: "La suite est à l'écran.")
  private static let spanish = Phrases(
    codeOnScreen: "El código está en la pantalla.", code: "Un bloque de código está en la pantalla.",
    codeIn: { "Un bloque de código \($0) está en la pantalla." }, link: { "enlace a \($0)" },
    image: { "imagen: \($0)" },
    formula: "una fórmula", longCode: "un código largo", moreRows: { "Y \($0) filas más." }, done: "hecho:",
    toDo: "por hacer:", restOnScreen: "El resto está en la pantalla.")
  private static let dutch = Phrases(
    codeOnScreen: "De code staat op het scherm.", code: "Een codeblok staat op het scherm.",
    codeIn: { "Een codeblok in \($0) staat op het scherm." }, link: { "link naar \($0)" },
    image: { "afbeelding: \($0)" }, formula: "een formule", longCode: "een lange code",
    moreRows: { "En nog \($0) rijen." }, done: "gedaan:", toDo: "te doen:", restOnScreen: "De rest staat op het scherm."
  )
}
