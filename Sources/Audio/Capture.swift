import System

/// A running capture: what the microphone hears, as an asynchronous sequence with one reader.
///
/// It ends with nil after `stop()` (what was heard until then is delivered first) and throws when the microphone is lost for good;
/// everything heard before is delivered before that. It is bounded: when the reader is more than `Options.bound` behind, the
/// oldest sound is dropped and `.overflow` says how much.
public struct Capture: AsyncSequence, Sendable {
  /// What a reader may choose.
  public struct Options: Sendable, Equatable {
    /// Samples a second that the reader wants.
    public var rate: Int
    /// Every chunk but the first and the last is exactly this long. Each wakes its reader, and those behind it.
    public var chunk: Duration
    /// How long the first one is: a reader shall know soon that sound comes. Nil: like the others.
    public var first: Duration?
    /// How far the reader may be behind.
    public var bound: Duration

    public init(
      rate: Int = 16_000, chunk: Duration = .milliseconds(20), first: Duration? = nil, bound: Duration = .seconds(10)
    ) {
      self.rate = rate
      self.chunk = chunk
      self.first = first
      self.bound = bound
    }
  }

  /// A stretch of sound.
  public struct Chunk: Sendable, Equatable {
    /// Mono samples at the rate that was asked for.
    public var samples: [Float]
    /// Index of the first sample in everything that was captured.
    public var position: Int
    /// When the first sample was heard, as well as it is known (`Monotonic`).
    public var at: Duration
    public var level: Level
  }

  /// Something that a person may want to know about the capture.
  public enum Notice: Sendable, Equatable {
    /// The microphone went away; the capture waits for it.
    case interrupted(AudioError)
    /// It is back, after this long.
    case resumed(after: Duration)
    /// Only zeros came for a second, so the microphone was opened anew. Never said of a monitor, which is silent when nothing plays.
    case reopenedBecauseSilent
    /// Still only zeros: it is muted, or switched off, or not connected.
    case silent
    /// The zeros have ended.
    case soundReturned
    /// The reader was too slow and this much sound was dropped.
    case overflow(Duration)
    /// The device lost sound before it could be read.
    case gap
  }

  public enum Event: Sendable, Equatable {
    case chunk(Chunk)
    case notice(Notice)
  }

  /// The microphone in use when the capture began, and what it was opened with.
  public let device: AudioDevice
  public let format: AudioFormat
  /// Why it was opened so, and what is converted.
  public let reason: String
  public let options: Options

  let buffer: CaptureBuffer
  let run: CaptureRun

  /// Ends the capture. The microphone is closed when this returns; what was heard is still delivered.
  public func stop() async { await run.stop() }

  public func makeAsyncIterator() -> Iterator { Iterator(buffer: buffer, run: run) }

  public struct Iterator: AsyncIteratorProtocol {
    let buffer: CaptureBuffer
    let run: CaptureRun

    public mutating func next() async throws(AudioError) -> Event? { try await buffer.next() }

    public mutating func next(isolation actor: isolated (any Actor)?) async throws(AudioError) -> Event? {
      try await buffer.next()
    }
  }
}
