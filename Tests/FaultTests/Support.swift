import DevGateway
import GatewayClient
import LinkTestSupport
import System
import TestSupport
import Testing

/// Waits until `condition` holds; the test fails when it still doesn't after `limit`.
func eventually(
  _ what: Comment, within limit: Duration = .seconds(20), sourceLocation: SourceLocation = #_sourceLocation,
  _ condition: () async throws -> Bool
) async throws {
  if try await !TestSupport.eventually(within: limit, condition) { Issue.record(what, sourceLocation: sourceLocation) }
}

extension DevGateway {
  /// Whether the node answers an invoke now.
  func answers(_ desk: Desk) async -> Bool {
    (try? await invoke(nodeID: desk.id, command: "device.info", timeoutMs: 5000)["command"]) == "device.info"
  }

  /// Waits until the node answers, whatever happened before.
  func expectAnswer(_ desk: Desk, sourceLocation: SourceLocation = #_sourceLocation) async throws {
    try await eventually("the node answers again", sourceLocation: sourceLocation) { await answers(desk) }
  }
}

extension Desk {
  /// Rests long enough for a `History` to see why, also on a busy machine.
  static var unhurried: LinkTimings {
    var timings = quick
    timings.backOff = .milliseconds(400)
    timings.longestBackOff = .milliseconds(400)
    return timings
  }
}

/// What a link's status went through, collected from its beginning. Only states that last are certain to be in it.
final class History: Sendable {
  private let statuses = Lock<[LinkStatus]>([])
  private let task: Task<Void, Never>

  init(_ link: GatewayLink) {
    let statuses = statuses
    let stream = link.statuses()
    task = Task { for await status in stream { statuses.withLock { $0.append(status) } } }
  }

  deinit { task.cancel() }

  /// Whether one of the sockets rested for a reason that contains `text`.
  func wasDown(because text: String) -> Bool {
    statuses.withLock { statuses in
      statuses.contains { status in
        for case .backingOff(_, let reason) in [status.node, status.operator] where reason.contains(text) {
          return true
        }
        return false
      }
    }
  }
}
