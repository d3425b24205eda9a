/// A tag within Markdown, as far as it matters to what is spoken.
struct HTMLTag {
  let name: String
  private let isClosing: Bool
  private let isKnown: Bool
  private let hasAttributes: Bool

  /// `inner` is what stands between the angle brackets. Nil when that is no tag, as in `a < b`.
  init?(_ inner: String) {
    var rest = inner[...]
    isClosing = rest.hasPrefix("/")
    if isClosing { rest = rest.dropFirst() }
    let name = rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
    guard let first = name.first, first.isLetter else {
      // A declaration or a processing instruction.
      guard inner.first == "!" || inner.first == "?" else { return nil }
      self.name = ""
      isKnown = true
      hasAttributes = true
      return
    }
    rest = rest.dropFirst(name.count)
    guard rest.isEmpty || rest.first == " " || rest.first == "/" || rest.first == "\t" else { return nil }
    self.name = name.lowercased()
    hasAttributes = rest.contains("=")
    isKnown =
      HTMLTag.breaking.contains(self.name) || HTMLTag.cells.contains(self.name) || HTMLTag.inline.contains(self.name)
    // "if a <b and c> d" is no tag, although it could be one.
    if !isKnown && !hasAttributes && !rest.isEmpty && rest != "/" && rest != " /" { return nil }
  }

  var contentIsHidden: Bool { !isClosing && ["script", "style", "svg", "math"].contains(name) }

  /// What takes its place: a pause, nothing, or the word itself where a writer used `<name>` for something to be filled in.
  var spoken: String {
    if HTMLTag.breaking.contains(name) { return "\n" }
    if HTMLTag.cells.contains(name) { return isClosing ? ", " : "" }
    if isKnown || isClosing || hasAttributes { return "" }
    return " " + name + " "
  }

  /// The text of `&name;`, `&#8211;` or `&#x2013;`; nil for an unknown one.
  static func entity(_ name: String) -> String? {
    if name.hasPrefix("#") {
      let digits = name.dropFirst()
      let isHexadecimal = digits.first == "x" || digits.first == "X"
      let value = isHexadecimal ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
      return value.flatMap(Unicode.Scalar.init).map { String($0) }
    }
    return entities[name]
  }

  private static let breaking: Set<String> = [
    "address", "article", "blockquote", "br", "center", "dd", "details", "div", "dl", "dt", "figure", "footer", "h1",
    "h2", "h3",
    "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section", "summary", "table",
    "tbody",
    "thead", "tr", "ul",
  ]
  private static let cells: Set<String> = ["td", "th"]
  private static let inline: Set<String> = [
    "a", "abbr", "audio", "b", "bdi", "bdo", "big", "button", "caption", "cite", "code", "col", "del", "dfn", "em",
    "figcaption", "font", "form", "i", "iframe", "img", "input", "ins", "kbd", "label", "link", "mark", "math", "meta",
    "object",
    "picture", "q", "s", "samp", "script", "select", "small", "source", "span", "strike", "strong", "style", "sub",
    "sup",
    "svg", "template", "tfoot", "time", "tt", "u", "var", "video", "wbr",
  ]
  private static let entities = [
    "amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": " ", "ndash": "–", "mdash": "—", "hellip": "…",
    "lsquo": "‘", "rsquo": "’", "ldquo": "“", "rdquo": "”", "laquo": "«", "raquo": "»", "deg": "°", "euro": "€",
    "pound": "£", "yen": "¥", "cent": "¢", "copy": "©", "reg": "®", "trade": "™", "times": "×", "divide": "÷",
    "plusmn": "±", "frac12": "½", "frac14": "¼", "frac34": "¾", "micro": "µ", "middot": "·", "bull": " ", "sect": "§",
    "para": "¶", "larr": "←", "rarr": "→", "auml": "ä", "ouml": "ö", "uuml": "ü", "Auml": "Ä", "Ouml": "Ö",
    "Uuml": "Ü", "szlig": "ß", "eacute": "é", "egrave": "è", "agrave": "à", "ccedil": "ç", "ntilde": "ñ", "shy": "",
  ]
}
