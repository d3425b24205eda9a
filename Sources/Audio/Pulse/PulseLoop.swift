import CLinux
import CPulse
import Glibc
import Synchronization
import System

/// libpulse's main loop as a serial executor: an actor pinned to it runs on the thread that makes libpulse's callbacks, so that
/// a callback enters the actor with `assumeIsolated` and no lock of libpulse's is ever held in our code.
// @unchecked Sendable: `mainloop` is only used on the loop's own thread.
final class PulseLoop: SerialExecutor, @unchecked Sendable {
  private enum Work {
    case job(UnownedJob)
    case closure(@Sendable () -> Void)
  }
  private struct Shared {
    var work: [Work] = []
    var isStopping = false
  }
  let library: PulseLibrary
  let mainloop: OpaquePointer
  /// Readable when there is work. Not pa_mainloop_wakeup: each iteration forgets the wake-ups from before it, so one that comes between
  /// our look at the queue and the iteration would be lost, and its job would wait for the server's next word.
  private let wakeDescriptor: Int32
  private let shared = Lock(Shared())
  private let thread = Atomic<UInt>(0)

  init(library: PulseLibrary) throws(AudioError) {
    self.library = library
    let pulse = library.table
    wakeDescriptor = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    guard wakeDescriptor >= 0, let mainloop = pulse.pa_mainloop_new() else {
      if wakeDescriptor >= 0 { close(wakeDescriptor) }
      throw AudioError(.serverUnavailable, "libpulse did not start: no descriptors or no memory left.")
    }
    self.mainloop = mainloop
    let api = pulse.pa_mainloop_get_api(mainloop)!
    // The source goes with the main loop.
    let source = api.pointee.io_new(
      api, wakeDescriptor, PA_IO_EVENT_INPUT,
      { _, _, descriptor, _, _ in
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
      }, nil)
    let started = source != nil && startThread(name: "pulse") { [self] in run() }
    if !started {
      pulse.pa_mainloop_free(mainloop)
      // `deinit` closes the descriptor: all is set.
      throw AudioError(.serverUnavailable, "libpulse did not start: no thread left.")
    }
  }

  // The thread keeps this object until it has freed the main loop, which watches the descriptor.
  deinit { close(wakeDescriptor) }

  func enqueue(_ job: consuming ExecutorJob) { add(.job(UnownedJob(job))) }

  /// Runs `body` on the loop, after what was enqueued before.
  func perform(_ body: @escaping @Sendable () -> Void) { add(.closure(body)) }

  func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
  func checkIsolated() { precondition(isCurrent, "not on libpulse's loop") }
  func isIsolatingCurrentContext() -> Bool? { isCurrent }
  private var isCurrent: Bool { thread.load(ordering: .acquiring) == UInt(pthread_self()) }

  /// Ends the thread after the jobs already enqueued.
  func stop() {
    shared.withLock { $0.isStopping = true }
    wake()
  }

  private func add(_ work: Work) {
    shared.withLock { $0.work.append(work) }
    if !isCurrent { wake() }
  }

  private func wake() {
    var one: UInt64 = 1
    _ = write(wakeDescriptor, &one, 8)
  }

  private func run() {
    thread.store(UInt(pthread_self()), ordering: .releasing)
    while true {
      let (work, isStopping) = shared.withLock { shared -> ([Work], Bool) in
        defer { shared.work = [] }
        return (shared.work, shared.isStopping)
      }
      for item in work {
        switch item {
        case .job(let job): job.runSynchronously(on: asUnownedSerialExecutor())
        case .closure(let body): body()
        }
      }
      if !work.isEmpty { continue }
      if isStopping { break }
      if library.table.pa_mainloop_iterate(mainloop, 1, nil) < 0 { break }
    }
    library.table.pa_mainloop_free(mainloop)
  }
}
