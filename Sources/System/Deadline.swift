/// A wait has lasted too long.
public struct DeadlineExceeded: Error, Sendable, Equatable {
  public let limit: Duration
}

/// Runs `body`, and throws `DeadlineExceeded` when it has not ended after `limit`.
///
/// At the deadline (and when the caller is cancelled) `body` is cancelled and *left behind*: work that ignores cancellation can
/// therefore not hold its caller. What it returns later is dropped.
public func withDeadline<Value: Sendable>(
  _ limit: Duration, _ body: @escaping @concurrent @Sendable () async throws -> Value
) async throws -> Value {
  let race = Race<Value>()
  return try await withTaskCancellationHandler {
    try await withCheckedThrowingContinuation { continuation in
      race.begin(continuation)
      let work = Task {
        do { race.end(.success(try await body())) } catch { race.end(.failure(error)) }
      }
      let timer = Task {
        try await Task.sleep(for: limit)
        race.end(.failure(DeadlineExceeded(limit: limit)))
      }
      race.cancelAtEnd([work, timer])
    }
  } onCancel: {
    race.end(.failure(CancellationError()))
  }
}

/// The first of several ends wins; the others are cancelled.
private final class Race<Value: Sendable>: Sendable {
  private struct State {
    var continuation: CheckedContinuation<Value, any Error>?
    var early: Result<Value, any Error>?
    var hasEnded = false
    var tasks: [any Cancellable] = []
  }
  private let state = Lock(State())

  func begin(_ continuation: CheckedContinuation<Value, any Error>) {
    let early = state.withLock { state -> Result<Value, any Error>? in
      if state.early == nil { state.continuation = continuation }
      return state.early
    }
    if let early { continuation.resume(with: early) }
  }

  func cancelAtEnd(_ tasks: [any Cancellable]) {
    let hasEnded = state.withLock { state in
      if !state.hasEnded { state.tasks = tasks }
      return state.hasEnded
    }
    if hasEnded { for task in tasks { task.cancel() } }
  }

  func end(_ result: Result<Value, any Error>) {
    let (continuation, tasks) = state.withLock {
      state -> (CheckedContinuation<Value, any Error>?, [any Cancellable]) in
      if state.hasEnded { return (nil, []) }
      state.hasEnded = true
      if state.continuation == nil { state.early = result }
      defer {
        state.continuation = nil
        state.tasks = []
      }
      return (state.continuation, state.tasks)
    }
    continuation?.resume(with: result)
    for task in tasks { task.cancel() }
  }
}

private protocol Cancellable: Sendable { func cancel() }
extension Task: Cancellable {}
