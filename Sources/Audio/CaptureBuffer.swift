import System

/// The bounded queue between a microphone's thread and the one reader of a capture.
final class CaptureBuffer: Sendable {
  private struct State {
    var events: [Capture.Event] = []
    var waiting = 0
    var dropped = 0
    var outcome: Result<Void, AudioError>?
    var reader: CheckedContinuation<Void, Never>?
  }
  private let state = Lock(State())
  private let rate: Int
  private let bound: Int

  init(rate: Int, bound: Duration) {
    self.rate = rate
    self.bound = max(1, bound.samples(at: rate))
  }

  /// Adds a chunk or a notice; over the bound the oldest sound goes.
  func add(_ event: Capture.Event) {
    let reader = state.withLock { state -> CheckedContinuation<Void, Never>? in
      if state.outcome != nil { return nil }
      state.events.append(event)
      if case .chunk(let chunk) = event { state.waiting += chunk.samples.count }
      while state.waiting > bound, let oldest = state.events.firstIndex(where: \.isChunk) {
        guard case .chunk(let chunk) = state.events.remove(at: oldest) else { break }
        state.waiting -= chunk.samples.count
        state.dropped += chunk.samples.count
      }
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume()
  }

  /// The reader gets what is left and then this. Only the first end counts.
  func end(_ error: AudioError?) {
    let reader = state.withLock { state -> CheckedContinuation<Void, Never>? in
      if state.outcome == nil { state.outcome = error.map { .failure($0) } ?? .success(()) }
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume()
  }

  func next() async throws(AudioError) -> Capture.Event? {
    while true {
      if let result = take() { return try result.get() }
      await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
          let isReady = state.withLock { state -> Bool in
            if Task.isCancelled || state.outcome != nil || !state.events.isEmpty || state.dropped > 0 { return true }
            precondition(state.reader == nil, "a capture has one reader")
            state.reader = continuation
            return false
          }
          if isReady { continuation.resume() }
        }
      } onCancel: {
        let reader = state.withLock { state in
          defer { state.reader = nil }
          return state.reader
        }
        reader?.resume()
      }
      if Task.isCancelled { return nil }
    }
  }

  /// What can be given now: an event, the end, or nil when the reader has to wait.
  private func take() -> Result<Capture.Event?, AudioError>? {
    state.withLock { state in
      if state.dropped > 0 {
        let lost = Duration.samples(state.dropped, rate: rate)
        state.dropped = 0
        return .success(.notice(.overflow(lost)))
      }
      if !state.events.isEmpty {
        let event = state.events.removeFirst()
        if case .chunk(let chunk) = event { state.waiting -= chunk.samples.count }
        return .success(event)
      }
      switch state.outcome {
      case nil: return nil
      case .success: return .success(nil)
      case .failure(let error):
        // A reader that asks again after the error gets nil, not the error for ever.
        state.outcome = .success(())
        return .failure(error)
      }
    }
  }
}

extension Capture.Event {
  fileprivate var isChunk: Bool {
    if case .chunk = self { return true }
    return false
  }
}
