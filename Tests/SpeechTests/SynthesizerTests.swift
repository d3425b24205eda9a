import Audio
import Glibc
import System
import TestSupport
import Testing

@testable import Speech

/// The voice of this machine, with the real espeak-ng.
@Suite("Synthesizer") struct SynthesizerTests {
  /// How long it takes to say. The engine's noise is never the same twice, so that samples can't be compared.
  private func seconds(_ voice: Synthesizer, _ utterance: Utterance) async throws -> Double {
    try await voice.speak(utterance).whole().duration.inSeconds
  }

  private func isAbout(_ one: Double, _ other: Double) -> Bool { abs(one - other) < 0.02 * max(one, other) }

  @Test("a sentence is heard: about as long as it takes to say, and loud enough")
  func sentence() async throws {
    let sound = try await Synthesizer().speak(Utterance("The weather is fine today, and the train is late.")).whole()
    #expect(sound.rate == 22_050)
    #expect(sound.duration > .seconds(2) && sound.duration < .seconds(6))
    #expect(Level(sound.samples).rms > 0.02)
  }

  @Test("it comes in pieces, of which the first is short")
  func pieces() async throws {
    var pieces: [Duration] = []
    for try await piece in Synthesizer().speak(Utterance("This sentence is long enough to come in several pieces.")) {
      pieces.append(piece.duration)
    }
    #expect(pieces.count > 10)
    #expect(pieces.allSatisfy { $0 <= .milliseconds(50) })
  }

  @Test("what is being spoken is spoken to its end, also when nobody holds its synthesiser any more")
  func heldByItsSound() async throws {
    for _ in 0..<20 {
      let speech = Synthesizer().speak(Utterance("One two three."))
      #expect(try await speech.whole().duration > .milliseconds(500))
    }
  }

  @Test("rate, pitch and volume are heeded, whatever their values")
  func settings() async throws {
    let voice = Synthesizer()
    let text = "One two three four five six seven eight."
    let usual = try await voice.speak(Utterance(text)).whole()
    let quiet = try await voice.speak(Utterance(text, volume: 20)).whole()
    let usualLength = usual.duration.inSeconds
    #expect(try await seconds(voice, Utterance(text, rate: 350)) < usualLength * 0.7)
    #expect(Level(quiet.samples).rms < Level(usual.samples).rms * 0.5)
    let high = try await voice.speak(Utterance(text, pitch: 99)).whole()
    #expect(pitch(high) > pitch(usual) * 1.15)
    #expect(try await seconds(voice, Utterance(text, rate: -1, pitch: 1_000, volume: 9_999)) > usualLength)
    // And the next is as usual again.
    #expect(isAbout(try await seconds(voice, Utterance(text)), usualLength))
  }

  /// The median pitch in Hz, by auto-correlation of pieces of 40 ms.
  private func pitch(_ sound: PCM) -> Double {
    let size = sound.rate / 25
    var pitches: [Double] = []
    for start in stride(from: 0, to: sound.samples.count - 2 * size, by: size * 2) {
      let piece = sound.samples[start..<(start + size)]
      if Level(piece).rms < 0.02 { continue }
      let lags = stride(from: sound.rate / 400, to: sound.rate / 60, by: 2)
      let best = lags.max { sum(sound, start, size, $0) < sum(sound, start, size, $1) }
      pitches.append(Double(sound.rate) / Double(best ?? 1))
    }
    return pitches.sorted()[pitches.count / 2]
  }

  private func sum(_ sound: PCM, _ start: Int, _ size: Int, _ lag: Int) -> Float {
    sound.samples.withUnsafeBufferPointer { samples in
      var sum: Float = 0
      for index in stride(from: start, to: start + size, by: 4) { sum += samples[index] * samples[index + lag] }
      return sum
    }
  }

  @Test("the language chooses the voice; one that is not known is spoken in English")
  func languages() async throws {
    let voice = Synthesizer()
    let voices = try await voice.voices()
    #expect(voices.count > 50)
    #expect(VoiceChoice.voice(for: "zh-CN", among: voices)?.identifier == "sit/cmn")
    #expect(VoiceChoice.voice(for: "de_AT.UTF-8", among: voices)?.identifier == "gmw/de")
    #expect(VoiceChoice.voice(for: "en-US", among: voices)?.identifier == "gmw/en-US")
    #expect(VoiceChoice.voice(for: "tlh", among: voices)?.identifier == "gmw/en")
    // As words of German they take another time than as words of English.
    let number = "1234567 8901234"
    let english = try await seconds(voice, Utterance(number, language: "en"))
    let german = try await seconds(voice, Utterance(number, language: "de"))
    #expect(!isAbout(english, german))
    #expect(isAbout(try await seconds(voice, Utterance(number, language: "xx-Latn-x-a", voice: "alloy")), english))
    #expect(isAbout(try await seconds(voice, Utterance(number, voice: "de")), german))
  }

