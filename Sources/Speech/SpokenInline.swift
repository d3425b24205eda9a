/// The marks within a line of Markdown, taken out of what is spoken.
struct SpokenInline {
  let phrases: Phrases

  /// How far a closing mark is looked for. It keeps hostile text from costing more than its length times this.
  private static let reach = 1_000
  private static let depthLimit = 6

  func text(of scalars: [Unicode.Scalar]) -> String {
    var reader = Reader(phrases: phrases, scalars: scalars, depth: 0)
    return reader.read()
  }

  private struct Reader {
    let phrases: Phrases
    let scalars: [Unicode.Scalar]
    let depth: Int
    var at = 0
    var out = String.UnicodeScalarView()

    init(phrases: Phrases, scalars: [Unicode.Scalar], depth: Int) {
      self.phrases = phrases
      self.scalars = scalars
      self.depth = depth
    }

    private func peek(_ offset: Int = 0) -> Unicode.Scalar? {
      let index = at + offset
      return scalars.indices.contains(index) ? scalars[index] : nil
    }

    private func find(_ wanted: Unicode.Scalar, from start: Int) -> Int? {
      let end = min(scalars.count, start + SpokenInline.reach)
      return start < end ? scalars[start..<end].firstIndex(of: wanted) : nil
    }

    private mutating func say(_ text: String) { out.append(contentsOf: text.unicodeScalars) }

    private func nested(_ range: Range<Int>) -> String {
      if depth >= SpokenInline.depthLimit { return String(String.UnicodeScalarView(scalars[range])) }
      var reader = Reader(phrases: phrases, scalars: Array(scalars[range]), depth: depth + 1)
      return reader.read()
    }

    mutating func read() -> String {
      while let scalar = peek() {
        switch scalar {
        case "\\": readEscape()
        case "`": readCode()
        case "!" where peek(1) == "[": readImage()
        case "[": readBracket()
        case "<": readAngle()
        case "&": readEntity()
        case "*", "_", "~": readMarks(scalar)
        case "$" where peek(1) == "$": readFormula(opening: 2, "$$")
        case "|":
          say(", ")
          at += 1
        default:
          if !readAddress() && !readLongCode() { readPlain(scalar) }
        }
      }
      return String(out)
    }

    // MARK: Marks

    private mutating func readEscape() {
      guard let next = peek(1) else {
        at += 1
        return
      }
      if next == "(" { return readFormula(opening: 2, "\\)") }
      // CommonMark §2.4: only ASCII punctuation is escaped; a back-slash before anything else stands for itself.
      let isPunctuation =
        next.isASCII && next.value > 0x20 && next.value < 0x7F && !next.properties.isAlphabetic
        && next.properties.numericType == nil
      out.append(isPunctuation ? next : " ")
      at += isPunctuation ? 2 : 1
    }

    private mutating func readFormula(opening: Int, _ closing: String) {
      let wanted = Array(closing.unicodeScalars)
      var end = at + opening
      let last = min(scalars.count - 1, at + SpokenInline.reach)
      while end < last, !(scalars[end] == wanted[0] && scalars[end + 1] == wanted[1]) { end += 1 }
      guard end < last else {
        at += opening
        return
      }
      say(" " + phrases.formula + " ")
      at = end + 2
    }

    private mutating func readCode() {
      var count = 0
      while peek(count) == "`" { count += 1 }
      var end = at + count
      let last = min(scalars.count, end + SpokenInline.reach)
      while end < last {
        guard scalars[end] == "`" else {
          end += 1
          continue
        }
        var run = 0
        while end + run < scalars.count, scalars[end + run] == "`" { run += 1 }
        if run == count {
          for index in (at + count)..<end { append(scalars[index] == "_" ? " " : scalars[index], next: nil) }
          at = end + run
          return
        }
        end += run
      }
      at += count
    }

    private mutating func readMarks(_ mark: Unicode.Scalar) {
      var count = 0
      while peek(count) == mark { count += 1 }
      let before = at > 0 ? scalars[at - 1] : nil
      let after = peek(count)
      at += count
      let isOpen = before.map { $0.properties.isWhitespace } ?? true
      let isClosed = after.map { $0.properties.isWhitespace } ?? true
      switch mark {
      case "*":
        let isProduct = before?.properties.numericType != nil && after?.properties.numericType != nil
        if count == 1 && ((isOpen && isClosed && before != nil && after != nil) || isProduct) {
          say(isProduct ? " * " : "*")
        }
      case "_":
        // A name with parts is spoken as words.
        if !isOpen && !isClosed { say(isWord(before) && isWord(after) ? " " : "") }
      default:
        if count == 1 { out.append(mark) }
      }
    }

