import Glibc
import System

/// A pthread mutex and condition around a value: how the threads that run blocking C libraries wait for work and for room.
// @unchecked Sendable: `value` is only reached with the mutex held.
final class Monitor<Value>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var value: Value

  init(_ value: sending Value) {
    self.value = value
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
    condition = .allocate(capacity: 1)
    condition.initialize(to: pthread_cond_t())
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    // Deadlines must not move when someone sets the wall clock.
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(condition)
    condition.deallocate()
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  /// Runs `body` with the mutex held and lets every waiter look again. `body` must not block.
  func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    pthread_mutex_lock(mutex)
    defer {
      pthread_cond_broadcast(condition)
      pthread_mutex_unlock(mutex)
    }
    return try body(&value)
  }

  /// Blocks the calling thread until `body` returns a value, which it is asked for after every change; nil when `limit` has passed
  /// first.
  func wait<Result>(atMost limit: Duration? = nil, _ body: (inout Value) -> Result?) -> Result? {
    var until = timespec()
    if let limit {
      let due = Monotonic.now() + limit
      until.tv_sec = Int(due.components.seconds)
      until.tv_nsec = Int(due.components.attoseconds / 1_000_000_000)
    }
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while true {
      if let result = body(&value) {
        pthread_cond_broadcast(condition)
        return result
      }
      if limit == nil {
        pthread_cond_wait(condition, mutex)
      } else if pthread_cond_timedwait(condition, mutex, &until) == ETIMEDOUT {
        return body(&value)
      }
    }
  }
}
