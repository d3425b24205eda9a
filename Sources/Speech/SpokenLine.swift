/// One line of Markdown, and what kind of line its beginning makes it.
struct SpokenLine {
  var scalars: ArraySlice<Unicode.Scalar>

  init(_ scalars: [Unicode.Scalar]) { self.scalars = scalars[...] }
  private init(slice: ArraySlice<Unicode.Scalar>) { scalars = slice }

  /// Columns of white space in front; a tab goes to the next multiple of four.
  var indent: Int {
    var columns = 0
    for scalar in scalars {
      if scalar == " " { columns += 1 } else if scalar == "\t" { columns += 4 - columns % 4 } else { break }
    }
    return columns
  }

  var trimmed: ArraySlice<Unicode.Scalar> {
    let start = scalars.firstIndex { !$0.properties.isWhitespace } ?? scalars.endIndex
    let end = scalars.lastIndex { !$0.properties.isWhitespace }.map { $0 + 1 } ?? start
    return scalars[start..<max(start, end)]
  }

  var isBlank: Bool { trimmed.isEmpty }
  /// Characters that are no white space.
  var weight: Int { scalars.reduce(0) { $0 + ($1.properties.isWhitespace ? 0 : 1) } }

  func begins(with text: String) -> Bool {
    let start = trimmed.prefix(text.unicodeScalars.count)
    return String(String.UnicodeScalarView(start)).lowercased() == text
  }

  func contains(_ text: String) -> Bool {
    String(String.UnicodeScalarView(scalars)).lowercased().contains(text)
  }

  /// Without the `>` of a quotation.
  var unquoted: SpokenLine {
    var line = trimmed
    var isQuoted = false
    while line.first == ">" {
      isQuoted = true
      line = line.dropFirst()
      if line.first == " " { line = line.dropFirst() }
    }
    return isQuoted ? SpokenLine(slice: line) : self
  }

  /// The mark that opens a fence, and the word after it.
  var fence: (mark: Unicode.Scalar, count: Int, language: String)? {
    let line = trimmed
    guard indent < 4 || true, let mark = line.first, mark == "`" || mark == "~" else { return nil }
    let count = line.prefix { $0 == mark }.count
    let info = line.dropFirst(count)
    // CommonMark §4.5: a fence of back-ticks has none behind it, else it is code within a line.
    if count < 3 || (mark == "`" && info.contains("`")) { return nil }
    let word = info.drop { $0 == " " || $0 == "{" || $0 == "." }
      .prefix { $0.properties.isAlphabetic || $0.properties.numericType != nil || $0 == "+" || $0 == "#" || $0 == "-" }
    return (mark, count, String(String.UnicodeScalarView(word.prefix(20))))
  }

  func closes(_ mark: Unicode.Scalar, _ count: Int) -> Bool {
    let line = trimmed
    return line.count >= count && line.allSatisfy { $0 == mark }
  }

  /// `# Heading #` without its marks.
  var heading: ArraySlice<Unicode.Scalar>? {
    let line = trimmed
    let level = line.prefix { $0 == "#" }.count
    let rest = line.dropFirst(level)
    if !(1...6).contains(level) || !(rest.isEmpty || rest.first!.properties.isWhitespace) { return nil }
    var text = rest
    while text.last == "#" || text.last == " " { text = text.dropLast() }
    return text
  }

  /// `---`, `***`, `___`, `===`: a rule, or the line under a heading.
  var isRule: Bool {
    let marks = trimmed.filter { !$0.properties.isWhitespace }
    guard marks.count >= 3 || (marks.count >= 1 && marks.allSatisfy { $0 == "=" }), let mark = marks.first else {
      return false
    }
    return ["-", "*", "_", "="].contains(mark) && marks.allSatisfy { $0 == mark }
  }

  /// A list item: its number (nil for a bullet), its check box and its text.
  var item: (number: String?, box: Bool?, text: ArraySlice<Unicode.Scalar>)? {
    let line = trimmed
    var number: String?
    var rest: ArraySlice<Unicode.Scalar>
    if let mark = line.first, ["-", "*", "+", "•", "◦", "▪", "‣"].contains(mark) {
      rest = line.dropFirst()
    } else {
      let digits = line.prefix { ("0"..."9").contains($0) }
      rest = line.dropFirst(digits.count)
      if digits.isEmpty || digits.count > 9 || !(rest.first == "." || rest.first == ")") { return nil }
      number = String(String.UnicodeScalarView(digits))
      rest = rest.dropFirst()
    }
    if let space = rest.first, !space.properties.isWhitespace { return nil }
    rest = rest.drop { $0.properties.isWhitespace }
    var box: Bool?
    if rest.count > 3, rest.first == "[", rest[rest.startIndex + 2] == "]", rest[rest.startIndex + 3] == " " {
      let mark = rest[rest.startIndex + 1]
      if mark == " " { box = false } else if mark == "x" || mark == "X" { box = true }
      if box != nil { rest = rest.dropFirst(4) }
    }
    return (number, box, rest)
  }

  /// `[name]: address` or `[^1]: note`.
  var isDefinition: Bool {
    let line = trimmed
    guard line.first == "[", let close = line.firstIndex(of: "]") else { return false }
    let rest = line[(close + 1)...]
    guard rest.first == ":" else { return false }
    let isNote = line.dropFirst().first == "^"
    let target = SpokenLine(slice: rest.dropFirst()).trimmed
    return isNote || !target.contains(" ") || target.contains("\"") || target.first == "<"
  }

  /// The cells of a table row; nil when there is no bar in it.
  var cells: [[Unicode.Scalar]]? {
    var line = trimmed
    guard line.contains("|") else { return nil }
    if line.first == "|" { line = line.dropFirst() }
    var cells: [[Unicode.Scalar]] = [[]]
    var isEscaped = false
    var isCode = false
    for scalar in line {
      if scalar == "`" { isCode.toggle() }
      if scalar == "|" && !isEscaped && !isCode {
        cells.append([])
      } else {
        if scalar == "|" && isEscaped { cells[cells.count - 1].removeLast() }
        cells[cells.count - 1].append(scalar)
      }
      isEscaped = scalar == "\\" && !isEscaped
    }
    if SpokenLine(cells[cells.count - 1]).isBlank { cells.removeLast() }
    return cells
  }

  /// The line of dashes under a table's head.
  func isDelimiter(of columns: Int) -> Bool {
    guard let cells = cells ?? (columns == 1 ? [Array(trimmed)] : nil), cells.count == columns else { return false }
    return cells.allSatisfy { cell in
      let marks = SpokenLine(cell).trimmed
      let dashes = marks.filter { $0 == "-" }.count
      let colons = (marks.first == ":" ? 1 : 0) + (marks.count > 1 && marks.last == ":" ? 1 : 0)
      return dashes > 0 && dashes + colons == marks.count
    }
  }
}