  @Test("nothing to say is silence, not an error", arguments: ["", " \n ", "\u{0}", "...", "\u{1}50S"])
  func nothing(_ text: String) async throws {
    _ = try await Synthesizer().speak(Utterance(text)).whole()
  }

  @Test("text can't give the engine commands: control characters are left out")
  func commands() async throws {
    let voice = Synthesizer()
    let plain = try await seconds(voice, Utterance("one 450S two three"))
    let command = try await seconds(voice, Utterance("one \u{1}450S two three"))
    #expect(isAbout(plain, command))
  }

  @Test("what is cancelled ends, and the next is spoken")
  func cancel() async throws {
    let voice = Synthesizer()
    let long = voice.speak(Utterance(String(repeating: "This goes on and on. ", count: 500)))
    var pieces = 0
    for try await _ in long {
      pieces += 1
      if pieces == 3 { long.cancel() }
    }
    #expect(pieces == 3)
    #expect(!(try await voice.speak(Utterance("So.")).whole().samples.isEmpty))
    #expect(voice.hangs == 0)
  }

  @Test("the end of the task that takes it is its end")
  func taskCancel() async throws {
    let voice = Synthesizer()
    let taken = Lock(0)
    let task = Task {
      for try await _ in voice.speak(Utterance(String(repeating: "This goes on and on. ", count: 500))) {
        taken.withLock { $0 += 1 }
        if taken.withLock({ $0 }) == 3 { withUnsafeCurrentTask { $0?.cancel() } }
      }
    }
    try await task.value
    #expect(taken.withLock { $0 } <= 4)
    #expect(!(try await voice.speak(Utterance("So.")).whole().samples.isEmpty))
  }

  @Test("speech that nobody takes does not keep the next waiting, and is made two seconds ahead at most")
  func dropped() async throws {
    let voice = Synthesizer()
    var untaken: SpokenAudio? = voice.speak(Utterance(String(repeating: "This goes on and on. ", count: 500)))
    #expect(await eventually { untaken?.channel.isFull ?? false })
    untaken = nil
    #expect(!(try await voice.speak(Utterance("So.")).whole().samples.isEmpty))
  }

  @Test("who stops taking is given up after a while")
  func patience() async throws {
    var options = Synthesizer.Options()
    options.patience = .milliseconds(50)
    let voice = Synthesizer(options: options)
    let stalled = voice.speak(Utterance(String(repeating: "This goes on and on. ", count: 500)))
    #expect(await eventually { stalled.channel.hasEnded })
    let error = await #expect(throws: SpeechError.self) { for try await _ in stalled {} }
    #expect(error?.code == .timeout)
    #expect(!(try await voice.speak(Utterance("So.")).whole().samples.isEmpty))
  }

  @Test("two synthesisers speak at once, each with globals of its own")
  func two() async throws {
    let first = Synthesizer()
    let second = Synthesizer()
    let text = "1234567 8901234"
    let english = try await seconds(first, Utterance(text, language: "en"))
    let german = try await seconds(second, Utterance(text, language: "de"))
    for _ in 0..<10 {
      async let one = seconds(first, Utterance(text, language: "en"))
      async let other = seconds(second, Utterance(text, language: "de"))
      #expect(isAbout(try await one, english))
      #expect(isAbout(try await other, german))
    }
  }

  @Test("more than can wait is refused, not piled up")
  func busy() async throws {
    let voice = Synthesizer()
    let speeches = (0..<40).map { _ in voice.speak(Utterance(String(repeating: "This goes on and on. ", count: 100))) }
    let error = await #expect(throws: SpeechError.self) { for try await _ in speeches[39] {} }
    #expect(error?.code == .busy)
    for speech in speeches { speech.cancel() }
    #expect(await eventually { (try? await voice.speak(Utterance("So.")).whole())?.samples.isEmpty == false })
  }

  @Test("after a stop nothing is spoken, and what was being spoken has ended")
  func stop() async throws {
    let voice = Synthesizer()
    let long = voice.speak(Utterance(String(repeating: "This goes on and on. ", count: 500)))
    var iterator = long.makeAsyncIterator()
    _ = try await iterator.next()
    voice.stop()
    while try await iterator.next() != nil {}
    await #expect(throws: SpeechError.self) { _ = try await voice.speak(Utterance("Hello.")).whole() }
  }

  @Test("hundreds of utterances in a row leave it as it was")
  func many() async throws {
    let voice = Synthesizer()
    func round(_ count: Int) async throws {
      for index in 0..<count {
        for try await _ in voice.speak(Utterance("Number \(index % 10).", language: index % 50 < 25 ? "en" : "de")) {}
      }
    }
    try await round(200)
    let descriptors = Files.list("/proc/self/fd").count
    let threads = Files.list("/proc/self/task").count
    try await round(300)
    #expect(voice.hangs == 0)
    #expect(Files.list("/proc/self/fd").count <= descriptors + 16)
    #expect(Files.list("/proc/self/task").count <= threads + 16)
  }
}