    private func isWord(_ scalar: Unicode.Scalar?) -> Bool {
      guard let properties = scalar?.properties else { return false }
      return properties.isAlphabetic || properties.numericType != nil
    }

    // MARK: Links and pictures

    /// The bracket that closes the one at `start`.
    private func closing(of start: Int) -> Int? {
      var open = 0
      let end = min(scalars.count, start + SpokenInline.reach)
      var index = start
      while index < end {
        switch scalars[index] {
        case "\\": index += 1
        case "[": open += 1
        case "]":
          open -= 1
          if open == 0 { return index }
        default: break
        }
        index += 1
      }
      return nil
    }

    /// Where the `(address "title")` or `[name]` that begins at `start` ends; nil when none begins there.
    private func endOfTarget(_ start: Int) -> Int? {
      guard start < scalars.count else { return nil }
      if scalars[start] == "[" { return find("]", from: start).map { $0 + 1 } }
      guard scalars[start] == "(" else { return nil }
      var open = 0
      let end = min(scalars.count, start + SpokenInline.reach * 4)
      for index in start..<end {
        if scalars[index] == "(" { open += 1 }
        if scalars[index] == ")" {
          open -= 1
          if open == 0 { return index + 1 }
        }
      }
      return nil
    }

    private mutating func readImage() {
      guard let close = closing(of: at + 1), let end = endOfTarget(close + 1) else {
        at += 1
        return
      }
      let name = nested((at + 2)..<close)
      if name.unicodeScalars.contains(where: isWord) { say(phrases.image(name)) }
      at = end
    }

    private mutating func readBracket() {
      guard let close = closing(of: at) else {
        at += 1
        return
      }
      let content = (at + 1)..<close
      if peek(1) == "^" {
        at = close + 1
      } else if peek(1) == "!", content.allSatisfy({ scalars[$0] == "!" || scalars[$0].properties.isAlphabetic }) {
        // GitHub's `[!NOTE]`
        say(nested((at + 2)..<close).lowercased() + ": ")
        at = close + 1
      } else if let end = endOfTarget(close + 1) {
        say(nested(content))
        at = end
      } else {
        say("[" + nested(content) + "]")
        at = close + 1
      }
    }

    // MARK: HTML

    private mutating func readAngle() {
      guard let close = find(">", from: at + 1) else { return readPlain("<") }
      let inner = String(String.UnicodeScalarView(scalars[(at + 1)..<close]))
      if inner.hasPrefix("!--") {
        // The comment's own end, not the first bracket.
        var end = close
        while end < scalars.count, !(scalars[end] == ">" && scalars[end - 1] == "-" && scalars[end - 2] == "-") {
          end += 1
        }
        at = min(end + 1, scalars.count)
        return
      }
      if let host = SpokenInline.host(of: inner) {
        say(phrases.link(host))
      } else if inner.contains("@"), !inner.contains(" "), !inner.contains("=") {
        say(inner.hasPrefix("mailto:") ? String(inner.dropFirst(7)) : inner)
      } else if let tag = HTMLTag(inner) {
        say(tag.spoken)
        if let skipped = tag.contentIsHidden ? skip(to: tag.name, from: close) : nil {
          at = skipped
          return
        }
      } else {
        return readPlain("<")
      }
      at = close + 1
    }

    /// Past the closing tag of `name`.
    private func skip(to name: String, from start: Int) -> Int? {
      let rest = String(String.UnicodeScalarView(scalars[start...])).lowercased()
      guard let range = rest.firstRange(of: "</" + name) else { return scalars.count }
      let offset = rest.unicodeScalars.distance(from: rest.startIndex, to: range.upperBound)
      return find(">", from: start + offset).map { $0 + 1 } ?? scalars.count
    }

    private mutating func readEntity() {
      guard let end = find(";", from: at), end - at <= 12,
        let text = HTMLTag.entity(String(String.UnicodeScalarView(scalars[(at + 1)..<end])))
      else { return readPlain("&") }
      for scalar in text.unicodeScalars { append(scalar, next: nil) }
      at = end + 1
    }

    // MARK: Words

