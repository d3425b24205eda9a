import TestSupport
import Testing

@testable import System

@Suite("what a notification shows") struct NotifierTests {
  @Test("a text is cut by its scalars: a character of a thousand accents is no way around the limit")
  func limit() {
    #expect(Notifier.plain("abc", limit: 3, keepsLines: true) == "abc")
    #expect(Notifier.plain("abcd", limit: 3, keepsLines: true) == "abc…")
    let pile = "e" + String(repeating: "\u{301}", count: 100_000)
    #expect(pile.count == 1)
    let cut = Notifier.plain(pile, limit: 1024, keepsLines: false)
    #expect(cut.unicodeScalars.count == 1025 && cut.hasSuffix("…"))
  }

  @Test("control characters go wherever they stand, and a line's end is one")
  func controls() {
    // With something that joins it, a control character is not the first of its character.
    #expect(
      Notifier.plain("a\u{1B}[31m\u{301}b\u{200D}\u{7}c", limit: 99, keepsLines: true) == "a[31m\u{301}b\u{200D}c")
    #expect(Notifier.plain("a\r\nb\rc\nd\u{2028}e\tf", limit: 99, keepsLines: true) == "a\nb\nc\nd\ne f")
    #expect(Notifier.plain("a\r\nb\rc", limit: 99, keepsLines: false) == "a b c")
    for character in Array("\u{0}\u{8}\u{1B}\u{9B}\u{7F}").map(String.init) {
      for before in ["", "x", "e\u{301}", "\u{1F468}\u{200D}"] {
        let plain = Notifier.plain(before + character + "\u{301}", limit: 99, keepsLines: true)
        #expect(!plain.unicodeScalars.contains { $0.properties.generalCategory == .control })
      }
    }
  }

  @Test("markup is escaped also where an accent makes its sign another character")
  func markup() {
    #expect(
      Notifier.body("<\u{301}b>&\u{301}<i>", readsMarkup: true) == "&lt;\u{301}b&gt;&amp;\u{301}&lt;i&gt;")
    #expect(Notifier.body("<b>", readsMarkup: false) == "<b>")
  }
}
