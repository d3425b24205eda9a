import Glibc
import System
import Testing

@testable import GatewayClient

/// A folder that is gone when the test is.
final class TemporaryFolder: Sendable {
  let path: String

  init() {
    var template = Array("/tmp/talknode-link-XXXXXX".utf8CString)
    path = String(cString: mkdtemp(&template))
  }

  deinit { try? Files.removeTree(path) }

  func state() throws -> StateFolder { try StateFolder(path: path + "/state") }
}

/// A generator whose seed is printed, so that a failed random test can be run again.
struct Seeded: RandomNumberGenerator {
  private var state: UInt64

  init(_ seed: UInt64 = .random(in: 1 ... .max), _ what: String = #function) {
    print("\(what): seed \(seed)")
    state = seed
  }

  mutating func next() -> UInt64 {
    // SplitMix64.
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}

/// Waits until `condition` holds, looking every few milliseconds; fails after `limit`.
func eventually(
  _ what: Comment, within limit: Duration = .seconds(20), sourceLocation: SourceLocation = #_sourceLocation,
  _ condition: () async throws -> Bool
) async throws {
  let end = Monotonic.now() + limit
  while Monotonic.now() < end {
    if try await condition() { return }
    try await Task.sleep(for: .milliseconds(5))
  }
  Issue.record(what, sourceLocation: sourceLocation)
}

let testClient = ClientInfo(
  displayName: "Desk", version: "1.0.0", modelIdentifier: "x86_64", instanceID: "inst-1", locale: "en-GB",
  userAgent: "talknode/1.0.0 (linux)")
