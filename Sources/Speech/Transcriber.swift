import Audio

/// Turns speech into text. Three are there: the gateway's (in the conversation's room), a helper program of the user's choice, and
/// pocketsphinx.
public protocol Transcriber: Sendable {
  /// `gateway`, `command` or `pocketsphinx`: the word in the configuration and in `doctor`.
  var name: String { get }
  /// Whether text comes while a person speaks. Where it does not, the end of speech is told from the level alone.
  var hasPartials: Bool { get }
  /// Whether it could transcribe now, and what it is good for.
  func availability() async -> SpeechAvailability
  /// Loads what takes time, so that the first utterance need not wait for it.
  func prepare() async
  /// Opens a transcription, to be fed sound as it is heard.
  func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription
  /// Gives up what it holds: processes, threads.
  func stop() async
}

extension Transcriber {
  public func prepare() async {}
  public func stop() async {}
}

/// What is going to be heard.
public struct TranscriptionRequest: Sendable, Equatable {
  /// Samples a second of what is fed.
  public var rate: Int
  /// BCP-47; nil = the transcriber's own choice.
  public var language: String?

  public init(rate: Int = 16_000, language: String? = nil) {
    self.rate = rate
    self.language = language
  }
}

/// One utterance on its way to text. `feed` and `finish` are called by one task, one after another; `cancel` may come from another.
public protocol Transcription: Sendable {
  /// What is understood so far. Ends with the transcription. The newest are kept when they are not taken.
  var events: AsyncStream<TranscriptionEvent> { get }
  /// Takes sound, in order. Returns at once or within milliseconds; a failure is thrown by `finish`.
  func feed(_ samples: [Float]) async
  /// All has been fed: the text of it, empty when nothing was understood. Bounded by the transcriber's own deadlines.
  func finish() async throws(SpeechError) -> String
  /// Nobody wants the text any more. A `finish` that waits throws `cancelled`.
  func cancel() async
}

/// What a transcription says while it runs.
public enum TranscriptionEvent: Sendable, Equatable {
  /// The whole text as understood now; it replaces the one before.
  case partial(String)
  /// The recogniser holds the utterance to be over; with the whole text so far. Feeding may go on.
  case final(String)
  /// It has failed, and `finish` will throw this.
  case failed(SpeechError)
}

/// What was understood, and by which transcriber.
public struct Transcript: Sendable, Equatable {
  /// Trimmed; empty when nothing was understood.
  public var text: String
  public var transcriber: String
  /// How much was heard.
  public var duration: Duration
  /// From the end of speech to the text.
  public var latency: Duration
  /// Transcribers that failed before, with the reason.
  public var failures: [Failure]

  public struct Failure: Sendable, Equatable {
    public var transcriber: String
    public var error: SpeechError
  }
}
