/// Markdown taken apart into blocks, each in the words that are to be spoken.
struct SpokenBlocks {
  private(set) var blocks: [String] = []
  /// Characters of code and of all else, white space not counted.
  private(set) var codeLength = 0
  private(set) var proseLength = 0

  private let phrases: Phrases
  private let inline: SpokenInline
  private var paragraph: [Unicode.Scalar] = []

  init(phrases: Phrases) {
    self.phrases = phrases
    inline = SpokenInline(phrases: phrases)
  }

  mutating func read(_ lines: [SpokenLine]) {
    var at = 0
    var isInList = false
    while at < lines.count {
      let line = lines[at].unquoted
      if line.isBlank {
        endParagraph()
        at += 1
      } else if let fence = line.fence {
        at = readFence(lines, from: at, fence)
      } else if line.indent >= 4, paragraph.isEmpty, !isInList {
        at = readIndented(lines, from: at)
      } else if line.begins(with: "<!--") {
        at = skip(lines, from: at, until: "-->", isCode: false)
      } else if line.begins(with: "<script") || line.begins(with: "<style") {
        at = skip(lines, from: at, until: line.begins(with: "<script") ? "</script" : "</style", isCode: false)
      } else if line.begins(with: "<pre") {
        at = skip(lines, from: at, until: "</pre", isCode: true)
      } else if line.begins(with: "$$") || line.begins(with: "\\[") {
        at = readFormula(lines, from: at, closing: line.begins(with: "$$") ? "$$" : "\\]")
      } else if let end = readTable(lines, from: at) {
        at = end
      } else {
        read(line, &isInList)
        at += 1
      }
    }
    endParagraph()
  }

  /// A line that is a block by itself, or one of a paragraph.
  private mutating func read(_ line: SpokenLine, _ isInList: inout Bool) {
    if line.isRule {
      endParagraph()
    } else if let heading = line.heading {
      isInList = false
      endParagraph()
      proseLength += line.weight
      add(inline.text(of: Array(heading)))
    } else if let item = line.item {
      isInList = true
      endParagraph()
      proseLength += line.weight
      if let number = item.number { paragraph += (number + ". ").unicodeScalars }
      if let box = item.box { paragraph += ((box ? phrases.done : phrases.toDo) + " ").unicodeScalars }
      paragraph += item.text
    } else if line.isDefinition {
      endParagraph()
    } else {
      if line.indent == 0 { isInList = isInList && !paragraph.isEmpty }
      proseLength += line.weight
      let text = line.trimmed
      // Two spaces at its end make a line break, as does a back-slash.
      let isBroken = line.scalars.count >= 2 && line.scalars.suffix(2).allSatisfy { $0 == " " }
      if !paragraph.isEmpty { paragraph.append(" ") }
      paragraph += text
      if isBroken { endParagraph() }
    }
  }

  private mutating func add(_ text: String) { blocks.append(text) }

  private mutating func endParagraph() {
    if paragraph.isEmpty { return }
    add(inline.text(of: paragraph))
    paragraph = []
  }

  private mutating func readFence(
    _ lines: [SpokenLine], from start: Int, _ fence: (mark: Unicode.Scalar, count: Int, language: String)
  ) -> Int {
    endParagraph()
    var at = start + 1
    while at < lines.count {
      let line = lines[at].unquoted
      at += 1
      if line.closes(fence.mark, fence.count) { break }
      codeLength += line.weight
    }
    addCode(language: fence.language)
    return at
  }

  private mutating func addCode(language: String) {
    let isNamed = !["", "text", "txt", "plain", "plaintext", "none", "output", "console"].contains(
      language.lowercased())
    add(isNamed ? phrases.codeIn(language) : phrases.code)
  }

  /// Four columns of white space after an empty line make code (CommonMark §4.4).
  private mutating func readIndented(_ lines: [SpokenLine], from start: Int) -> Int {
    var at = start
    while at < lines.count, lines[at].isBlank || lines[at].indent >= 4 {
      codeLength += lines[at].weight
      at += 1
    }
    add(phrases.code)
    return at
  }

  private mutating func skip(_ lines: [SpokenLine], from start: Int, until end: String, isCode: Bool) -> Int {
    endParagraph()
    var at = start
    while at < lines.count {
      let line = lines[at]
      at += 1
      if isCode { codeLength += line.weight }
      if line.contains(end) { break }
    }
    if isCode { addCode(language: "") }
    return at
  }

  private mutating func readFormula(_ lines: [SpokenLine], from start: Int, closing: String) -> Int {
    endParagraph()
    let opening = Array(lines[start].unquoted.trimmed.dropFirst(2))
    var at = start + 1
    proseLength += 1
    if !SpokenLine(opening).contains(closing) {
      while at < lines.count {
        at += 1
        if lines[at - 1].contains(closing) { break }
      }
    }
    add(phrases.formula)
    return at
  }

  /// The line after the table, or nil when none begins at `start`.
  private mutating func readTable(_ lines: [SpokenLine], from start: Int) -> Int? {
    guard start + 1 < lines.count, let head = lines[start].unquoted.cells,
      lines[start + 1].unquoted.isDelimiter(of: head.count)
    else { return nil }
    endParagraph()
    proseLength += lines[start].weight
    let names = head.map { bare($0) }
    var at = start + 2
    var rows = 0
    while at < lines.count, let cells = lines[at].unquoted.cells {
      proseLength += lines[at].weight
      at += 1
      rows += 1
      if rows > SpokenText.rowLimit { continue }
      let spoken = cells.prefix(names.count).enumerated().compactMap { index, cell -> String? in
        let value = bare(cell)
        if value.isEmpty { return nil }
        return names[index].isEmpty || names.count == 1 ? value : names[index] + ": " + value
      }
      add(spoken.joined(separator: ", "))
    }
    if rows > SpokenText.rowLimit { add(phrases.moreRows(rows - SpokenText.rowLimit)) }
    return at
  }

  private func bare(_ cell: [Unicode.Scalar]) -> String {
    inline.text(of: Array(SpokenLine(cell).trimmed)).split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }
}
