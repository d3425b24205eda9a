import Audio
import System

/// One capture on its way to text: keeps what is heard, and has it transcribed by the first transcriber that can.
///
/// A transcriber that fails, at its start or at its end, is followed by the next, which gets everything from the beginning. What was
/// heard is kept until the hearing is let go, so that it can be stored when no transcriber understood it.
public actor Hearing {
  public enum Event: Sendable, Equatable {
    /// The whole text as understood now.
    case partial(String)
    /// The recogniser holds the utterance to be over.
    case final(String)
    /// This transcriber works on it now.
    case transcriber(String)
    /// This transcriber failed; another follows if there is one.
    case failed(Transcript.Failure)
  }

  /// What is said while it is heard. Ends with the hearing; the newest are kept when they are not taken.
  public nonisolated let events: AsyncStream<Event>
  public nonisolated let request: TranscriptionRequest

  private let transcribers: [any Transcriber]
  private let limit: Int
  private let sink: AsyncStream<Event>.Continuation
  private var heard: [Int16] = []
  private var isFinished = false
  private var finishedAt: Duration = .zero
  private var isCancelled = false
  private var pump: Task<Result<Transcript, SpeechError>, Never>?
  /// The pump, when it waits for more sound or for the end.
  private var waiting: CheckedContinuation<Void, Never>?
  private var current: (any Transcription)?
  private var hasFailed = false
  private var attempt = 0

  /// How much is handed to a transcriber at a time when it has to catch up.
  private static let piece = Duration.seconds(1)

  /// `limit` is how much is kept; `feed` says when it is full.
  public init(transcribers: [any Transcriber], request: TranscriptionRequest, limit: Duration = .seconds(330)) {
    self.transcribers = transcribers
    self.request = request
    self.limit = limit.samples(at: request.rate)
    (events, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(64))
  }

  /// Begins to have it transcribed. Calling it is optional: `finish` does, too.
  public func start() {
    if pump != nil { return }
    pump = Task { await self.transcribe() }
  }

  /// Keeps `samples` and lets the transcriber have them. False when no more fits: the capture is to end.
  @discardableResult
  public func feed(_ samples: [Float]) -> Bool {
    if isFinished || isCancelled { return false }
    let room = limit - heard.count
    for sample in samples.prefix(room) { heard.append(Int16(sample: sample)) }
    wake()
    return heard.count < limit
  }

  /// The text of all that was fed. Throws the last transcriber's error when none could transcribe it; `sound` still has it then.
  public func finish() async throws(SpeechError) -> Transcript {
    if !isFinished { finishedAt = Monotonic.now() }
    isFinished = true
    start()
    wake()
    guard let pump else { throw SpeechError(.cancelled, "The capture was cancelled.") }
    return try await pump.value.get()
  }

  /// Forgets it all. A `finish` that waits throws `cancelled`.
  public func cancel() async {
    isCancelled = true
    heard = []
    wake()
    await current?.cancel()
    if pump == nil { sink.finish() }
  }

  /// What was heard.
  public var sound: PCM { PCM(int16: heard, rate: request.rate) }
  public var duration: Duration { .samples(heard.count, rate: request.rate) }

  // MARK: The pump

  private func wake() {
    waiting?.resume()
    waiting = nil
  }

  private func transcribe() async -> Result<Transcript, SpeechError> {
    defer { sink.finish() }
    var failures: [Transcript.Failure] = []
    for transcriber in transcribers {
      sink.yield(.transcriber(transcriber.name))
      do throws(SpeechError) {
        let text = try await transcribe(with: transcriber)
        let latency = Monotonic.now() - finishedAt
        return .success(
          Transcript(
            text: text.trimmed, transcriber: transcriber.name, duration: duration, latency: latency, failures: failures)
        )
      } catch {
        if isCancelled { return .failure(SpeechError(.cancelled, "The capture was cancelled.")) }
        let failure = Transcript.Failure(transcriber: transcriber.name, error: error)
        failures.append(failure)
        sink.yield(.failed(failure))
        Log.warning("Transcriber \(transcriber.name) failed: \(error.summary)")
      }
    }
    let none = SpeechError(
      .missing, "No transcriber is set up.", remedy: "talknode doctor says what can be installed.")
    return .failure(failures.last?.error ?? none)
  }

  private func transcribe(with transcriber: any Transcriber) async throws(SpeechError) -> String {
    let transcription = try await transcriber.begin(request)
    current = transcription
    hasFailed = false
    attempt += 1
    let forwarding = Task { [attempt] in await self.forward(transcription.events, of: attempt) }
    defer {
      forwarding.cancel()
      current = nil
    }
    let piece = Hearing.piece.samples(at: request.rate)
    var at = 0
    while true {
      if isCancelled {
        await transcription.cancel()
        throw SpeechError(.cancelled, "The capture was cancelled.")
      }
      if at < heard.count && !hasFailed {
        let next = min(heard.count, at + piece)
        let samples = heard[at..<next].map { Float($0) / 32768 }
        at = next
        await transcription.feed(samples)
      } else if isFinished || hasFailed {
        // After a failure this throws it, so that the next transcriber begins while the person still speaks.
        return try await transcription.finish()
      } else {
        await withCheckedContinuation { waiting = $0 }
      }
    }
  }

  private func forward(_ events: AsyncStream<TranscriptionEvent>, of attempt: Int) async {
    for await event in events {
      // What a transcriber says after it was given up is not about the next one.
      if attempt != self.attempt { return }
      switch event {
      case .partial(let text): sink.yield(.partial(text))
      case .final(let text): sink.yield(.final(text))
      case .failed:
        hasFailed = true
        wake()
      }
    }
  }
}
