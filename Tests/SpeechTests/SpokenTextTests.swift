import Speech
import TestSupport
import Testing

/// What of an answer is spoken, case by case.
@Suite("Spoken text") struct SpokenTextTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let name: String
    let markdown: String
    let spoken: String
    init(_ name: String, _ markdown: String, _ spoken: String) {
      self.name = name
      self.markdown = markdown
      self.spoken = spoken
    }
    var testDescription: String { name }
  }

  @Test("each kind of mark is taken out or announced", arguments: cases)
  func speaks(_ example: Case) {
    #expect(SpokenText().text(of: example.markdown) == example.spoken)
  }

  static let cases: [Case] = [
    // Plain text
    Case("a sentence stays", "It is four o'clock.", "It is four o'clock."),
    Case("a text without an end gets one", "It is four o'clock", "It is four o'clock."),
    Case("a question stays one", "Is it four?", "Is it four?"),
    Case("an end before a quotation mark counts", "He said “stop.”", "He said “stop.”"),
    Case("wrapped lines are one paragraph", "It is\nfour\no'clock.", "It is four o'clock."),
    Case("Windows line ends are line ends", "One.\r\n\r\nTwo.", "One.\nTwo."),
    Case("paragraphs are apart", "One.\n\nTwo.", "One.\nTwo."),
    Case("two spaces break a line", "One  \nTwo", "One.\nTwo."),
    Case("nothing is nothing", "", ""),
    Case("white space is nothing", " \n\t\n", ""),
    Case("marks alone are nothing", "***\n---\n- \n>", ""),
    Case("numbers are left to the voice", "It costs $1,234.50, or 3.5 % more.", "It costs $1,234.50, or 3.5 % more."),
    Case("abbreviations are left to the voice", "Dr. Smith, e.g., at 5 p.m.", "Dr. Smith, e.g., at 5 p.m."),
    Case("a sum stays a sum", "2 * 3 = 6 and 2*3 = 6", "2 * 3 = 6 and 2 * 3 = 6."),
    Case("a comparison is no tag", "if a < b and c > d then stop", "if a < b and c > d then stop."),
    Case("other scripts pass", "今日は晴れです。", "今日は晴れです。"),
    Case("control characters are no commands", "a\u{1}50Sb\u{7}c", "a 50Sb c."),
    Case("invisible marks go", "in\u{200B}vis\u{AD}ible\u{FEFF}", "invisible."),

    // Emphasis
    Case("bold and italic", "This is **very** *important*, __really__ _so_.", "This is very important, really so."),
    Case("bold within a word", "un**believ**able", "unbelievable."),
    Case("struck out", "It is ~~five~~ four.", "It is five four."),
    Case("a name with underscores is words", "Set max_open_files now.", "Set max open files now."),
    Case("about stays about", "~5 minutes", "~5 minutes."),
    Case("escaped marks are marks", "\\*not bold\\* and \\# no heading", "*not bold* and # no heading."),
    Case("unmatched marks go", "This is **bold", "This is bold."),

    // Headings, rules, quotations
    Case("a heading is a sentence", "## The weather\nIt rains.", "The weather.\nIt rains."),
    Case("a closed heading", "# Title #", "Title."),
    Case("an underlined heading", "Title\n=====\nText.", "Title.\nText."),
    Case("a tag is no heading", "#linux is nice", "#linux is nice."),
    Case("a rule is nothing", "One.\n\n---\n\nTwo.", "One.\nTwo."),
    Case("a quotation is its text", "> To be\n> or not.\n\nHe said.", "To be or not.\nHe said."),
    Case("a note says what it is", "> [!WARNING]\n> It is hot.", "warning: It is hot."),

    // Lists
    Case("bullets are sentences", "- milk\n- eggs\n* bread", "milk.\neggs.\nbread."),
    Case("nested bullets", "- fruit\n  - apples\n    - red ones", "fruit.\napples.\nred ones."),
    Case("numbers are spoken", "1. Stir.\n2) Bake.", "1. Stir.\n2. Bake."),
    Case("check boxes", "- [x] shopping\n- [ ] cooking", "done: shopping.\nto do: cooking."),
    Case("an item on two lines", "- one long\n  item\n- next", "one long item.\nnext."),
    Case("a year is no item", "1984 was a book.", "1984 was a book."),
    Case("a dash in a sentence stays", "It is - well - late.", "It is - well - late."),

    // Links and pictures
    Case("a link is its text", "See [the manual](https://example.org/a_b?c=d).", "See the manual."),
    Case("a link with marks in it", "See [**the** `manual`](x).", "See the manual."),
    Case("an address with brackets", "See [it](https://en.example.org/wiki/A_(b)).", "See it."),
    Case("a reference link", "See [the manual][1].\n\n[1]: https://example.org", "See the manual."),
    Case("a bare address is its host", "Go to https://www.example.org/very/long?path=1.", "Go to link to example.org."),
    Case("an address in brackets", "Here (http://example.org:8080/x)!", "Here (link to example.org)!"),
    Case("an address in angles", "<https://example.org/>", "link to example.org."),
    Case("a mail address is read", "Write to <ann@example.org>.", "Write to ann@example.org."),
    Case("www without a scheme", "www.example.org/foo", "link to example.org."),
    Case("a picture by its text", "![A red cat](cat.png)", "picture: A red cat."),
    Case("a picture without text", "Look: ![](cat.png)", "Look:"),
    Case("a picture that is a link", "[![build](b.svg)](https://ci.example.org) Done.", "picture: build Done."),
    Case("foot-notes go", "It is so[^1].\n\n[^1]: Says Ann.", "It is so."),
    Case("plain brackets stay", "The [second] one", "The [second] one."),
    Case("an open bracket is harmless", "a [b", "a b."),

    // Code
    Case("code within a line is read", "Run `ls -l` now.", "Run ls -l now."),
    Case("marks within code are no marks", "Use `**kwargs` and ``a`b``.", "Use **kwargs and a`b."),
    Case(
      "a fence is announced, not read",
      "First, look at this rather short example of a loop, please:\n```swift\nfor i in 1...3 {}\n```\nThat is all.",
      "First, look at this rather short example of a loop, please:\nA swift code block is on screen.\nThat is all."),
    Case(
      "a fence without a language", "There are quite a few words in front of it.\n\n~~~\nx = 1\n~~~",
      "There are quite a few words in front of it.\nA code block is on screen."),
    Case("half of it code", "Like this:\n```\nprint(12)\n```", "The code is on screen."),
    Case("nothing but code", "```python\nprint('hello')\n```", "The code is on screen."),
    Case("a fence that is never closed", "So:\n```\nrm -rf x\nand on", "The code is on screen."),
    Case(
      "indented code", "This paragraph is longer than what follows it.\n\n    x = 1\n\nDone.",
      "This paragraph is longer than what follows it.\nA code block is on screen.\nDone."),
    Case(
      "a fence in a list", "1. Do what is written down below here:\n   ```sh\n   ls\n   ```\n2. Rest.",
      "1. Do what is written down below here:\nA sh code block is on screen.\n2. Rest."),
    Case(
      "a key is not spelt out", "The key is 3f1c9a0b7d2e4f5a6b7c8d9e0f1a2b3c4d5e6f70.", "The key is a long code."),
    Case("a formula is one", "So $$E = mc^2$$ holds, and \\(x^2\\) too.", "So a formula holds, and a formula too."),
    Case("a formula block", "Then:\n\n$$\n\\frac{a}{b}\n$$\n\nDone.", "Then:\na formula.\nDone."),

    // Tables
    Case(
      "a table by rows", "| Name | Age |\n|---|---:|\n| Ann | 31 |\n| **Bob** | |\n\nDone.",
      "Name: Ann, Age: 31.\nName: Bob.\nDone."),
    Case("a table without outer bars", "City | Sky\n--- | ---\nOslo | grey", "City: Oslo, Sky: grey."),
    Case("a bar within a cell", "| a | b |\n|--|--|\n| x \\| y | `p|q` |", "a: x, y, b: p|q."),
    Case(
      "a long table is cut", "| n |\n|---|\n" + (1...14).map { "| \($0) |\n" }.joined(),
      (1...10).map { "\($0)." }.joined(separator: "\n") + "\nAnd 4 more rows."),
    Case("a bar in a sentence is no table", "either | or", "either, or."),

    // HTML
    Case("tags go", "This is <b>bold</b> and <span class=\"x\">plain</span>.", "This is bold and plain."),
    Case("a break is a pause", "One<br>Two<br/>Three", "One.\nTwo.\nThree."),
    Case("paragraphs of HTML", "<p>One</p><p>Two</p>", "One.\nTwo."),
    Case("scripts and styles go", "A<script>alert('x')</script>B", "AB."),
    Case("a script over lines goes", "<script>\nlet x = 1\n</script>\nText.", "Text."),
    Case("comments go", "One <!-- two --> three.", "One three."),
    Case("a comment over lines goes", "<!--\nhidden\n\nstill\n-->\nSeen.", "Seen."),
    Case(
      "entities are characters", "Fish &amp; chips &lt;3 &#8211; &#x41;&nbsp;&bogus;", "Fish & chips <3 – A &bogus;"),
    Case("an HTML table", "<table><tr><td>a</td><td>b</td></tr></table>", "a, b."),
    Case("something to be filled in", "Type ssh <name> now.", "Type ssh name now."),

    // Emoji
    Case("emoji go", "Well done! 🎉👍🏽 See you 👨‍👩‍👧‍👦 soon ❤️.", "Well done! See you soon."),
    Case("flags go", "From 🇳🇴 to 🇯🇵", "From to."),
    Case("a keycap is its digit", "Press 1️⃣ now", "Press 1 now."),
    Case("an arrow is a pause", "Menu → File → Save", "Menu, File, Save."),
    Case("check marks go", "✅ ready\n✔ set\n☑️ go", "ready set go."),
    Case("emoji alone are nothing", "👍", ""),
    Case("signs that are read stay", "20 °C, 5 €, § 3, © 2024", "20 °C, 5 €, § 3, © 2024."),
  ]

  @Test("announcements are in the language of the answer")
  func languages() {
    let code = "```\nx\n```"
    #expect(SpokenText(language: "de-AT").text(of: code) == "Der Code steht auf dem Bildschirm.")
    #expect(SpokenText(language: "fr_FR.UTF-8").text(of: code) == "Le code est à l'écran.")
    #expect(SpokenText(language: "tlh").text(of: code) == "The code is on screen.")
  }

  @Test("a very long answer is cut at the end of a block, and says so")
  func limit() {
    let answer = (1...500).map { "Paragraph number \($0) of a long answer." }.joined(separator: "\n\n")
    let spoken = SpokenText(limit: 1_000).text(of: answer)
    #expect(spoken.count < 1_100)
    #expect(spoken.hasSuffix("of a long answer.\nThe rest is on screen."))
  }

  @Test("any text has an end: random marks, deep nesting, hostile repetition")
  func total() {
    var random = SeededRandom()
    let marks = [
      "*", "_", "`", "```", "~~~", "[", "]", "(", ")", "<", ">", "!", "|", "\n", "\n\n", "- ", "1. ", "    ", "#",
      "&amp;", "$$",
      "\\", "<!--", "-->", "<b>", "</", "http://", "a", "é", "🎉", "\u{1}", "\u{FE0F}", "\r", "|---|",
    ]
    for _ in 0..<150 {
      let text = (0..<Int.random(in: 0...200, using: &random)).map { _ in marks.randomElement(using: &random)! }
        .joined()
      let spoken = SpokenText().text(of: text)
      let isClean = !spoken.unicodeScalars.contains { $0.value < 0x20 && $0 != "\n" || $0.value == 0xFE0F }
      #expect(isClean, "seed \(random.seed)")
    }
    for mark in ["[", "`", "<", "*", "![", "$$", "&", "> ", "<!--", "\\[", "| "] {
      #expect(SpokenText().text(of: String(repeating: mark, count: 5_000)).count <= 12_100)
    }
  }
}
