import CLinux
import Glibc
import System
import Testing

/// An actor on a loop, for tests that must stand there.
private actor Resident {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private var tokens: [EventLoop.Token] = []
  private(set) var events: [String] = []

  init(_ loop: EventLoop) { self.loop = loop }

  /// Does several things with nothing between them.
  func inOneGo(_ body: @Sendable (isolated Resident) -> Void) { body(self) }

  func note(_ event: String) { events.append(event) }
  func onLoop() -> Bool { loop.isCurrent }

  func after(_ delay: Duration, _ event: String) {
    tokens.append(loop.after(delay) { [weak self] in self?.assumeIsolated { $0.note(event) } })
  }

  /// A timer that, when it fires, does `action` here.
  func after(_ delay: Duration, _ action: @escaping @Sendable (isolated Resident) -> Void) {
    tokens.append(loop.after(delay) { [weak self] in self?.assumeIsolated { action($0) } })
  }

  func fireAgainAndAgain() {
    _ = loop.after(.zero) { [weak self] in self?.assumeIsolated { $0.fireAgainAndAgain() } }
  }

  func cancelTimer(_ index: Int) { loop.cancel(tokens[index]) }

  func watch(
    _ descriptor: Int32, _ events: EventLoop.Events,
    _ action: @escaping @Sendable (isolated Resident, EventLoop.Events) -> Void
  ) {
    tokens.append(
      loop.watch(descriptor, events) { [weak self] events in self?.assumeIsolated { action($0, events) } })
  }

  func unwatch(_ index: Int) { loop.unwatch(tokens[index]) }
  func rewatch(_ index: Int, _ events: EventLoop.Events) { loop.rewatch(tokens[index], events) }
}

/// Two ends of a pipe, closed with it.
private final class Pipe: Sendable {
  let reading: Int32
  let writing: Int32
  init() {
    var ends: [Int32] = [-1, -1]
    precondition(pipe2(&ends, O_NONBLOCK | O_CLOEXEC) == 0)
    (reading, writing) = (ends[0], ends[1])
  }
  deinit {
    close(reading)
    close(writing)
  }
  func fill(_ count: Int = 1) {
    var bytes = [UInt8](repeating: 1, count: count)
    _ = Glibc.write(writing, &bytes, count)
  }
}

@Suite("The event loop")
struct EventLoopTests {
  private let loop = EventLoop(name: "system test")
  private let resident: Resident

  init() { resident = Resident(loop) }

  @Test("an actor pinned to a loop runs on its thread, and hops between two such actors are no hops")
  func pinned() async {
    let other = Resident(loop)
    #expect(await resident.onLoop())
    #expect(await other.onLoop())
    #expect(!loop.isCurrent)
    loop.stop()
  }

  @Test("work that is handed over from many threads is all done, in each thread's order")
  func perform() async throws {
    let seen = Lock([[Int]](repeating: [], count: 8))
    for thread in 0..<8 {
      _ = startThread(name: "performer") {
        for number in 0..<500 { loop.perform { seen.withLock { $0[thread].append(number) } } }
      }
    }
    try await eventually("all is done") { seen.withLock { $0.allSatisfy { $0.count == 500 } } }
    #expect(seen.withLock { $0 } == [[Int]](repeating: Array(0..<500), count: 8))
    loop.stop()
  }

  // MARK: Timers

  @Test("timers fire in the order they are due, those due together in the order they were made")
  func timerOrder() async throws {
    await resident.inOneGo { resident in
      resident.after(.milliseconds(60), "c")
      resident.after(.milliseconds(30), "b")
      resident.after(.zero, "a")
      resident.after(.milliseconds(60), "d")
      resident.after(.seconds(-5), "a2")
    }
    try await eventually("all have fired") { await resident.events.count == 5 }
    #expect(await resident.events == ["a", "a2", "b", "c", "d"])
    loop.stop()
  }

  @Test("a cancelled timer does not fire, also when another that is due with it cancels it")
  func cancelledTimer() async throws {
    await resident.inOneGo { resident in
      resident.after(.milliseconds(1)) { resident in
        resident.note("first")
        resident.cancelTimer(1)
      }
      resident.after(.milliseconds(1), "second")
      resident.after(.milliseconds(20), "third")
      resident.after(.milliseconds(10), "fourth")
      resident.cancelTimer(3)
    }
    try await eventually("the last has fired") { await resident.events.last == "third" }
    #expect(await resident.events == ["first", "third"])
    loop.stop()
  }

  @Test("a timer that makes a new one at once leaves the others their turn")
  func rearming() async throws {
    await resident.fireAgainAndAgain()
    await resident.after(.milliseconds(5), "other")
    let pipe = Pipe()
    pipe.fill()
    await resident.watch(pipe.reading, .readable) { resident, _ in
      resident.note("pipe")
      resident.unwatch(1)
    }
    try await eventually("both have had their turn") { await Set(resident.events).count == 2 }
    loop.stop()
  }

  @Test("an idle loop sleeps")
  func idle() async throws {
    _ = await resident.onLoop()
    await resident.after(.seconds(3600), "never")
    // A few wake-ups may still be under way from the calls above.
    try await eventually("the loop comes to rest") {
      let before = loop.wakeUps
      try await Task.sleep(for: .milliseconds(50))
      return loop.wakeUps == before
    }
    loop.stop()
  }

  // MARK: Descriptors

