import Audio
import Speech
import System

/// Whether what was heard at a speaker is an answer, the right one and once: by its energy, and by what a recogniser makes of it. Silence,
/// noise, another answer and the same one twice are flaws.
struct AnswerCheck: Sendable {
  /// What is too quiet to be heard as a voice.
  static let threshold: Float = 0.02
  /// Pauses between words are shorter.
  static let pause: Duration = .milliseconds(500)
  /// A cue is shorter, an answer longer.
  static let shortest: Duration = .milliseconds(600)

  private let recogniser: PocketsphinxTranscriber

  /// `answers` is all that might be said: a wrong answer shall be heard as the wrong one, and not as the nearest to the right one.
  init(answers: [String]) throws(SpeechError) {
    let texts = answers.map(SpeechGrammar.normalized).filter { !$0.isEmpty }
    if texts.isEmpty { throw SpeechError(.invalidSetting, "The list of answers is empty.") }
    // As often as it is said: one said twice in a breath is not to be heard as one.
    let rules = "public <heard> = <answer>+;\n<answer> = " + texts.joined(separator: "\n  | ") + ";\n"
    var options = PocketsphinxTranscriber.Options(
      grammar: try SpeechGrammar(jsgf: "#JSGF V1.0;\ngrammar heard;\n" + rules))
    options.isNoiseless = true
    recogniser = PocketsphinxTranscriber(options: options)
  }

  func close() async { await recogniser.stop() }

  /// How long the answer was. Throws what is wrong with it.
  func judge(_ heard: PCM, expecting answer: String) async throws(DemoStep.Flaw) -> Duration {
    let voice = try Self.voice(of: heard)
    let understood: String
    do throws(SpeechError) {
      let transcription = try await recogniser.begin(TranscriptionRequest(rate: voice.rate))
      await transcription.feed(voice.samples)
      understood = try await transcription.finish()
    } catch {
      throw DemoStep.Flaw(sentence: "The answer could not be listened to: \(error)")
    }
    guard understood == SpeechGrammar.normalized(answer) else {
      throw DemoStep.Flaw(sentence: "The answer was heard as “\(understood)”.")
    }
    return voice.duration
  }

  /// The one stretch of sound that is long enough for a voice.
  static func voice(of heard: PCM) throws(DemoStep.Flaw) -> PCM {
    let rate = heard.rate
    let frame = max(1, rate / 20)
    var stretches: [Range<Int>] = []
    for start in stride(from: 0, to: heard.samples.count, by: frame) {
      let end = min(start + frame, heard.samples.count)
      guard Level(heard.samples[start..<end]).peak > threshold else { continue }
      if let last = stretches.last, start - last.upperBound < pause.samples(at: rate) {
        stretches[stretches.count - 1] = last.lowerBound..<end
      } else {
        stretches.append(start..<end)
      }
    }
    let voices = stretches.filter { $0.count > shortest.samples(at: rate) }
    guard let voice = voices.first else { throw DemoStep.Flaw(sentence: "No answer was heard at the speaker.") }
    if voices.count > 1 { throw DemoStep.Flaw(sentence: "The answer was heard \(voices.count) times.") }
    let margin = rate / 5
    let range = max(0, voice.lowerBound - margin)..<min(heard.samples.count, voice.upperBound + margin)
    return PCM(Array(heard.samples[range]), rate: rate)
  }
}
