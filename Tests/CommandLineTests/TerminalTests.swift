import System
import Testing

@testable import talknode

/// What is shown on a terminal is text, whoever it came from.
@Suite struct TerminalTests {
  private func shown(isColoured: Bool = false, _ body: (Terminal) -> Void) -> String {
    let bytes = Lock<[UInt8]>([])
    var terminal = Terminal(
      output: { more in bytes.withLock { $0 += more } }, diagnostics: { more in bytes.withLock { $0 += more } })
    terminal.isColoured = isColoured
    body(terminal)
    return String(decoding: bytes.withLock { $0 }, as: UTF8.self)
  }

  @Test("what would move the cursor, clear the screen or rename the window is blank", arguments: [false, true])
  func escapes(isColoured: Bool) {
    let hostile = "1\u{1B}[2J\u{1B}]0;mine\u{7}\u{9B}2J\r\u{8}é"
    for text in [
      shown(isColoured: isColoured, { $0.print(hostile) }), shown(isColoured: isColoured, { $0.note(hostile) }),
    ] {
      #expect(text == "1 [2J ]0;mine  2J  é\n")
    }
  }

  @Test("a cell of a table stays on its line")
  func cells() {
    #expect(shown { $0.print(table: [["a\nb", "c"], ["d", "\u{1B}[1Ae"]]) } == "a b  c\nd     [1Ae\n")
  }

  @Test("our own colours come through where they show, line ends and tabs always")
  func colours() {
    let text = shown(isColoured: true) { $0.print($0.styled("good", .good) + "\n\tmore") }
    #expect(text == "\u{1B}[32mgood\u{1B}[0m\n\tmore\n")
  }
}
