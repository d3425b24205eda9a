import GatewayProtocol
import Glibc
import System

/// Where a command's words go: data to standard output, everything else to standard error.
struct Terminal: Sendable {
  /// Whether standard output shows colours. Never with NO_COLOR (no-color.org) or into a file.
  var isColoured: Bool
  /// Whether a person can answer questions.
  let isInteractive: Bool
  private let output: @Sendable ([UInt8]) -> Void
  private let diagnostics: @Sendable ([UInt8]) -> Void

  /// The process's own.
  init(environment: [String: String]) {
    let isUnwanted = environment["NO_COLOR"].map { !$0.isEmpty } ?? false
    isColoured = isatty(STDOUT_FILENO) == 1 && !isUnwanted && environment["TERM"] != "dumb"
    isInteractive = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1
    output = { Terminal.write($0, to: STDOUT_FILENO) }
    diagnostics = { Terminal.write($0, to: STDERR_FILENO) }
  }

  /// Into memory, for tests.
  init(output: @escaping @Sendable ([UInt8]) -> Void, diagnostics: @escaping @Sendable ([UInt8]) -> Void) {
    isColoured = false
    isInteractive = false
    self.output = output
    self.diagnostics = diagnostics
  }

  /// A line of data.
  func print(_ line: String) { output(Array((harmless(line) + "\n").utf8)) }
  /// A JSON object on a line of its own.
  func print(_ json: JSON) { output(json.encoded() + [UInt8(ascii: "\n")]) }
  /// Bytes as they are.
  func print(bytes: [UInt8]) { output(bytes) }
  /// A line for the person who watches.
  func note(_ line: String) { diagnostics(Array((harmless(line) + "\n").utf8)) }
  /// A line that is written over by the next; nothing where nobody watches.
  func noteInPlace(_ line: String) {
    if isInteractive { diagnostics(Array(("\r\u{1B}[K" + harmless(line).suffix(100)).utf8)) }
  }
  /// A line in the place of one that would be written over.
  func noteOver(_ line: String) {
    if isInteractive { diagnostics(Array("\r\u{1B}[K".utf8)) }
    note(line)
  }
  /// The same without a line end, for a question.
  func prompt(_ text: String) { diagnostics(Array(text.utf8)) }

  func show(_ failure: Failure) {
    note("talknode: \(failure.summary)")
    if let cause = failure.cause { note("  cause: \(cause)") }
    if let remedy = failure.remedy { note("  try:   \(remedy)") }
  }

  enum Style: String, Sendable {
    case good = "32"
    case warning = "33"
    case bad = "31"
    case faint = "2"
    case strong = "1"
  }

  /// `text`, coloured where colours show.
  func styled(_ text: String, _ style: Style) -> String {
    isColoured ? "\u{1B}[\(style.rawValue)m\(text)\u{1B}[0m" : text
  }

  /// `text` without what moves a cursor, clears a screen or renames a window: some of it comes from gateways and devices. Line ends and
  /// tabs stay, and so do colours where they show.
  private func harmless(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F || $0 == 0x0A || $0 == 0x09 }
    if isPlain { return text }
    var out = String.UnicodeScalarView()
    let scalars = Array(text.unicodeScalars)
    for (index, scalar) in scalars.enumerated() {
      let isControl = scalar.properties.generalCategory == .control && scalar != "\n" && scalar != "\t"
      out.append(isControl && !(isColoured && isColour(scalars[index...])) ? " " : scalar)
    }
    return String(out)
  }

  /// Whether a sequence of `styled` begins here.
  private func isColour(_ scalars: ArraySlice<Unicode.Scalar>) -> Bool {
    guard scalars.starts(with: ["\u{1B}", "["]) else { return false }
    return scalars.dropFirst(2).first { !("0"..."9" ~= $0) } == "m"
  }

  /// Rows in columns that line up, two spaces between.
  func print(table rows: [[String]]) {
    let rows = rows.map { $0.map { $0.split(separator: "\n").joined(separator: " ") } }
    let columns = rows.map(\.count).max() ?? 0
    let widths = (0..<columns).map { column in rows.map { $0.count > column ? $0[column].count : 0 }.max() ?? 0 }
    for row in rows {
      let cells = row.enumerated().map { index, cell in
        index == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[index] - cell.count)
      }
      print(cells.joined(separator: "  "))
    }
  }

  private static func write(_ bytes: [UInt8], to descriptor: Int32) {
    do { try Files.write(bytes, to: descriptor, named: "output") } catch {
      // The reader has gone (`talknode status --follow | head -1`): end as SIGPIPE would have, which is not raised here.
      if descriptor == STDOUT_FILENO { exit(error.code == EPIPE ? 141 : ExitStatus.ioError.code) }
    }
  }
}
