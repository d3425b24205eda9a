import Crypto
import GatewayProtocol

/// Approved command surfaces of nodes and the requests for one: the layer that decides what agents may call (protocol §6.6).
struct SurfaceStore: Sendable {
  /// Who a node says it is; what the owner is shown.
  struct Node: Sendable, Equatable {
    var nodeID: String
    var displayName: String?
    var platform: String
    var deviceFamily: String?
    var version: String
  }

  struct Request: Sendable, Equatable {
    var requestID: String
    var node: Node
    var surface: NodeSurface
    var tsMs: Int64
  }

  struct Approved: Sendable, Equatable {
    var node: Node
    var surface: NodeSurface
    var createdAtMs: Int64
    var approvedAtMs: Int64
    var lastConnectedAtMs: Int64?
    /// Only shown, as gateways do that still keep a token a surface.
    var token: String
  }

  enum State: String, Sendable, Equatable {
    case approved
    case pendingApproval = "pending-approval"
    case pendingReapproval = "pending-reapproval"
    case unapproved
  }

  struct Resolved: Sendable, Equatable {
    var requestID: String
    var nodeID: String
    /// `approved`, `rejected` or `removed`.
    var decision: String
  }

  private(set) var pending: [Request] = []
  private(set) var approved: [String: Approved] = [:]
  /// Nodes that were ever approved: a removed one is not let in by itself again.
  private var known: Set<String> = []
  private let makeID: @Sendable () -> String

  init(makeID: @escaping @Sendable () -> String = Random.uuid) { self.makeID = makeID }

  /// Newest first.
  mutating func pendingNow(_ nowMs: Int64) -> [Request] {
    pending.removeAll { $0.tsMs + DeviceStore.requestLifeMs < nowMs }
    return pending.sorted { $0.tsMs > $1.tsMs }
  }

  mutating func request(of nodeID: String, nowMs: Int64) -> Request? {
    pendingNow(nowMs).first { $0.node.nodeID == nodeID }
  }

  mutating func state(of nodeID: String, nowMs: Int64) -> State {
    switch (approved[nodeID] != nil, request(of: nodeID, nowMs: nowMs) != nil) {
    case (true, true): .pendingReapproval
    case (true, false): .approved
    case (false, true): .pendingApproval
    case (false, false): .unapproved
    }
  }

  /// What of `declared` the owner has approved: empty until the first approval.
  func usable(_ declared: NodeSurface, of nodeID: String) -> NodeSurface {
    guard let surface = approved[nodeID]?.surface else { return NodeSurface() }
    return NodeSurface(
      caps: declared.caps.filter(surface.caps.contains), commands: declared.commands.filter(surface.commands.contains),
      permissions: declared.permissions.filter { surface.permissions[$0.key] == $0.value })
  }

  /// A node has come with a surface (already cut by the policy). Opens, keeps or clears its request (§6.6). `trusted` = the first surface is
  /// approved at once (§6.4).
  mutating func reconcile(
    _ node: Node, declares surface: NodeSurface, trusted: Bool, nowMs: Int64
  ) -> (opened: Request?, resolved: [Resolved]) {
    let live = request(of: node.nodeID, nowMs: nowMs)
    approved[node.nodeID]?.lastConnectedAtMs = nowMs
    if approved[node.nodeID] == nil && trusted && !known.contains(node.nodeID) {
      let resolved = putAside(node.nodeID)
      keep(node, surface, nowMs: nowMs)
      return (nil, resolved)
    }
    if let old = approved[node.nodeID]?.surface, !surface.needsApproval(beyond: old) {
      // Dropping commands never needs approval, and a wish that is no longer held is not left for the owner to wonder about.
      return (nil, putAside(node.nodeID))
    }
    if let live, live.surface == surface, live.node == node { return (nil, []) }
    let resolved = putAside(node.nodeID)
    let request = Request(requestID: makeID(), node: node, surface: surface, tsMs: nowMs)
    pending.append(request)
    return (request, resolved)
  }

  private mutating func putAside(_ nodeID: String) -> [Resolved] {
    let old = pending.filter { $0.node.nodeID == nodeID }
    pending.removeAll { $0.node.nodeID == nodeID }
    return old.map { Resolved(requestID: $0.requestID, nodeID: nodeID, decision: "rejected") }
  }

  private mutating func keep(_ node: Node, _ surface: NodeSurface, nowMs: Int64) {
    let old = approved[node.nodeID]
    known.insert(node.nodeID)
    approved[node.nodeID] = Approved(
      node: node, surface: surface, createdAtMs: old?.createdAtMs ?? nowMs, approvedAtMs: nowMs,
      lastConnectedAtMs: old?.lastConnectedAtMs, token: Random.token())
  }

  // MARK: What the owner does

  /// nil when there is no such live request.
  mutating func approve(_ requestID: String, nowMs: Int64) -> Approved? {
    guard let request = take(requestID, nowMs: nowMs) else { return nil }
    keep(request.node, request.surface, nowMs: nowMs)
    return approved[request.node.nodeID]
  }

  mutating func reject(_ requestID: String, nowMs: Int64) -> Request? { take(requestID, nowMs: nowMs) }

  private mutating func take(_ requestID: String, nowMs: Int64) -> Request? {
    _ = pendingNow(nowMs)
    guard let index = pending.firstIndex(where: { $0.requestID == requestID }) else { return nil }
    return pending.remove(at: index)
  }

  /// nil when nothing is known of the node.
  mutating func remove(_ nodeID: String) -> [Resolved]? {
    let old = pending.filter { $0.node.nodeID == nodeID }
    pending.removeAll { $0.node.nodeID == nodeID }
    if approved.removeValue(forKey: nodeID) == nil && old.isEmpty { return nil }
    return old.map { Resolved(requestID: $0.requestID, nodeID: nodeID, decision: "removed") }
  }

  /// The device behind a node is gone; unlike after `remove`, it may come back as a new one.
  mutating func forget(_ nodeID: String) -> [Resolved] {
    let resolved = remove(nodeID) ?? []
    known.remove(nodeID)
    return resolved
  }

  mutating func rename(_ nodeID: String, to name: String) { approved[nodeID]?.node.displayName = name }
}

extension NodeSurface {
  /// A new command, any change of caps, or a permission change (§6.6, 3).
  fileprivate func needsApproval(beyond approved: NodeSurface) -> Bool {
    !Set(commands).isSubset(of: approved.commands) || Set(caps) != Set(approved.caps)
      || permissions != approved.permissions
  }
}
