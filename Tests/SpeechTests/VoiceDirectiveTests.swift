import Speech
import Testing

/// How a reply says in which voice it is to be spoken (talk-and-chat §1.5).
@Suite("Voice directive") struct VoiceDirectiveTests {
  private func parse(_ line: String) -> VoiceDirective? { VoiceDirective.parse(line + "\nHello.").directive }

  private func directive(_ change: (inout VoiceDirective) -> Void) -> VoiceDirective {
    var directive = VoiceDirective()
    change(&directive)
    return directive
  }

  @Test("the line and the empty lines before it are taken off, and nothing else")
  func takesOff() {
    let (directive, text) = VoiceDirective.parse("\n  \n {\"voice\":\"calm\",\"once\":true} \n\nOne.\nTwo.\n")
    #expect(directive?.voice == "calm" && directive?.once == true)
    #expect(text == "\nOne.\nTwo.\n")
    #expect(VoiceDirective.parse("{\"voice\":\"calm\"}").text == "")
    #expect(VoiceDirective.parse("{\"voice\":\"calm\"}\r\nOne.").text == "One.")
  }

  @Test(
    "what is no directive is left untouched",
    arguments: [
      "Hello.", "", "{}\nHello.", "{\"mood\":\"happy\"}\nHello.", "{\"voice\":\"\"}\nHello.", "{\"speed\":9}\nHello.",
      "{\"voice\":\"a\"\nHello.", "[\"voice\"]\nHello.", "Hello.\n{\"voice\":\"a\"}", "{\"voice\":\"a\"} Hello.",
      "{\"voice\":{\"id\":\"a\"}}\nHello.", "{\"voice\":\"a\",}\nHello.", "{\"voice\":null}\nHello.",
    ])
  func leaves(_ reply: String) {
    let (directive, text) = VoiceDirective.parse(reply)
    #expect(directive == nil)
    #expect(text == reply)
  }

  struct Case: Sendable {
    let line: String
    let expected: VoiceDirective?
    init(_ line: String, _ change: ((inout VoiceDirective) -> Void)?) {
      self.line = line
      var directive = VoiceDirective()
      change?(&directive)
      expected = change == nil ? nil : directive
    }
  }

  @Test("each key, under each of its names, within its range", arguments: cases)
  func keys(_ example: Case) {
    #expect(parse(example.line) == example.expected, "\(example.line)")
  }

