import Audio
import Speech
import System
import Testing

@testable import talknode

/// The demo judges an answer by its sound. These are the answers that it must not let pass.
@Suite struct AnswerCheckTests {
  private static let sentences: [String] = {
    let project = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
    return (Files.text(project + "/samples/speech/sentences.txt") ?? "").split(separator: "\n").map(String.init)
  }()
  private static let rate = 16_000

  private let check: AnswerCheck
  private let voice = Synthesizer()
  private let question = AnswerCheckTests.sentences[6]
  private let other = AnswerCheckTests.sentences[17]

  init() throws { check = try AnswerCheck(answers: Self.sentences.map(TalkScene.answer)) }

  /// The answer to `question` as it is spoken.
  private func spoken(_ question: String) async throws -> [Float] {
    try await voice.speak(Utterance(TalkScene.answer(to: question))).whole().resampled(to: Self.rate).samples
  }
  private func silence(_ seconds: Double) -> [Float] { [Float](repeating: 0, count: Int(seconds * Double(Self.rate))) }
  private func judge(_ parts: [Float]...) async throws -> Duration {
    try await check.judge(PCM(parts.flatMap(\.self), rate: Self.rate), expecting: TalkScene.answer(to: question))
  }
  private func flaw(_ parts: [Float]...) async -> String? {
    do {
      _ = try await check.judge(PCM(parts.flatMap(\.self), rate: Self.rate), expecting: TalkScene.answer(to: question))
      return nil
    } catch {
      return error.sentence
    }
  }

  @Test("the right answer passes, also after a cue")
  func right() async throws {
    let answer = try await spoken(question)
    #expect(try await judge(silence(1), answer, silence(2)) > .seconds(1))
    let cue = Cue.stop.sound(rate: Self.rate).samples
    #expect(try await judge(cue, silence(0.8), answer, silence(2)) > .seconds(1))
    await check.close()
  }

  @Test("silence, a cue alone and faint noise are no answer")
  func silent() async throws {
    #expect(await flaw(silence(5)) == "No answer was heard at the speaker.")
    #expect(await flaw(silence(1), Cue.error.sound(rate: Self.rate).samples, silence(3)) != nil)
    let noise = (0..<(5 * Self.rate)).map { _ in Float.random(in: -0.01...0.01) }
    #expect(await flaw(noise) == "No answer was heard at the speaker.")
    let loud = (0..<(3 * Self.rate)).map { _ in Float.random(in: -0.3...0.3) }
    #expect(await flaw(loud) != nil)
    await check.close()
  }

  @Test("another answer is heard as the other one")
  func wrong() async throws {
    let sentence = await flaw(silence(1), try await spoken(other), silence(2))
    #expect(sentence?.contains(SpeechGrammar.normalized(other)) == true, "\(sentence ?? "it passed")")
    await check.close()
  }

  @Test("the same answer twice is one too many, with a pause between or without")
  func doubled() async throws {
    let answer = try await spoken(question)
    #expect(await flaw(silence(1), answer, silence(1), answer, silence(2)) == "The answer was heard 2 times.")
    #expect(await flaw(silence(1), answer, answer, silence(2)) != nil)
    // Two voices at once.
    let late = silence(0.4) + answer
    let both = zip(answer + silence(0.4), late).map { ($0 + $1) / 2 }
    #expect(await flaw(silence(1), both, silence(2)) != nil)
    await check.close()
  }

  @Test("half an answer is not the answer")
  func cutOff() async throws {
    let answer = try await spoken(question)
    #expect(await flaw(silence(1), Array(answer.prefix(answer.count / 2)), silence(2)) != nil)
    await check.close()
  }
}
