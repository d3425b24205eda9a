import LinkTestSupport
import System
import TestSupport
import Testing

@testable import GatewayClient

extension TemporaryFolder {
  func state() throws -> StateFolder { try StateFolder(path: path + "/state") }
}

/// A generator whose seed is printed, so that a failed random test can be run again.
func seeded(_ seed: UInt64 = .random(in: 0 ... .max), _ what: String = #function) -> SeededRandom {
  print("\(what): seed \(seed)")
  return SeededRandom(seed: seed)
}

/// Waits until `condition` holds; the test fails when it still doesn't after `limit`.
func eventually(
  _ what: Comment, within limit: Duration = .seconds(20), sourceLocation: SourceLocation = #_sourceLocation,
  _ condition: () async throws -> Bool
) async throws {
  if try await !TestSupport.eventually(within: limit, condition) { Issue.record(what, sourceLocation: sourceLocation) }
}