  @Test("a watch is level-triggered, and sees only what it waits for")
  func levels() async throws {
    let pipe = Pipe()
    await resident.watch(pipe.reading, .readable) { resident, events in
      resident.note(events.contains(.readable) ? "readable" : "other")
      var byte: UInt8 = 0
      _ = read(pipe.reading, &byte, 1)
    }
    pipe.fill(3)
    try await eventually("each byte is reported") { await resident.events.count == 3 }
    await resident.rewatch(0, [])
    pipe.fill()
    _ = await resident.onLoop()
    #expect(await resident.events.count == 3)
    await resident.rewatch(0, .readable)
    try await eventually("it is reported after all") { await resident.events.count == 4 }
    loop.stop()
  }

  @Test("a handler may end its own watch and another's, and make new ones")
  func unwatching() async throws {
    let pipes = (0..<3).map { _ in Pipe() }
    for index in 0..<2 {
      await resident.watch(pipes[index].reading, .readable) { resident, _ in
        // Whoever comes first ends both.
        resident.note("first")
        resident.unwatch(0)
        resident.unwatch(1)
        resident.watch(pipes[2].reading, .readable) { resident, _ in
          resident.note("new")
          resident.unwatch(2)
        }
      }
    }
    await resident.inOneGo { _ in for pipe in pipes { pipe.fill() } }
    try await eventually("the new one is called") { await resident.events.contains("new") }
    #expect(await resident.events == ["first", "new"])
    loop.stop()
  }

  @Test("the end of the other side is reported")
  func hangup() async throws {
    var ends: [Int32] = [-1, -1]
    #expect(pipe2(&ends, O_NONBLOCK | O_CLOEXEC) == 0)
    await resident.watch(ends[0], .readable) { resident, events in
      resident.note(events.contains(.hangup) ? "hangup" : "other")
      resident.unwatch(0)
    }
    close(ends[1])
    try await eventually("it is reported") { await resident.events == ["hangup"] }
    close(ends[0])
    loop.stop()
  }

  @Test("a descriptor that is closed under its watch is reported once as an error, and the loop rests")
  func closedDescriptor() async throws {
    // A number far above those that other tests get at the same time.
    let pipe = Pipe()
    let descriptor = fcntl(pipe.reading, F_DUPFD_CLOEXEC, 900)
    #expect(descriptor >= 900)
    await resident.watch(descriptor, .readable) { resident, events in
      resident.note(events == .error ? "error" : "other")
    }
    _ = await resident.onLoop()
    close(descriptor)
    // poll(2) looks at it when it is called again.
    _ = await resident.onLoop()
    try await eventually("it is reported") { await !resident.events.isEmpty }
    try await eventually("the loop comes to rest") {
      let before = loop.wakeUps
      try await Task.sleep(for: .milliseconds(50))
      return loop.wakeUps == before
    }
    #expect(await resident.events == ["error"])
    loop.stop()
  }

  @Test("neither a task that never rests nor a descriptor that is always ready keeps the others waiting")
  func fairness() async throws {
    let resident = resident
    let busy = Task {
      let other = Resident(loop)
      while !Task.isCancelled {
        await resident.note("job")
        await other.note("job")
      }
    }
    let always = Pipe()
    always.fill()
    await resident.watch(always.reading, .readable) { _, _ in }
    let pipe = Pipe()
    let seen = Lock(0)
    await resident.watch(pipe.reading, .readable) { _, _ in
      var byte: UInt8 = 0
      _ = read(pipe.reading, &byte, 1)
      seen.withLock { $0 += 1 }
    }
    for count in 1...20 {
      pipe.fill()
      try await eventually("byte \(count) is seen") { seen.withLock { $0 } == count }
    }
    busy.cancel()
    await busy.value
    loop.stop()
  }

  @Test("hundreds of descriptors are served")
  func many() async throws {
    let pipes = (0..<300).map { _ in Pipe() }
    for pipe in pipes {
      await resident.watch(pipe.reading, .readable) { resident, _ in
        var byte: UInt8 = 0
        if read(pipe.reading, &byte, 1) == 1 { resident.note("byte") }
      }
    }
    for pipe in pipes { pipe.fill() }
    try await eventually("all are seen") { await resident.events.count == 300 }
    loop.stop()
  }

  // MARK: The end

  @Test("work after the end is dropped, and writes to nobody's descriptor")
  func afterStop() async throws {
    let loop = EventLoop(name: "short")
    let ran = Lock(false)
    loop.perform { ran.withLock { $0 = true } }
    loop.stop()
    try await eventually("what was enqueued before is done") { ran.withLock { $0 } }
    // Pipes take the numbers that the loop would have given back.
    let pipes = (0..<20).map { _ in Pipe() }
    for _ in 0..<10 { loop.perform { ran.withLock { $0 = false } } }
    try await Task.sleep(for: .milliseconds(20))
    for pipe in pipes {
      var byte: UInt8 = 0
      #expect(read(pipe.reading, &byte, 1) == -1 && errno == EAGAIN)
    }
    #expect(ran.withLock { $0 })
    self.loop.stop()
  }

  @Test("a write to a connection that is gone is an error on the loop, not the end of the program")
  func brokenPipe() async throws {
    let result = await withCheckedContinuation { continuation in
      loop.perform {
        var ends: [Int32] = [-1, -1]
        _ = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
        close(ends[1])
        let code = write(ends[0], "x", 1)
        continuation.resume(returning: code < 0 ? errno : 0)
        close(ends[0])
      }
    }
    #expect(result == EPIPE)
    loop.stop()
  }
}

/// Waits until `condition` holds, for 20 s at most.
func eventually(
  _ what: Comment, sourceLocation: SourceLocation = #_sourceLocation, _ condition: () async throws -> Bool
) async throws {
  let end = Monotonic.now() + .seconds(20)
  while Monotonic.now() < end {
    if try await condition() { return }
    try await Task.sleep(for: .milliseconds(2))
  }
  Issue.record(what, sourceLocation: sourceLocation)
}
