import Audio
import Glibc
import Speech
import System

/// pocketsphinx with the grammar of the bundled questions.
struct GrammarCheck {
  let folder: String
  /// Of thirty, as the measurement was made; there may be more samples.
  static let share = 28.0 / 30

  func run() async throws -> Bool {
    let sentences = try Check.lines(folder + "/sentences.txt")
    let grammar = try SpeechGrammar(jsgf: String(decoding: try Files.read(folder + "/sentences.jsgf"), as: UTF8.self))
    let files = Files.list(folder).filter { $0.hasSuffix(".wav") }
    let sounds = try files.map { try Check.sound(folder + "/" + $0) }
    let full = try await score("16 kHz", sounds, sentences, grammar)
    let relayed = try sounds.map { sound in
      PCM(MuLaw.decode(MuLaw.encode(try sound.resampled(to: 8_000).samples)), rate: 8_000)
    }
    let telephone = try await score("through 8 kHz µ-law", relayed, sentences, grammar)
    return full && telephone
  }

  private func score(_ title: String, _ sounds: [PCM], _ sentences: [String], _ grammar: SpeechGrammar) async throws
    -> Bool
  {
    let transcriber = PocketsphinxTranscriber(options: .init(grammar: grammar))
    await transcriber.prepare()
    let start = processorTime()
    var right = 0
    for (sound, sentence) in zip(sounds, sentences) {
      let text = try await Check.transcribe(sound, with: transcriber)
      if text == sentence { right += 1 } else { print("   \(sentence) => \(text)") }
    }
    let seconds = sounds.reduce(0) { $0 + $1.duration.inSeconds }
    let isEnough = Double(right) >= Double(sounds.count) * GrammarCheck.share
    print(
      "pocketsphinx with a grammar, \(title): \(right) of \(sounds.count) right,",
      "\(Check.short((processorTime() - start) / seconds)) s of processor a second of sound", isEnough ? "" : "TOO FEW")
    return isEnough
  }

  private func processorTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