  static let cases: [Case] = [
    Case(#"{"voice":"a"}"#) { $0.voice = "a" },
    Case(#"{"voice_id":"a"}"#) { $0.voice = "a" },
    Case(#"{"voiceId":"a"}"#) { $0.voice = "a" },
    Case(#"{"VOICEID":" a "}"#) { $0.voice = "a" },
    Case(#"{"voice_id":"b","voice":"a"}"#) { $0.voice = "a" },
    Case(#"{"voice":7}"#) { $0.voice = "7" },
    Case(#"{"model":"m"}"#) { $0.model = "m" },
    Case(#"{"model_id":"m"}"#) { $0.model = "m" },
    Case(#"{"modelId":"m"}"#) { $0.model = "m" },
    Case(#"{"speed":0.5}"#) { $0.speed = 0.5 },
    Case(#"{"speed":2}"#) { $0.speed = 2 },
    Case(#"{"speed":" 1.25 "}"#) { $0.speed = 1.25 },
    Case(#"{"speed":0.49}"#, nil),
    Case(#"{"speed":2.01}"#, nil),
    Case(#"{"speed":"fast"}"#, nil),
    Case(#"{"rate":180}"#) { $0.rate = 180 },
    Case(#"{"wpm":"180"}"#) { $0.rate = 180 },
    Case(#"{"rate":88}"#) { $0.rate = 88 },
    Case(#"{"rate":87}"#, nil),
    Case(#"{"rate":350}"#, nil),
    Case(#"{"rate":349}"#) { $0.rate = 349 },
    Case(#"{"rate":180.5}"#, nil),
    Case(#"{"stability":0}"#) { $0.stability = 0 },
    Case(#"{"stability":1.1}"#, nil),
    Case(#"{"similarity":0.5}"#) { $0.similarity = 0.5 },
    Case(#"{"similarity_boost":0.5}"#) { $0.similarity = 0.5 },
    Case(#"{"similarityBoost":0.5}"#) { $0.similarity = 0.5 },
    Case(#"{"style":-0.1}"#, nil),
    Case(#"{"style":1}"#) { $0.style = 1 },
    Case(#"{"speaker_boost":true}"#) { $0.speakerBoost = true },
    Case(#"{"speakerBoost":false}"#) { $0.speakerBoost = false },
    Case(#"{"no_speaker_boost":true}"#) { $0.speakerBoost = false },
    Case(#"{"noSpeakerBoost":false}"#) { $0.speakerBoost = true },
    Case(#"{"speaker_boost":"loud"}"#, nil),
    Case(#"{"seed":0}"#) { $0.seed = 0 },
    Case(#"{"seed":-1}"#, nil),
    Case(#"{"seed":"42"}"#) { $0.seed = 42 },
    Case(#"{"normalize":"AUTO"}"#) { $0.normalize = "auto" },
    Case(#"{"apply_text_normalization":"off"}"#) { $0.normalize = "off" },
    Case(#"{"normalize":"maybe"}"#, nil),
    Case(#"{"lang":"de"}"#) { $0.language = "de" },
    Case(#"{"language_code":"de"}"#) { $0.language = "de" },
    Case(#"{"language":"pt-BR"}"#) { $0.language = "pt-BR" },
    Case(#"{"output_format":"pcm_24000"}"#) { $0.outputFormat = "pcm_24000" },
    Case(#"{"format":"mp3_44100_128"}"#) { $0.outputFormat = "mp3_44100_128" },
    Case(#"{"latency":4}"#) { $0.latencyTier = 4 },
    Case(#"{"latency_tier":0}"#) { $0.latencyTier = 0 },
    Case(#"{"latencyTier":5}"#, nil),
    Case(#"{"once":true}"#) { $0.once = true },
    Case(#"{"once":false,"zebra":1,"Apple":2}"#) {
      $0.once = false
      $0.unknownKeys = ["Apple", "zebra"]
    },
    Case(#"{"voice":"","voice_id":"b"}"#, nil),
    Case(#"{"voice":null,"voice_id":"b"}"#) { $0.voice = "b" },
    Case(#"{"seed":99999999999999999999}"#, nil),
  ]

  @Test("words a minute are a speed, unless a speed is given")
  func speed() {
    #expect(parse(#"{"rate":175}"#)?.effectiveSpeed == 1)
    #expect(parse(#"{"rate":175,"speed":1.5}"#)?.effectiveSpeed == 1.5)
    #expect(parse(#"{"voice":"a"}"#)?.effectiveSpeed == nil)
  }

  @Test("a voice lasts for the session, with `once` for one reply")
  func defaults() {
    var defaults = VoiceDefaults(voice: "ann")
    let once = directive {
      $0.voice = "bob"
      $0.once = true
    }
    #expect(defaults.apply(once).voice == "bob")
    #expect(defaults.apply(nil).voice == "ann")
    #expect(defaults.apply(directive { $0.voice = "carl" }).voice == "carl")
    #expect(defaults.apply(directive { $0.model = "m2" }) == ("carl", "m2"))
    #expect(defaults == VoiceDefaults(voice: "carl", model: "m2"))
  }

  @Test("a line of any length and depth is read in bounded time")
  func bounded() {
    let deep = String(repeating: "{\"voice\":", count: 5_000) + String(repeating: "}", count: 5_000)
    #expect(VoiceDirective.parse(deep).directive == nil)
    let long = "{\"voice\":\"" + String(repeating: "a", count: 100_000) + "\"}"
    #expect(VoiceDirective.parse(long).directive == nil)
  }
}
