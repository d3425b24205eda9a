import CLinux
import Glibc
import Synchronization

/// A serial executor that is also a poll(2) loop: actors pinned to it run on the very thread that waits for their
/// descriptors, so a descriptor's handler and the actor's own state share one thread and need no locks.
///
/// Pin an actor with `nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }` and enter it
/// from a handler with `assumeIsolated`. Measured at twice the rate of a dispatch source.
///
/// A loop lives until `stop()`; its thread holds it until then.
// @unchecked Sendable: `watches`, `timers` and the counters are touched on the loop's own thread only (checked by
// `checkIsolated`); everything that other threads reach is in `shared`.
public final class EventLoop: SerialExecutor, @unchecked Sendable {
  /// What a descriptor is waited for, and what has happened to it (poll(2)).
  public struct Events: OptionSet, Sendable {
    public let rawValue: Int16
    public init(rawValue: Int16) { self.rawValue = rawValue }
    public static let readable = Events(rawValue: Int16(POLLIN))
    public static let writable = Events(rawValue: Int16(POLLOUT))
    /// Only reported, never asked for.
    public static let hangup = Events(rawValue: Int16(POLLHUP))
    /// Only reported, never asked for.
    public static let error = Events(rawValue: Int16(POLLERR))
  }

  /// Names one watch or one timer.
  public struct Token: Hashable, Sendable { let id: UInt64 }

  private struct Watch {
    let descriptor: Int32
    var events: Events
    let handler: (Events) -> Void
  }
  private struct Timer {
    let due: UInt64
    let handler: () -> Void
  }
  private struct Shared {
    var jobs: [UnownedJob] = []
    var stopping = false
  }

  private let shared = Lock(Shared())
  private let wakeDescriptor: Int32
  private let thread = Atomic<UInt>(0)
  private let polls = Atomic<UInt64>(0)
  private var watches: [UInt64: Watch] = [:]
  private var timers: [UInt64: Timer] = [:]
  private var nextID: UInt64 = 0

  /// Starts the loop's thread, called `name` (at most 15 bytes show in `ps -L`).
  public init(name: String) {
    wakeDescriptor = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    precondition(wakeDescriptor >= 0, "no descriptor left for an event loop")
    var thread = pthread_t()
    let argument = Unmanaged.passRetained(self).toOpaque()
    let code = pthread_create(
      &thread, nil,
      { raw in
        Unmanaged<EventLoop>.fromOpaque(raw!).takeRetainedValue().run()
        return nil
      }, argument)
    precondition(code == 0, "no thread left for an event loop")
    pthread_setname_np(thread, String(name.prefix(15)))
    pthread_detach(thread)
  }

  // MARK: SerialExecutor

  public func enqueue(_ job: consuming ExecutorJob) {
    let unowned = UnownedJob(job)
    let isFirst = shared.withLock { shared in
      shared.jobs.append(unowned)
      return shared.jobs.count == 1
    }
    if isFirst && !isCurrent { wake() }
  }

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
  public func checkIsolated() { precondition(isCurrent, "not on the event loop") }
  public func isIsolatingCurrentContext() -> Bool? { isCurrent }

  /// Whether the calling thread is the loop's.
  public var isCurrent: Bool { thread.load(ordering: .acquiring) == UInt(pthread_self()) }

  /// How often poll(2) has returned since the loop began: the wake-ups that `make bench` counts.
  public var wakeUps: UInt64 { polls.load(ordering: .relaxed) }

  // MARK: Watching, from an actor on this loop

  /// Calls `handler` on the loop whenever `descriptor` is ready for one of `events`, or has hung up. Level-triggered: a handler
  /// that leaves data unread is called again, and one that sees `.hangup` or `.error` must unwatch, or the loop spins.
  public func watch(_ descriptor: Int32, _ events: Events, handler: @escaping (Events) -> Void) -> Token {
    checkIsolated()
    nextID += 1
    watches[nextID] = Watch(descriptor: descriptor, events: events, handler: handler)
    return Token(id: nextID)
  }

