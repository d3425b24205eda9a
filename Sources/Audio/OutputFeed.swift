import System

/// The queue between who makes sound and the thread that plays it: mono samples at the device's rate.
///
/// Bounded: `push` suspends while more than `limit` samples wait.
public final class OutputFeed: Sendable {
  private struct State {
    var samples: [Float] = []
    var start = 0
    var hasEnded = false
    var isClosed = false
    var pulled = 0
    var onPush: (@Sendable () -> Void)?
    var waiter: CheckedContinuation<Void, Never>?
  }
  private let state = Lock(State())
  /// Samples above which `push` suspends.
  public let limit: Int

  /// `limit` is in samples, at least 1.
  public init(limit: Int) { self.limit = max(1, limit) }

  /// Calls `handler` after each push and at the end, on the pusher's thread. The player sets it to be woken.
  func onPush(_ handler: (@Sendable () -> Void)?) { state.withLock { $0.onPush = handler } }

  /// Adds samples and returns when few enough wait. False when the feed has been closed and nobody listens any more.
  @discardableResult
  public func push(_ samples: [Float]) async -> Bool {
    let (handler, isClosed) = state.withLock { state -> ((@Sendable () -> Void)?, Bool) in
      if state.isClosed || state.hasEnded { return (nil, state.isClosed) }
      state.samples += samples
      return (state.onPush, false)
    }
    if isClosed { return false }
    handler?()
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state -> Bool in
        if state.isClosed || state.samples.count - state.start <= limit { return true }
        // One producer at a time: a second one would replace the first's place in the queue.
        precondition(state.waiter == nil, "a feed has one producer")
        state.waiter = continuation
        return false
      }
      if isReady { continuation.resume() }
    }
    return state.withLock { !$0.isClosed }
  }

  /// Nothing more will be pushed: the player plays what is left and reports `.finished`.
  public func end() {
    let handler = state.withLock { state in
      state.hasEnded = true
      return state.onPush
    }
    handler?()
  }

  /// Drops what waits and lets a suspended producer go.
  public func close() {
    let waiter = state.withLock { state in
      state.isClosed = true
      state.samples = []
      state.start = 0
      state.onPush = nil
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume()
  }

  /// Up to `count` samples for the player; `isEnd` when these are the last.
  func pull(_ count: Int) -> (samples: [Float], isEnd: Bool) {
    let (samples, isEnd, waiter) = state.withLock { state -> ([Float], Bool, CheckedContinuation<Void, Never>?) in
      let given = min(count, state.samples.count - state.start)
      let samples = Array(state.samples[state.start..<(state.start + given)])
      state.start += given
      state.pulled += given
      // Move the rest to the front only now and then, so that pulling stays linear.
      if state.start > 65536 || state.start == state.samples.count {
        state.samples.removeFirst(state.start)
        state.start = 0
      }
      let left = state.samples.count - state.start
      var waiter: CheckedContinuation<Void, Never>?
      if left <= limit / 2 {
        waiter = state.waiter
        state.waiter = nil
      }
      return (samples, state.hasEnded && left == 0 || state.isClosed, waiter)
    }
    waiter?.resume()
    return (samples, isEnd)
  }

  /// Samples pulled since the beginning.
  var pulled: Int { state.withLock { $0.pulled } }

  /// Whether samples wait to be pulled.
  var isWaiting: Bool { state.withLock { $0.samples.count > $0.start } }
}
