import CLinux
import CPulse
import Glibc
import Synchronization
import System

/// libpulse's main loop as a serial executor: an actor pinned to it runs on the thread that makes libpulse's callbacks, so that
/// a callback enters the actor with `assumeIsolated` and no lock of libpulse's is ever held in our code.
// @unchecked Sendable: `mainloop` is only used on the loop's own thread, but for pa_mainloop_wakeup, which is made for others.
final class PulseLoop: SerialExecutor, @unchecked Sendable {
  private struct Shared {
    var jobs: [UnownedJob] = []
    var isStopping = false
    var isOver = false
  }
  let library: PulseLibrary
  let mainloop: OpaquePointer
  private let shared = Lock(Shared())
  private let thread = Atomic<UInt>(0)

  init(library: PulseLibrary) throws(AudioError) {
    self.library = library
    guard let mainloop = library.table.pa_mainloop_new() else {
      throw AudioError(.serverUnavailable, "libpulse did not start: no descriptors or no memory left.")
    }
    self.mainloop = mainloop
    let started = startThread(name: "pulse") { [self] in run() }
    if !started {
      library.table.pa_mainloop_free(mainloop)
      throw AudioError(.serverUnavailable, "libpulse did not start: no thread left.")
    }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let unowned = UnownedJob(job)
    shared.withLock { shared in
      shared.jobs.append(unowned)
      // Under the lock, so that the loop is not freed meanwhile.
      if !shared.isOver && !isCurrent { library.table.pa_mainloop_wakeup(mainloop) }
    }
  }

  func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
  func checkIsolated() { precondition(isCurrent, "not on libpulse's loop") }
  func isIsolatingCurrentContext() -> Bool? { isCurrent }
  private var isCurrent: Bool { thread.load(ordering: .acquiring) == UInt(pthread_self()) }

  /// Ends the thread after the jobs already enqueued.
  func stop() {
    shared.withLock { shared in
      shared.isStopping = true
      if !shared.isOver && !isCurrent { library.table.pa_mainloop_wakeup(mainloop) }
    }
  }

  private func run() {
    thread.store(UInt(pthread_self()), ordering: .releasing)
    while true {
      let (jobs, isStopping) = shared.withLock { shared -> ([UnownedJob], Bool) in
        defer { shared.jobs = [] }
        return (shared.jobs, shared.isStopping)
      }
      for job in jobs { job.runSynchronously(on: asUnownedSerialExecutor()) }
      if !jobs.isEmpty { continue }
      if isStopping { break }
      if library.table.pa_mainloop_iterate(mainloop, 1, nil) < 0 { break }
    }
    shared.withLock { $0.isOver = true }
    library.table.pa_mainloop_free(mainloop)
  }
}