  /// Changes what a watch waits for. Unknown tokens are ignored.
  public func rewatch(_ token: Token, _ events: Events) {
    checkIsolated()
    watches[token.id]?.events = events
  }

  /// Ends a watch. Call it before the descriptor is closed. Unknown tokens are ignored.
  public func unwatch(_ token: Token) {
    checkIsolated()
    watches[token.id] = nil
  }

  // MARK: Timers, from an actor on this loop

  /// Calls `handler` once on the loop, `delay` from now by the monotonic clock (which stands still in suspend).
  public func after(_ delay: Duration, handler: @escaping () -> Void) -> Token {
    checkIsolated()
    nextID += 1
    timers[nextID] = Timer(due: Monotonic.nanoseconds() &+ delay.nanosecondsClamped, handler: handler)
    return Token(id: nextID)
  }

  /// Ends a timer that has not fired. Unknown tokens are ignored.
  public func cancel(_ token: Token) {
    checkIsolated()
    timers[token.id] = nil
  }

  /// Ends the loop's thread after the jobs already enqueued. Actors pinned to it never run again.
  public func stop() {
    shared.withLock { $0.stopping = true }
    wake()
  }

  // MARK: The thread

  private func wake() {
    var one: UInt64 = 1
    _ = write(wakeDescriptor, &one, 8)
  }

  private func run() {
    thread.store(UInt(pthread_self()), ordering: .releasing)
    var descriptors: [pollfd] = []
    var ids: [UInt64] = []
    while runJobs() {
      let timeout = runTimers()
      if shared.withLock({ !$0.jobs.isEmpty }) { continue }
      descriptors.removeAll(keepingCapacity: true)
      ids.removeAll(keepingCapacity: true)
      descriptors.append(pollfd(fd: wakeDescriptor, events: Int16(POLLIN), revents: 0))
      ids.append(0)
      for (id, watch) in watches {
        descriptors.append(pollfd(fd: watch.descriptor, events: watch.events.rawValue, revents: 0))
        ids.append(id)
      }
      let ready = poll(&descriptors, nfds_t(descriptors.count), timeout)
      polls.wrappingAdd(1, ordering: .relaxed)
      if ready <= 0 { continue }
      if descriptors[0].revents != 0 {
        var value: UInt64 = 0
        _ = read(wakeDescriptor, &value, 8)
      }
      // A handler may end another's watch, so each is looked up again when its turn comes.
      for index in descriptors.indices.dropFirst() where descriptors[index].revents != 0 {
        watches[ids[index]]?.handler(Events(rawValue: descriptors[index].revents))
      }
    }
    close(wakeDescriptor)
  }

  /// Runs what was enqueued until nothing is left; false when the loop is to end.
  private func runJobs() -> Bool {
    while true {
      let (jobs, stopping) = shared.withLock { shared -> ([UnownedJob], Bool) in
        let jobs = shared.jobs
        shared.jobs = []
        return (jobs, shared.stopping)
      }
      if jobs.isEmpty { return !stopping }
      for job in jobs { job.runSynchronously(on: asUnownedSerialExecutor()) }
    }
  }

  /// Fires what is due and returns the poll timeout to the next timer in milliseconds, rounded up; -1 without one.
  private func runTimers() -> Int32 {
    if timers.isEmpty { return -1 }
    let now = Monotonic.nanoseconds()
    let due = timers.filter { $0.value.due <= now }.sorted { ($0.value.due, $0.key) < ($1.value.due, $1.key) }
    for (id, _) in due {
      guard let timer = timers.removeValue(forKey: id) else { continue }
      timer.handler()
    }
    guard let next = timers.values.map(\.due).min() else { return -1 }
    let wait = next > now ? (next - now + 999_999) / 1_000_000 : 0
    return Int32(min(wait, UInt64(Int32.max)))
  }
}
