import Audio
import Speech
import System
import TestSupport
import Testing

/// A capture and the transcribers that have a go at it.
@Suite("Hearing") struct HearingTests {
  /// A transcriber that does as it is told, and answers with how much it got.
  final class Scripted: Transcriber {
    enum Behaviour { case good, failsAtBegin, failsWhileHearing, failsAtFinish, waits }
    let name: String
    let hasPartials = true
    let behaviour: Behaviour
    init(_ name: String, _ behaviour: Behaviour) {
      self.name = name
      self.behaviour = behaviour
    }
    func availability() async -> SpeechAvailability { .ready(name) }
    func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
      if behaviour == .failsAtBegin { throw SpeechError(.missing, "\(name) is not there.") }
      return Utterance(self)
    }

    actor Utterance: Transcription {
      nonisolated let events: AsyncStream<TranscriptionEvent>
      private let sink: AsyncStream<TranscriptionEvent>.Continuation
      private let owner: Scripted
      private var sum = 0
      private var count = 0
      private var isCancelled = false
      init(_ owner: Scripted) {
        self.owner = owner
        (events, sink) = AsyncStream.makeStream()
      }
      func feed(_ samples: [Float]) async {
        count += samples.count
        sum += samples.reduce(0) { $0 + Int(($1 * 32768).rounded()) }
        sink.yield(.partial("\(count)"))
        if owner.behaviour == .failsWhileHearing { sink.yield(.failed(SpeechError(.failed, "\(owner.name) broke."))) }
      }
      func finish() async throws(SpeechError) -> String {
        defer { sink.finish() }
        switch owner.behaviour {
        case .failsAtFinish, .failsWhileHearing: throw SpeechError(.failed, "\(owner.name) broke.")
        case .waits:
          while !isCancelled { try? await Task.sleep(for: .milliseconds(1)) }
          throw SpeechError(.cancelled, "Cancelled.")
        default: return " \(count) samples, sum \(sum) "
        }
      }
      func cancel() async { isCancelled = true }
    }
  }

  private func feed(_ hearing: Hearing, pieces: Int = 100) async {
    for index in 0..<pieces { await hearing.feed(Array(repeating: Float(index) / 32768, count: 320)) }
  }

  @Test("the first transcriber gets it all, and says what it understands on the way")
  func first() async throws {
    let hearing = Hearing(transcribers: [Scripted("a", .good), Scripted("b", .good)], request: .init())
    await hearing.start()
    await feed(hearing, pieces: 50)
    let transcript = try await hearing.finish()
    #expect(transcript.text == "16000 samples, sum \(49 * 25 * 320)")
    #expect(transcript.transcriber == "a" && transcript.failures.isEmpty && transcript.duration == .seconds(1))
    var events: [Hearing.Event] = []
    for await event in hearing.events { events.append(event) }
    #expect(events.first == .transcriber("a"))
    #expect(events.contains { if case .partial = $0 { true } else { false } })
  }

  @Test(
    "when a transcriber fails, the next gets everything from the beginning",
    arguments: [Scripted.Behaviour.failsAtBegin, .failsWhileHearing, .failsAtFinish])
  func next(_ behaviour: Scripted.Behaviour) async throws {
    let hearing = Hearing(transcribers: [Scripted("a", behaviour), Scripted("b", .good)], request: .init())
    await hearing.start()
    await feed(hearing)
    let transcript = try await hearing.finish()
    #expect(transcript.text == "32000 samples, sum \(99 * 50 * 320)")
    #expect(transcript.transcriber == "b" && transcript.failures.map(\.transcriber) == ["a"])
  }

  @Test("when none can, what was heard is still there")
  func none() async throws {
    let hearing = Hearing(
      transcribers: [Scripted("a", .failsAtFinish), Scripted("b", .failsAtBegin)], request: .init())
    await feed(hearing)
    let error = await #expect(throws: SpeechError.self) { _ = try await hearing.finish() }
    #expect(error?.summary == "b is not there.")
    let sound = await hearing.sound
    #expect(sound.samples.count == 32_000 && sound.int16[31_999] == 99)
    let empty = Hearing(transcribers: [], request: .init())
    let missing = await #expect(throws: SpeechError.self) { _ = try await empty.finish() }
    #expect(missing?.code == .missing)
  }

  @Test("more than its limit is not kept, and it says so")
  func limit() async throws {
    let hearing = Hearing(transcribers: [Scripted("a", .good)], request: .init(), limit: .seconds(1))
    var fed = 0
    while await hearing.feed(Array(repeating: 0, count: 320)) { fed += 1 }
    #expect(fed == 49)
    #expect(await hearing.duration == .seconds(1))
    #expect(try await hearing.finish().text.hasPrefix("16000 samples"))
    #expect(await hearing.feed([0]) == false)
  }

  @Test("a cancelled one forgets what was heard, and whoever waits is told")
  func cancel() async throws {
    let hearing = Hearing(transcribers: [Scripted("a", .waits), Scripted("b", .good)], request: .init())
    await feed(hearing)
    let waiting = Task { try await hearing.finish() }
    var events = hearing.events.makeAsyncIterator()
    #expect(await events.next() == .transcriber("a"))
    await hearing.cancel()
    let error = await #expect(throws: SpeechError.self) { _ = try await waiting.value }
    #expect(error?.code == .cancelled)
    #expect(await hearing.sound.samples.isEmpty)
  }

  @Test("a helper that fails for good is followed by pocketsphinx, with real speech")
  func realFallBack() async throws {
    let folder = TemporaryFolder()
    let loop = EventLoop(name: "test hearing")
    defer { loop.stop() }
    let command = try CommandTranscriber(
      options: .init(command: ["sh", "-c", "exit 1", "{wav}"], temporaryFolder: folder.path), loop: loop)
    let sphinx = PocketsphinxTranscriber(options: .init(grammar: try Samples.grammar()))
    let sample = try Samples.sound(7)
    let hearing = Hearing(transcribers: [command, sphinx], request: .init(rate: sample.rate, language: "en-US"))
    await hearing.start()
    await hearing.feed(sample.samples)
    let transcript = try await hearing.finish()
    #expect(transcript.text == (try Samples.sentences()[7]))
    #expect(transcript.transcriber == "pocketsphinx" && transcript.failures.map(\.transcriber) == ["command"])
    await sphinx.stop()
  }
}
