import System

/// Tasks that wait on one loop, first come first served. A cancelled one gets `Closure.cancelled` at once.
// @unchecked Sendable: used on its loop's thread only, by actors that are pinned to it.
final class Waiters<Value: Sendable>: @unchecked Sendable {
  private typealias Continuation = CheckedContinuation<Result<Value, Closure>, Never>
  private let loop: EventLoop
  private var waiting: [(ticket: UInt64, continuation: Continuation)] = []
  private var lastTicket: UInt64 = 0

  init(loop: EventLoop) { self.loop = loop }

  /// Names the next one to wait; ascending from 1.
  func newTicket() -> UInt64 {
    lastTicket += 1
    return lastTicket
  }

  /// Waits until the ticket, which must be the newest, is resumed.
  // `owner` keeps all of this on the loop: a closure that is given to one of the standard library's async functions runs elsewhere
  // unless it is isolated, and it is isolated to a parameter only when it names it.
  func wait(_ ticket: UInt64, on owner: isolated any Actor) async throws(Closure) -> Value {
    return try await withTaskCancellationHandler {
      _ = owner
      return await withCheckedContinuation {
        loop.checkIsolated()
        waiting.append((ticket, $0))
      }
    } onCancel: {
      // Comes after the line above, even for a task that is cancelled already: this runs when the loop is free again.
      loop.perform { self.resume(ticket, .failure(.cancelled)) }
    }.get()
  }

  /// Unknown tickets are ignored: their tasks were cancelled.
  func resume(_ ticket: UInt64, _ result: Result<Value, Closure>) {
    guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return }
    waiting.remove(at: index).continuation.resume(returning: result)
  }

  /// Resumes who has waited longest; false when nobody waits.
  func resumeFirst(_ result: Result<Value, Closure>) -> Bool {
    if waiting.isEmpty { return false }
    waiting.removeFirst().continuation.resume(returning: result)
    return true
  }

  /// Resumes all whose ticket is not newer than `ticket`.
  func resume(upTo ticket: UInt64, _ result: Result<Value, Closure>) {
    while let first = waiting.first, first.ticket <= ticket { _ = resumeFirst(result) }
  }

  func resumeAll(_ result: Result<Value, Closure>) { resume(upTo: .max, result) }
}