    /// An address stands alone: what is in front of it is no part of a word.
    private mutating func readAddress() -> Bool {
      guard peek() == "h" || peek() == "H" || peek() == "w" || peek() == "W", !(at > 0 && isWord(scalars[at - 1]))
      else { return false }
      let start = String(String.UnicodeScalarView(scalars[at..<min(scalars.count, at + 8)])).lowercased()
      guard start.hasPrefix("http://") || start.hasPrefix("https://") || start.hasPrefix("www.") else { return false }
      var end = at
      while end < scalars.count, !scalars[end].properties.isWhitespace,
        !["<", ">", "\"", "`", "|"].contains(scalars[end])
      { end += 1 }
      var open = 0
      for scalar in scalars[at..<end] { open += scalar == "(" ? 1 : scalar == ")" ? -1 : 0 }
      while end > at {
        let last = scalars[end - 1]
        if last == ")" && open < 0 {
          open += 1
        } else if ![".", ",", ";", ":", "!", "?", "*", "_", "'", "]"].contains(last) {
          break
        }
        end -= 1
      }
      guard let host = SpokenInline.host(of: String(String.UnicodeScalarView(scalars[at..<end]))) else { return false }
      say(phrases.link(host))
      at = end
      return true
    }

    /// Keys, hashes and the like: thirty-two characters and more of letters and digits mixed.
    private mutating func readLongCode() -> Bool {
      guard let first = peek(), SpokenInline.isCode(first), !(at > 0 && SpokenInline.isCode(scalars[at - 1])) else {
        return false
      }
      var end = at
      var digits = 0
      while end < scalars.count, SpokenInline.isCode(scalars[end]) {
        if ("0"..."9").contains(scalars[end]) { digits += 1 }
        end += 1
      }
      if end - at < 32 || digits < 4 || digits == end - at { return false }
      say(phrases.longCode)
      at = end
      return true
    }

    private mutating func readPlain(_ scalar: Unicode.Scalar) {
      append(scalar, next: peek(1))
      at += 1
    }

    private mutating func append(_ scalar: Unicode.Scalar, next: Unicode.Scalar?) {
      switch SpokenInline.kind(of: scalar, next: next) {
      case .spoken: out.append(scalar)
      case .space: out.append(" ")
      case .pause: say(", ")
      case .silent: break
      }
    }
  }

  // MARK: Characters

  enum Kind { case spoken, space, pause, silent }

  private static func isCode(_ scalar: Unicode.Scalar) -> Bool {
    scalar.isASCII
      && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar) || ["-", "+", "/", "="].contains(scalar))
  }

  static func kind(of scalar: Unicode.Scalar, next: Unicode.Scalar?) -> Kind {
    let value = scalar.value
    if value < 0x7F { return value < 0x20 ? .space : .spoken }
    switch value {
    case 0x7F...0x9F, 0xAD, 0x200B...0x200F, 0x202A...0x202E, 0x2060...0x2069, 0x20E3, 0xFE00...0xFE0F, 0xFEFF, 0xFFFC,
      0xE0000...0xE007F:
      return .silent
    case 0xE000...0xF8FF, 0xF0000...0x10FFFF: return .silent
    case 0x2190...0x21FF, 0x27F0...0x27FF, 0x2900...0x297F, 0x2B00...0x2B0F: return .pause
    case 0x2022, 0x2500...0x27BF, 0x1F000...0x1FAFF: return .space
    default: break
    }
    let properties = scalar.properties
    if properties.isEmojiPresentation || (properties.isEmoji && next?.value == 0xFE0F) { return .space }
    return .spoken
  }

  /// `example.org` of a web address; nil for anything else.
  static func host(of address: String) -> String? {
    var rest = address[...]
    if let scheme = ["https://", "http://"].first(where: { address.lowercased().hasPrefix($0) }) {
      rest = rest.dropFirst(scheme.count)
    } else if !address.lowercased().hasPrefix("www.") {
      return nil
    }
    var host = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    if let at = host.lastIndex(of: "@") { host = host[host.index(after: at)...] }
    if let colon = host.lastIndex(of: ":"), host[colon...].dropFirst().allSatisfy(\.isNumber) { host = host[..<colon] }
    if host.lowercased().hasPrefix("www.") { host = host.dropFirst(4) }
    return host.isEmpty || host.contains(where: \.isWhitespace) ? nil : String(host)
  }
}
