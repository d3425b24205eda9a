import Speech
import Testing

/// Which voice speaks which language.
@Suite("Voice choice") struct VoiceChoiceTests {
  private let voices = [
    Voice(name: "english", identifier: "gmw/en", languages: [.init("en-gb", priority: 2), .init("en", priority: 2)]),
    Voice(
      name: "american", identifier: "gmw/en-US", languages: [.init("en-us", priority: 2), .init("en", priority: 3)]),
    Voice(name: "us-mbrola", identifier: "mb/mb-us1", languages: [.init("en-us", priority: 1)]),
    Voice(name: "german", identifier: "gmw/de", languages: [.init("de")]),
    Voice(name: "mandarin", identifier: "sit/cmn", languages: [.init("cmn"), .init("zh-cmn"), .init("zh")]),
    Voice(
      name: "cantonese", identifier: "sit/yue", languages: [.init("yue"), .init("zh-yue"), .init("zh", priority: 8)]),
    Voice(name: "brazilian", identifier: "roa/pt-BR", languages: [.init("pt-br"), .init("pt", priority: 8)]),
    Voice(name: "portuguese", identifier: "roa/pt", languages: [.init("pt"), .init("pt-pt")]),
    Voice(name: "norwegian", identifier: "gmq/nb", languages: [.init("nb"), .init("no")]),
    Voice(name: "spanish", identifier: "roa/es", languages: [.init("es")]),
    Voice(name: "latin", identifier: "roa/es-419", languages: [.init("es-419"), .init("es-mx", priority: 6)]),
  ]

  @Test(
    "from the tag to the voice",
    arguments: [
      ("en", "gmw/en"), ("en-US", "gmw/en-US"), ("en_US.UTF-8", "gmw/en-US"), ("en-AU", "gmw/en"), ("de-CH", "gmw/de"),
      ("DE@euro", "gmw/de"), ("zh", "sit/cmn"), ("zh-CN", "sit/cmn"), ("zh-Hant-TW", "sit/cmn"), ("zh-HK", "sit/yue"),
      ("zh-yue", "sit/yue"), ("pt", "roa/pt"), ("pt-BR", "roa/pt-BR"), ("pt-AO", "roa/pt"), ("no", "gmq/nb"),
      ("nn-NO", "gmq/nb"),
      ("es-AR", "roa/es-419"), ("es-ES", "roa/es"), ("tlh", "gmw/en"), ("", "gmw/en"), ("C", "gmw/en"), ("-", "gmw/en"),
      ("de-x-private", "gmw/de"), ("ünicode", "gmw/en"), ("../../etc", "gmw/en"),
    ])
  func choose(_ tag: String, _ identifier: String) {
    #expect(VoiceChoice.voice(for: tag, among: voices) { $0.identifier != "mb/mb-us1" }?.identifier == identifier)
  }

  @Test("without a language it is English; without English it is nothing")
  func none() {
    #expect(VoiceChoice.voice(for: nil, among: voices)?.identifier == "gmw/en")
    #expect(VoiceChoice.voice(for: "xx", among: [voices[3]]) == nil)
  }

  @Test("an mbrola voice is the last choice, and one without data is none")
  func mbrola() {
    let only = [voices[0], voices[2]]
    #expect(VoiceChoice.voice(for: "en-US", among: only)?.identifier == "mb/mb-us1")
    #expect(VoiceChoice.voice(for: "en-US", among: only) { _ in false } == nil)
    #expect(VoiceChoice.voice(for: "en-US", among: only) { $0.name != "us-mbrola" }?.identifier == "gmw/en")
    #expect(VoiceChoice.voice(for: "en-US", among: voices)?.identifier == "gmw/en-US")
  }

  @Test("a voice by its name, its file or the end of it, with a variant")
  func named() {
    #expect(VoiceChoice.voice(named: "german", among: voices)?.voice.identifier == "gmw/de")
    #expect(VoiceChoice.voice(named: "GMW/EN-us+f3", among: voices)?.variant == "f3")
    #expect(VoiceChoice.voice(named: "en-us", among: voices)?.voice.name == "american")
    #expect(VoiceChoice.voice(named: "alloy", among: voices) == nil)
    #expect(VoiceChoice.voice(named: "", among: voices) == nil)
    #expect(VoiceChoice.voice(named: "de+../../x", among: voices) == nil)
  }

  @Test("the chain ends in English and repeats nothing")
  func chain() {
    #expect(
      VoiceChoice.chain(for: "zh-Hans-CN") == ["zh-hans-cn", "cmn-hans-cn", "zh-hans", "cmn-hans", "zh", "cmn", "en"])
    #expect(VoiceChoice.chain(for: "en-GB") == ["en-gb", "en"])
    #expect(VoiceChoice.chain(for: String(repeating: "a-", count: 10_000)).count < 40)
  }
}
