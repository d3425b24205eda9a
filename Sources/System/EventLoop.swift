import CLinux
import Glibc
import Synchronization

/// A serial executor that is also a poll(2) loop: actors pinned to it run on the very thread that waits for their
/// descriptors, so a descriptor's handler and the actor's own state share one thread and need no locks.
///
/// Pin an actor with `nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }` and enter it
/// from a handler with `assumeIsolated`. Capture the actor weakly in handlers: its `deinit` may already wait in the queue
/// when the handler's turn comes. Measured at twice the rate of a dispatch source.
///
/// Jobs, timers and descriptors take turns: neither a task that never rests nor a descriptor that is always ready keeps the
/// others waiting.
///
/// A loop lives until `stop()`; its thread holds it until then. SIGPIPE is blocked on that thread, because OpenSSL writes to
/// sockets with write(2); who starts a process from it must give the child a mask of its own.
// @unchecked Sendable: `watches`, `timers` and what is made of them are touched on the loop's own thread only (checked by
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
    /// Only reported, never asked for. Also for a descriptor that was closed under its watch, which then has ended.
    public static let error = Events(rawValue: Int16(POLLERR))
  }

  /// Names one watch or one timer.
  public struct Token: Hashable, Sendable { let id: UInt64 }

  private struct Watch {
    let descriptor: Int32
    var events: Events
    let handler: (Events) -> Void
  }
  private enum Work {
    case job(UnownedJob)
    case closure(@Sendable () -> Void)
  }
  private struct Shared {
    var work: [Work] = []
    var isStopping = false
    /// The thread is in poll(2) or about to be, and must be woken for new work.
    var isAsleep = false
  }

  private let shared = Lock(Shared())
  private let wakeDescriptor: Int32
  private let thread = Atomic<UInt>(0)
  private let polls = Atomic<UInt64>(0)
  private var watches: [UInt64: Watch] = [:]
  private var timers = TimerQueue()
  private var nextID: UInt64 = 0
  /// What poll(2) is given, and whose each entry is. Made anew only after watches have changed.
  private var descriptors: [pollfd] = []
  private var owners: [UInt64] = []
  private var isStale = true
  private var running: [Work] = []

  /// Room for one read(2) at a time, for whoever reads on the loop: what is in it is gone when the handler returns.
  public let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 17, alignment: 64)

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

  // Not at the end of the thread: a late `enqueue` would write to a descriptor that is somebody else's by then.
  deinit {
    close(wakeDescriptor)
    scratch.deallocate()
  }

  // MARK: SerialExecutor

  public func enqueue(_ job: consuming ExecutorJob) { add(.job(UnownedJob(job))) }
  public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
  public func checkIsolated() { precondition(isCurrent, "not on the event loop") }
  public func isIsolatingCurrentContext() -> Bool? { isCurrent }

  /// Whether the calling thread is the loop's.
  public var isCurrent: Bool { thread.load(ordering: .acquiring) == UInt(pthread_self()) }

  /// How often poll(2) has returned since the loop began: the wake-ups that `make bench` counts.
  public var wakeUps: UInt64 { polls.load(ordering: .relaxed) }

  /// Runs `body` on the loop in the order of calls, soon but never at once. From any thread; dropped after `stop()`.
  public func perform(_ body: @escaping @Sendable () -> Void) { add(.closure(body)) }

  // MARK: Watching, from an actor on this loop

  /// Calls `handler` on the loop whenever `descriptor` is ready for one of `events`, or has hung up. Level-triggered: a handler
  /// that leaves data unread is called again, and one that sees `.hangup` or `.error` must unwatch, or the loop spins.
  public func watch(_ descriptor: Int32, _ events: Events, handler: @escaping (Events) -> Void) -> Token {
    checkIsolated()
    nextID += 1
    watches[nextID] = Watch(descriptor: descriptor, events: events, handler: handler)
    isStale = true
    return Token(id: nextID)
  }

  /// Changes what a watch waits for. Unknown tokens are ignored.
  public func rewatch(_ token: Token, _ events: Events) {
    checkIsolated()
    guard watches[token.id] != nil else { return }
    watches[token.id]!.events = events
    isStale = true
  }

  /// Ends a watch. Call it before the descriptor is closed. Unknown tokens are ignored.
  public func unwatch(_ token: Token) {
    checkIsolated()
    if watches.removeValue(forKey: token.id) != nil { isStale = true }
  }

  // MARK: Timers, from an actor on this loop

  /// Calls `handler` once on the loop, `delay` from now by the monotonic clock (which stands still in suspend).
  public func after(_ delay: Duration, handler: @escaping () -> Void) -> Token {
    checkIsolated()
    nextID += 1
    timers.add(nextID, due: Monotonic.nanoseconds() &+ delay.nanosecondsClamped, handler)
    return Token(id: nextID)
  }

  /// Ends a timer that has not fired. Unknown tokens are ignored.
  public func cancel(_ token: Token) {
    checkIsolated()
    timers.cancel(token.id)
  }

  /// Ends the loop's thread after the jobs already enqueued. Actors pinned to it never run again.
  public func stop() {
    let wakes = shared.withLock { shared in
      shared.isStopping = true
      return shared.isAsleep
    }
    if wakes { wake() }
  }

  // MARK: The thread

  private func add(_ work: Work) {
    let wakes = shared.withLock { shared in
      shared.work.append(work)
      defer { shared.isAsleep = false }
      return shared.isAsleep
    }
    if wakes { wake() }
  }

  private func wake() {
    var one: UInt64 = 1
    _ = write(wakeDescriptor, &one, 8)
  }

  private func run() {
    blockBrokenPipes()
    thread.store(UInt(pthread_self()), ordering: .releasing)
    while runWork() {
      // Descriptors first: after a long stall, the answer that lies in the kernel comes before the deadline for it.
      pollOnce()
      fireTimers()
    }
    watches = [:]
    timers = TimerQueue()
    // The thread's number may be given to another one.
    thread.store(0, ordering: .releasing)
  }

  /// Runs what was enqueued; false when the loop is to end. Work that makes more work gets a few rounds, which saves a poll(2)
  /// for each hop between tasks, and then the descriptors have their turn.
  private func runWork() -> Bool {
    for _ in 0..<16 {
      let isStopping = shared.withLock { shared in
        swap(&shared.work, &running)
        return shared.isStopping
      }
      if running.isEmpty { return !isStopping }
      for work in running {
        switch work {
        case .job(let job): job.runSynchronously(on: asUnownedSerialExecutor())
        case .closure(let body): body()
        }
      }
      running.removeAll(keepingCapacity: running.capacity <= 1024)
    }
    return true
  }

  private func fireTimers() {
    guard let first = timers.nextDue else { return }
    let now = Monotonic.nanoseconds()
    if first > now { return }
    for id in timers.due(at: now) { timers.take(id)?() }
  }

  /// How long poll(2) may wait for the next timer: milliseconds, rounded up; -1 without one.
  private func timeout() -> Int32 {
    guard let next = timers.nextDue else { return -1 }
    let now = Monotonic.nanoseconds()
    let wait = next > now ? (next - now + 999_999) / 1_000_000 : 0
    return Int32(min(wait, UInt64(Int32.max)))
  }

  private func pollOnce() {
    let sleeps = shared.withLock { shared in
      shared.isAsleep = shared.work.isEmpty && !shared.isStopping
      return shared.isAsleep
    }
    if isStale { listDescriptors() }
    let ready = poll(&descriptors, nfds_t(descriptors.count), sleeps ? timeout() : 0)
    polls.wrappingAdd(1, ordering: .relaxed)
    if sleeps { shared.withLock { $0.isAsleep = false } }
    if ready <= 0 { return }
    if descriptors[0].revents != 0 {
      var value: UInt64 = 0
      _ = read(wakeDescriptor, &value, 8)
    }
    // A handler may end another's watch or its own, so each is looked up when its turn comes.
    for index in descriptors.indices.dropFirst() where descriptors[index].revents != 0 {
      guard let watch = watches[owners[index]] else { continue }
      var events = Events(rawValue: descriptors[index].revents)
      if events.rawValue & Int16(POLLNVAL) != 0 {
        watches[owners[index]] = nil
        isStale = true
        events = .error
      }
      watch.handler(events)
    }
  }

  private func listDescriptors() {
    descriptors.removeAll(keepingCapacity: true)
    owners.removeAll(keepingCapacity: true)
    descriptors.append(pollfd(fd: wakeDescriptor, events: Int16(POLLIN), revents: 0))
    owners.append(0)
    for (id, watch) in watches {
      descriptors.append(pollfd(fd: watch.descriptor, events: watch.events.rawValue, revents: 0))
      owners.append(id)
    }
    isStale = false
  }
}
