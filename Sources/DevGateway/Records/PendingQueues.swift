import Crypto
import GatewayProtocol

/// The two queues of a node (protocol §10.5): actions that wait for its foreground, and small jobs it fetches when it comes by.
struct PendingQueues: Sendable {
  struct Action: Sendable, Equatable {
    var id: String
    var command: String
    var paramsText: String?
    var idempotencyKey: String
    var enqueuedAtMs: Int64

    var json: JSON {
      [
        "id": .string(id), "command": .string(command), "paramsJSON": paramsText.map(JSON.string) ?? .null,
        "enqueuedAtMs": .int(enqueuedAtMs),
      ]
    }
  }

  struct Work: Sendable, Equatable {
    var id: String
    var type: String
    var priority: String
    var createdAtMs: Int64
    var expiresAtMs: Int64

    var json: JSON {
      [
        "id": .string(id), "type": .string(type), "priority": .string(priority), "createdAtMs": .int(createdAtMs),
        "expiresAtMs": .int(expiresAtMs),
      ]
    }
  }

  static let actionLifeMs: Int64 = 10 * 60_000
  static let mostActions = 64
  static let workLifeMs: Int64 = 24 * 3_600_000

  private var actions: [String: [Action]] = [:]
  private var work: [String: [Work]] = [:]
  private var revisions: [String: Int64] = [:]

  // MARK: Foreground actions

  /// Whether this command is parked when a phone answers that it is in the background.
  static func isForegroundOnly(_ command: String) -> Bool {
    ["canvas.", "camera.", "screen.", "talk."].contains(where: command.hasPrefix)
  }

  mutating func park(_ action: Action, for nodeID: String) {
    var queue = live(nodeID, action.enqueuedAtMs)
    if queue.contains(where: { $0.idempotencyKey == action.idempotencyKey }) { return }
    queue.append(action)
    actions[nodeID] = queue.suffix(Self.mostActions)
  }

  mutating func pull(_ nodeID: String, nowMs: Int64) -> [Action] {
    actions[nodeID] = live(nodeID, nowMs)
    return actions[nodeID] ?? []
  }

  /// Returns the ids that were there, and how many actions are left.
  mutating func acknowledge(_ ids: [String], of nodeID: String, nowMs: Int64) -> (known: [String], left: Int) {
    let queue = live(nodeID, nowMs)
    actions[nodeID] = queue.filter { !ids.contains($0.id) }
    return (ids.filter { id in queue.contains { $0.id == id } }, actions[nodeID]?.count ?? 0)
  }

  private func live(_ nodeID: String, _ nowMs: Int64) -> [Action] {
    (actions[nodeID] ?? []).filter { $0.enqueuedAtMs + Self.actionLifeMs > nowMs }
  }

  // MARK: Background work

  /// One job a type; a second one replaces the first.
  mutating func enqueue(
    _ type: String, priority: String, lifeMs: Int64, for nodeID: String, nowMs: Int64
  ) -> (item: Work, revision: Int64) {
    let item = Work(
      id: Random.uuid(), type: type, priority: priority, createdAtMs: nowMs, expiresAtMs: nowMs + lifeMs)
    work[nodeID] = (work[nodeID] ?? []).filter { $0.type != type } + [item]
    revisions[nodeID, default: 0] += 1
    return (item, revisions[nodeID] ?? 0)
  }

  /// The most urgent `limit` jobs, which are then gone; a status job when nothing is queued.
  mutating func drain(_ nodeID: String, limit: Int, nowMs: Int64) -> (items: [Work], revision: Int64, hasMore: Bool) {
    let order = ["high": 0, "default": 1, "normal": 2]
    let queue = (work[nodeID] ?? []).filter { $0.expiresAtMs > nowMs }
      .sorted { (order[$0.priority] ?? 3, $0.createdAtMs) < (order[$1.priority] ?? 3, $1.createdAtMs) }
    work[nodeID] = Array(queue.dropFirst(limit))
    var items = Array(queue.prefix(limit))
    if items.isEmpty {
      items.append(
        Work(
          id: "baseline-status", type: "status.request", priority: "default", createdAtMs: nowMs,
          expiresAtMs: nowMs + Self.workLifeMs))
    }
    return (items, revisions[nodeID] ?? 0, queue.count > limit)
  }

  mutating func forget(_ nodeID: String) {
    actions[nodeID] = nil
    work[nodeID] = nil
    revisions[nodeID] = nil
  }
}
