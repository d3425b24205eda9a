import CLinux
import Glibc

/// A pthread mutex around a value.
///
/// `Synchronization.Mutex` is a bare futex on Linux, which ThreadSanitizer does not see: it reports races that are not there.
/// It knows pthread mutexes.
// @unchecked Sendable: `value` is only reached through `withLock`, which holds the mutex.
public final class Lock<Value>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private var value: Value

  public init(_ value: sending Value) {
    self.value = value
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  /// Runs `body` with the mutex held. It must not block or call back into the same lock.
  public func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body(&value)
  }
}
