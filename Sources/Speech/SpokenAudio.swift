import Audio
import System

/// Speech as it is made: pieces of sound in order. The first comes within milliseconds; at most `bufferLimit` of sound is made ahead of
/// what is taken, so that a long answer is never in memory as a whole.
///
/// Take it once, with `for try await`. It is cancelled by `cancel()`, by the end of the task that takes it, and when nobody holds it any
/// more; after that no further piece comes.
public final class SpokenAudio: AsyncSequence, Sendable {
  public typealias Element = PCM
  public typealias Failure = SpeechError

  /// How much may be made ahead.
  static let bufferLimit = Duration.seconds(2)

  /// The voice's sample rate in Hz is that of each piece.
  public struct Iterator: AsyncIteratorProtocol {
    let owner: SpokenAudio

    public mutating func next() async throws(SpeechError) -> PCM? { try await owner.channel.next() }
    public mutating func next(isolation: isolated (any Actor)?) async throws(SpeechError) -> PCM? {
      try await owner.channel.next()
    }
  }

  let channel: SoundChannel
  /// Who speaks it. Held, because a synthesiser that nobody holds any more ends what it is saying.
  private let speaker: AnyObject & Sendable

  init(channel: SoundChannel, speaker: AnyObject & Sendable) {
    self.channel = channel
    self.speaker = speaker
  }
  deinit { channel.cancel() }

  public func makeAsyncIterator() -> Iterator { Iterator(owner: self) }

  /// Ends it at once, from any thread: the engine stops at its next piece, a few milliseconds on.
  public func cancel() { channel.cancel() }

  /// All of it as one sound, at most `limit` long (the rest is not made).
  public func whole(atMost limit: Duration = .seconds(120)) async throws(SpeechError) -> PCM {
    var whole: PCM?
    for try await piece in self {
      if whole == nil { whole = PCM([], rate: piece.rate) }
      whole?.samples += piece.samples
      if let whole, whole.duration >= limit { break }
    }
    return whole ?? PCM([], rate: 22_050)
  }
}

/// Between the engine's thread, which waits for room, and the task that takes the sound.
final class SoundChannel: Sendable {
  private struct State {
    var pieces: [PCM] = []
    var buffered = Duration.zero
    var end: Result<Void, SpeechError>?
    var isCancelled = false
    var taker: CheckedContinuation<PCM?, any Error>?
  }
  private let state = Monitor(State())

  /// From the engine's thread: false when it is to stop. Waits while enough is buffered, for at most `patience`: a taker that takes
  /// nothing for so long is gone.
  func put(_ piece: PCM, patience: Duration) -> Bool {
    let isTaken = state.wait(atMost: patience) { state -> Bool? in
      if state.isCancelled || state.end != nil { return false }
      if state.buffered >= SpokenAudio.bufferLimit { return nil }
      if let taker = state.taker {
        state.taker = nil
        taker.resume(returning: piece)
      } else {
        state.pieces.append(piece)
        state.buffered += piece.duration
      }
      return true
    }
    if isTaken == nil {
      finish(.failure(SpeechError(.timeout, "Nobody took the speech for \(Int(patience.inSeconds)) s.")))
    }
    return isTaken ?? false
  }

  func finish(_ end: Result<Void, SpeechError>) {
    let taker = state.withLock { state -> CheckedContinuation<PCM?, any Error>? in
      if state.end != nil { return nil }
      state.end = end
      defer { state.taker = nil }
      return state.taker
    }
    switch end {
    case .success: taker?.resume(returning: nil)
    case .failure(let error): taker?.resume(throwing: error)
    }
  }

  func cancel() {
    let taker = state.withLock { state -> CheckedContinuation<PCM?, any Error>? in
      state.isCancelled = true
      state.pieces = []
      if state.end == nil { state.end = .success(()) }
      defer { state.taker = nil }
      return state.taker
    }
    taker?.resume(returning: nil)
  }

  var hasEnded: Bool { state.withLock { $0.end != nil } }
  /// Whether the engine waits for somebody to take something.
  var isFull: Bool { state.withLock { $0.buffered >= SpokenAudio.bufferLimit } }

  func next() async throws(SpeechError) -> PCM? {
    do {
      return try await withTaskCancellationHandler {
        try await withCheckedThrowingContinuation { (taker: CheckedContinuation<PCM?, any Error>) in
          let answer = state.withLock { state -> Result<PCM?, any Error>? in
            if !state.pieces.isEmpty {
              let piece = state.pieces.removeFirst()
              state.buffered -= piece.duration
              return .success(piece)
            }
            switch state.end {
            case .success?: return .success(nil)
            case .failure(let error)?: return .failure(error)
            case nil:
              // A second taker would wait for pieces that the first gets.
              precondition(state.taker == nil, "speech is taken by one task")
              state.taker = taker
              return nil
            }
          }
          if let answer { taker.resume(with: answer) }
        }
      } onCancel: {
        cancel()
      }
    } catch let error as SpeechError {
      throw error
    } catch {
      throw SpeechError(.cancelled, "Speaking was cancelled.")
    }
  }
}
