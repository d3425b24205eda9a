/// TestSupport: what the tests of several rooms stand on.
import Glibc
import System

/// Waits until `condition` holds; false when it still doesn't after `limit`, which is generous because it only counts for failures.
public func eventually(within limit: Duration = .seconds(10), _ condition: () async throws -> Bool) async rethrows
  -> Bool
{
  let end = Monotonic.now() + limit
  while true {
    if try await condition() { return true }
    if Monotonic.now() > end { return false }
    try? await Task.sleep(for: .milliseconds(2))
  }
}

/// What `body` throws; nil when it succeeds.
public func failure<Failure: Error, Value>(_ body: () async throws(Failure) -> Value) async -> Failure? {
  do throws(Failure) {
    _ = try await body()
    return nil
  } catch {
    return error
  }
}

/// A folder of a test's own, removed with all in it when it goes.
public final class TemporaryFolder: Sendable {
  public let path: String

  public init() {
    // In /tmp, whatever TMPDIR says: sockets lie below it, whose paths must be short.
    do { path = try Files.makeTemporaryFolder("talknode-test") } catch { preconditionFailure("\(error)") }
  }

  deinit { try? Files.removeTree(path) }

  /// The path of something in it.
  public func callAsFunction(_ name: String) -> String { path + "/" + name }

  /// Writes a file in it, with the folders it lies in.
  public func write(_ name: String, _ text: String) throws {
    let target = self(name)
    if let slash = target.lastIndex(of: "/") { try Files.makeFolder(String(target[..<slash])) }
    // Plainly: what a test lays down need not outlive a power cut, and waiting for the disk is most of a test's time.
    let descriptor = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    if descriptor < 0 { throw SystemError("open \(target)", code: errno) }
    defer { close(descriptor) }
    try Files.write(Array(text.utf8), to: descriptor, named: target)
  }
}

/// Random numbers that can be had again: print `seed` with a failure (SplitMix64).
public struct SeededRandom: RandomNumberGenerator {
  public let seed: UInt64
  private var state: UInt64

  public init(seed: UInt64 = .random(in: 0 ... .max)) {
    self.seed = seed
    state = seed
  }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }

  /// A number from 0 up to `bound`, which is left out; 0 when there is no such number.
  public mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(max(1, bound))) }
}
