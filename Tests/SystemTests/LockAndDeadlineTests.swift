import Glibc
import System
import Testing

@Suite("A lock")
struct LockTests {
  @Test("counts of many threads add up")
  func counts() async throws {
    let lock = Lock((count: 0, ended: 0))
    for _ in 0..<8 {
      _ = startThread(name: "counter") {
        for _ in 0..<10_000 { lock.withLock { $0.count += 1 } }
        lock.withLock { $0.ended += 1 }
      }
    }
    try await eventually("all have ended") { lock.withLock { $0.ended } == 8 }
    #expect(lock.withLock { $0.count } == 80_000)
  }

  @Test("an error inside is thrown on, and the lock is free again")
  func throwing() {
    let lock = Lock(1)
    #expect(throws: SystemError.self) { try lock.withLock { _ in throw SystemError("test", code: EIO) } }
    #expect(lock.withLock { $0 } == 1)
  }
}

@Suite("A deadline")
struct DeadlineTests {
  @Test("what ends in time gives its value or its error")
  func inTime() async throws {
    #expect(try await withDeadline(.seconds(60)) { 5 } == 5)
    await #expect(throws: SystemError("test", code: EIO)) {
      try await withDeadline(.seconds(60)) { throw SystemError("test", code: EIO) }
    }
  }

  @Test("what does not end is left behind, also when it ignores its cancellation")
  func late() async throws {
    let release = Lock<CheckedContinuation<Void, Never>?>(nil)
    let wasCancelled = Lock(false)
    await #expect(throws: DeadlineExceeded.self) {
      try await withDeadline(.milliseconds(20)) {
        await withCheckedContinuation { continuation in release.withLock { $0 = continuation } }
        wasCancelled.withLock { $0 = Task.isCancelled }
      }
    }
    release.withLock { $0 }?.resume()
    try await eventually("it was cancelled") { wasCancelled.withLock { $0 } }
  }

  @Test("a caller that is cancelled does not wait for the deadline, before or during it")
  func cancelled() async throws {
    let begun = Lock(false)
    let caller = Task {
      try await withDeadline(.seconds(600)) {
        begun.withLock { $0 = true }
        try await Task.sleep(for: .seconds(600))
      }
    }
    try await eventually("it has begun") { begun.withLock { $0 } }
    caller.cancel()
    await #expect(throws: CancellationError.self) { try await caller.value }
    let early = Task {
      while !Task.isCancelled { await Task.yield() }
      return try await withDeadline(.seconds(600)) { try await Task.sleep(for: .seconds(600)) }
    }
    early.cancel()
    await #expect(throws: CancellationError.self) { try await early.value }
  }
}

@Suite("A thread of its own")
struct ThreadTests {
  @Test("it runs elsewhere, under its name")
  func named() async {
    let caller = UInt(pthread_self())
    let (isElsewhere, name) = await withCheckedContinuation { continuation in
      let isStarted = startThread(name: "a long name of a thread") {
        // The name is given from outside, perhaps only now.
        var name = Files.text("/proc/thread-self/comm")?.trimmed
        for _ in 0..<1000 where name?.hasPrefix("a long") != true {
          usleep(1000)
          name = Files.text("/proc/thread-self/comm")?.trimmed
        }
        continuation.resume(returning: (UInt(pthread_self()) != caller, name))
      }
      precondition(isStarted)
    }
    #expect(isElsewhere && name == "a long name of")
  }
}
