import System

/// Tasks that wait on one loop, first come first served. A cancelled one gets `Closure.cancelled` at once.
// @unchecked Sendable: used on its loop's thread only, by actors that are pinned to it.
final class Waiters<Value: Sendable>: @unchecked Sendable {
  private typealias Continuation = CheckedContinuation<Result<Value, Closure>, Never>
  private let loop: EventLoop
  /// In their order; without a continuation from `place` on until the task does wait.
  private var waiting: [(ticket: UInt64, continuation: Continuation?)] = []
  /// What came for a place before its task waited.
  private var early: [UInt64: Result<Value, Closure>] = [:]
  private var lastTicket: UInt64 = 0

  init(loop: EventLoop) { self.loop = loop }

  /// Names the next one to wait; ascending from 1.
  func newTicket() -> UInt64 {
    lastTicket += 1
    return lastTicket
  }

  /// Takes a place in the row, which must then be waited at: without it what comes between a task's last look and its waiting would be
  /// lost, for the runtime may let others run in between (seen once in some runs, Swift 6.3). Without a ticket, with a new one.
  func place(_ ticket: UInt64? = nil) -> UInt64 {
    let ticket = ticket ?? newTicket()
    waiting.append((ticket, nil))
    return ticket
  }

  /// Waits until the ticket, which has a place, is resumed.
  // `owner` keeps all of this on the loop: a closure that is given to one of the standard library's async functions runs elsewhere
  // unless it is isolated, and it is isolated to a parameter only when it names it.
  func wait(_ ticket: UInt64, on owner: isolated any Actor) async throws(Closure) -> Value {
    return try await withTaskCancellationHandler {
      _ = owner
      return await withCheckedContinuation {
        loop.checkIsolated()
        if let result = early.removeValue(forKey: ticket) { return $0.resume(returning: result) }
        guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else {
          return $0.resume(returning: .failure(.cancelled))
        }
        waiting[index].continuation = $0
      }
    } onCancel: {
      loop.perform { self.resume(ticket, .failure(.cancelled)) }
    }.get()
  }

  /// Gives up a place that will not be waited at.
  func leave(_ ticket: UInt64) {
    waiting.removeAll { $0.ticket == ticket }
    early[ticket] = nil
  }

  /// Unknown tickets are ignored: their tasks were cancelled.
  func resume(_ ticket: UInt64, _ result: Result<Value, Closure>) {
    guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return }
    settle(waiting.remove(at: index), result)
  }

  private func settle(_ waiter: (ticket: UInt64, continuation: Continuation?), _ result: Result<Value, Closure>) {
    if let continuation = waiter.continuation {
      continuation.resume(returning: result)
    } else {
      early[waiter.ticket] = result
    }
  }

  /// Resumes who has waited longest; false when nobody waits.
  func resumeFirst(_ result: Result<Value, Closure>) -> Bool {
    if waiting.isEmpty { return false }
    settle(waiting.removeFirst(), result)
    return true
  }

  /// Resumes all whose ticket is not newer than `ticket`.
  func resume(upTo ticket: UInt64, _ result: Result<Value, Closure>) {
    while let first = waiting.first, first.ticket <= ticket { _ = resumeFirst(result) }
  }

  func resumeAll(_ result: Result<Value, Closure>) { resume(upTo: .max, result) }
}
