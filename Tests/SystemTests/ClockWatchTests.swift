import Glibc
import Synchronization
import Testing

@testable import System

/// The kernel's own timer; nothing stands in for it.
@Suite("The wall clock was set", .serialized) struct ClockWatchTests {
  /// Runs `body` on the loop.
  private func on<Value: Sendable>(_ loop: EventLoop, _ body: @escaping @Sendable () throws -> Value) async throws
    -> Value
  {
    try await withCheckedThrowingContinuation { continuation in
      loop.perform { continuation.resume(with: Result { try body() }) }
    }
  }

  @Test("each time is told, on the loop, until the watch is stopped, and its descriptor is given back")
  func toldEachTime() async throws {
    let loop = EventLoop(name: "clock test")
    defer { loop.stop() }
    let told = Counter()
    let watch = Held<ClockWatch>()
    let before = try await on(loop) { Files.list("/proc/self/fdinfo").filter(Self.isClockTimer).count }
    // A time that is past: the timer fires when it is armed, and is armed again after each.
    try await on(loop) {
      watch.value = try ClockWatch(loop: loop, end: 1) {
        if loop.isCurrent { told.add() }
      }
    }
    try await eventually("told again and again") { told.count > 3 }
    let after = try await on(loop) {
      watch.value?.stop()
      watch.value?.stop()
      return told.count
    }
    // What the loop does after the stop comes after it: a watch that were still there would have been called in between.
    for _ in 0..<20 { try await on(loop) {} }
    #expect(told.count == after)
    #expect(try await on(loop) { Files.list("/proc/self/fdinfo").filter(Self.isClockTimer).count } == before)
  }

  @Test("a clock that is set is told; one that merely goes on is not")
  func realClock() async throws {
    let loop = EventLoop(name: "clock test")
    defer { loop.stop() }
    let told = Counter()
    let watch = Held<ClockWatch>()
    try await on(loop) { watch.value = try ClockWatch(loop: loop) { told.add() } }
    for _ in 0..<20 { try await on(loop) {} }
    let untilNow = told.count
    // To the time that it shows: what is lost are the nanoseconds in between.
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    if clock_settime(CLOCK_REALTIME, &now) == 0 {
      try await eventually("it is told") { told.count > untilNow }
    } else {
      // Only root may, and in a container not even root: then nothing was set, and nothing is told.
      #expect(errno == EPERM)
      for _ in 0..<20 { try await on(loop) {} }
      #expect(told.count == untilNow)
    }
    try await on(loop) { watch.value?.stop() }
  }

  private static func isClockTimer(_ descriptor: String) -> Bool {
    Files.text("/proc/self/fdinfo/\(descriptor)")?.contains("settime flags: 03") ?? false
  }
}

private final class Counter: Sendable {
  private let number = Atomic(0)
  var count: Int { number.load(ordering: .relaxed) }
  func add() { number.add(1, ordering: .relaxed) }
}

/// Something that belongs to a loop's thread.
// @unchecked Sendable: used on the loop only.
private final class Held<Value>: @unchecked Sendable {
  var value: Value?
}
