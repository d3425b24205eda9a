import Speech
import Testing

@Suite("Synthesizer") struct SynthesizerTests {
  @Test("a sentence becomes sound") func sentence() async throws {
    let voice = Synthesizer()
    print(await voice.availability())
    let clock = ContinuousClock()
    for text in ["Hello there.", "This is a much longer sentence, which has two parts."] {
      let t = clock.now
      var n = 0
      var first: Duration?
      for try await piece in voice.speak(Utterance(text)) {
        if first == nil { first = clock.now - t }
        n += piece.samples.count
      }
      print(text, n, first as Any, clock.now - t)
      #expect(n > 10_000)
    }
  }
}
