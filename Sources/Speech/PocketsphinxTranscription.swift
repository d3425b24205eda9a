import Audio
import System

/// One utterance at pocketsphinx.
final class PocketsphinxTranscription: Transcription {
  let events: AsyncStream<TranscriptionEvent>
  private let sink: AsyncStream<TranscriptionEvent>.Continuation
  private let workshop: PocketsphinxWorkshop
  private let isRelayed: Bool
  private let answerLimit: Duration
  private let hung: @Sendable () -> Void
  private let ended: @Sendable () -> Void

  private struct Heard {
    let adapter: RateAdapter
    var dither = Dither()
    var pending: [Int16] = []
    var count = 0
    var isScheduled = false
    var hasStarted = false
    var failure: SpeechError?

    mutating func take(_ samples: [Float], relayed: Bool) {
      if failure != nil { return }
      let samples = relayed ? dither.add(to: samples) : samples
      pending += samples.map(Int16.init(sample:))
      count += samples.count
    }
  }
  private let heard: Lock<Heard>
  private let partial = Lock("")

  init(
    workshop: PocketsphinxWorkshop, adapter: sending RateAdapter, relayed: Bool, answerLimit: Duration,
    hung: @escaping @Sendable () -> Void, ended: @escaping @Sendable () -> Void
  ) {
    self.ended = ended
    self.workshop = workshop
    self.isRelayed = relayed
    self.answerLimit = answerLimit
    self.hung = hung
    heard = Lock(Heard(adapter: adapter))
    (events, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
  }

  deinit { ended() }

  func feed(_ samples: [Float]) async {
    let isToSchedule = heard.withLock { heard in
      heard.take(heard.adapter.process(samples), relayed: isRelayed)
      if heard.isScheduled { return false }
      heard.isScheduled = true
      return true
    }
    if isToSchedule && !workshop.thread.enqueue({ self.process() }) {
      fail(SpeechError(.busy, "pocketsphinx is busy."))
    }
  }

  func finish() async throws(SpeechError) -> String {
    defer { sink.finish() }
    let count = heard.withLock { heard in
      heard.take(heard.adapter.finish(), relayed: isRelayed)
      return heard.count
    }
    let limit = answerLimit + .samples(count, rate: PocketsphinxDecoder.rate) * 4
    do throws(SpeechError) {
      return try await workshop.thread.run("pocketsphinx", limit: limit) { self.end() }.get()
    } catch {
      if error.code == .timeout { hung() }
      throw error
    }
  }

  func cancel() async {
    fail(SpeechError(.cancelled, "The transcription was cancelled."))
    sink.finish()
  }

  private func fail(_ error: SpeechError) {
    heard.withLock { heard in
      if heard.failure == nil { heard.failure = error }
      heard.pending = []
    }
    if error.code != .cancelled { sink.yield(.failed(error)) }
  }

  // MARK: On the thread

  /// Hands over what has been heard.
  private func process() {
    while true {
      let (samples, isFirst, isOver) = heard.withLock { heard -> ([Int16], Bool, Bool) in
        // A quarter of a second at a time: how often a partial text may change.
        let samples = Array(heard.pending.prefix(PocketsphinxDecoder.rate / 4))
        heard.pending.removeFirst(samples.count)
        if samples.isEmpty { heard.isScheduled = false }
        let isFirst = !heard.hasStarted
        heard.hasStarted = true
        return (samples, isFirst, heard.failure != nil)
      }
      if isOver { return }
      switch workshop.decoder(for: self, relayed: isRelayed, isFirst: isFirst) {
      case .failure(let error): return fail(error)
      case .success(nil): return fail(SpeechError(.busy, "Another utterance took pocketsphinx over."))
      case .success(let decoder?):
        if samples.isEmpty { return }
        decoder.process(samples)
        tell(decoder.hypothesis)
      }
    }
  }

  private func end() -> Result<String, SpeechError> {
    process()
    if let failure = heard.withLock({ $0.failure }) { return .failure(failure) }
    return workshop.decoder(for: self, relayed: isRelayed, isFirst: false).flatMap { decoder in
      guard let decoder else { return .failure(SpeechError(.busy, "Another utterance took pocketsphinx over.")) }
      return .success(decoder.end())
    }
  }

  private func tell(_ text: String) {
    let isNew = partial.withLock { partial in
      defer { partial = text }
      return !text.isEmpty && text != partial
    }
    if isNew { sink.yield(.partial(text)) }
  }
}
