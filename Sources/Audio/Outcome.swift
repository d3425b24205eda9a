import System

/// A value that a thread will set once, and that tasks can wait for.
final class Outcome<Value: Sendable>: Sendable {
  private struct State {
    var value: Value?
    var waiters: [CheckedContinuation<Value, Never>] = []
  }
  private let state = Lock(State())

  /// Sets the value; only the first one counts. True when this was it.
  @discardableResult
  func set(_ value: Value) -> Bool {
    let waiters = state.withLock { state -> [CheckedContinuation<Value, Never>]? in
      if state.value != nil { return nil }
      state.value = value
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters ?? [] { waiter.resume(returning: value) }
    return waiters != nil
  }

  var value: Value {
    get async {
      await withCheckedContinuation { continuation in
        let ready = state.withLock { state -> Value? in
          if state.value == nil { state.waiters.append(continuation) }
          return state.value
        }
        if let ready { continuation.resume(returning: ready) }
      }
    }
  }
}

/// Runs `body`, and throws `late` when it has not ended after `limit`; it is then left behind and has to clean up by itself.
///
/// A caller that is cancelled still waits: what `body` opens must not be lost.
func within<Value: Sendable>(
  _ limit: Duration, orThrow late: AudioError, _ body: @escaping @concurrent @Sendable () async throws -> Value
) async throws(AudioError) -> Value {
  do {
    return try await Task { try await withDeadline(limit, body) }.value
  } catch let error as AudioError {
    throw error
  } catch {
    throw late
  }
}
