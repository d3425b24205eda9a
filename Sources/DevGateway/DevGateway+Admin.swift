import Crypto
import GatewayProtocol
import System
import Transport

/// What the gateway's owner and its agent do, for the demo and the tests. Operators can do the same over their sockets.
extension DevGateway {
  // MARK: The three approvals

  public struct PendingDevice: Sendable, Equatable {
    public let requestID: String
    public let deviceID: String
    public let displayName: String?
    /// `node` or `operator`: what this request asks for.
    public let role: String
    public let roles: [String]
    public let scopes: [String]
    public let isRepair: Bool
    public let platform: String
    public let deviceFamily: String?
  }

  public struct PendingSurface: Sendable, Equatable {
    public let requestID: String
    public let nodeID: String
    public let displayName: String?
    public let surface: NodeSurface
  }

  /// Newest first.
  public func pendingDevices() -> [PendingDevice] {
    records.devices.pendingNow(WallClock.milliseconds()).map { request in
      PendingDevice(
        requestID: request.requestID, deviceID: request.claim.deviceID, displayName: request.claim.displayName,
        role: request.claim.role, roles: request.claim.roles, scopes: request.claim.scopes, isRepair: request.isRepair,
        platform: request.claim.platform, deviceFamily: request.claim.deviceFamily)
    }
  }

  public func approveDevice(_ requestID: String) throws(WireError) {
    _ = try approveDevice(requestID, holding: [Scope.admin])
  }
  public func rejectDevice(_ requestID: String) throws(WireError) { _ = try reject(device: requestID) }
  /// Closes its sockets with 4001 and forgets it, its tokens and its surface.
  public func removeDevice(_ deviceID: String) throws(WireError) { _ = try remove(device: deviceID) }

  /// Newest first.
  public func pendingSurfaces() -> [PendingSurface] {
    records.surfaces.pendingNow(WallClock.milliseconds()).map { request in
      PendingSurface(
        requestID: request.requestID, nodeID: request.node.nodeID, displayName: request.node.displayName,
        surface: request.surface)
    }
  }

  public func approveSurface(_ requestID: String) throws(WireError) {
    _ = try approve(surface: requestID, holding: [Scope.admin, Scope.pairing, Scope.write])
  }
  public func rejectSurface(_ requestID: String) throws(WireError) { _ = try reject(surface: requestID) }
  public func removeSurface(_ nodeID: String) throws(WireError) { _ = try remove(surface: nodeID) }

  /// What operators are told about pairing, from now on; the newest 256 wait for a slow listener.
  public func notices() -> AsyncStream<Notice> {
    let (stream, continuation) = AsyncStream.makeStream(of: Notice.self, bufferingPolicy: .bufferingNewest(256))
    let id = nextListener
    nextListener += 1
    listeners[id] = continuation
    continuation.onTermination = { [weak self] _ in Task { await self?.forgetListener(id) } }
    return stream
  }

  private func forgetListener(_ id: Int) { listeners[id] = nil }

  // MARK: Who is there

  public struct Node: Sendable, Equatable {
    public let nodeID: String
    public let displayName: String?
    public let isConnected: Bool
    /// Effective: declared, approved and allowed.
    public let surface: NodeSurface
    /// `approved`, `pending-approval`, `pending-reapproval` or `unapproved`.
    public let approvalState: String
    /// What `node.describe` answers.
    public let json: JSON
  }

  /// Connected ones first, then by name.
  public func nodes() -> [Node] {
    nodeList().map { node in
      Node(
        nodeID: node["nodeId"]?.string ?? "", displayName: node["displayName"]?.string,
        isConnected: node["connected"]?.bool ?? false,
        surface: NodeSurface(
          caps: node["caps"]?.strings ?? [], commands: node["commands"]?.strings ?? [],
          permissions: (node["permissions"]?.object ?? [:]).compactMapValues(\.bool)),
        approvalState: node["approvalState"]?.string ?? "", json: .object(node))
    }
  }

  public struct Session: Sendable, Equatable {
    public let deviceID: String?
    public let role: Role
    public let scopes: [String]
    public let clientID: String
    public let clientMode: String
    public let method: String
    /// What the node declared, after the policy's cut.
    public let declared: NodeSurface
  }

  /// The open connections, oldest first.
  public func sessions() -> [Session] {
    connections.values.sorted { $0.id < $1.id }.compactMap { connection in
      connection.seat.map { seat in
        Session(
          deviceID: seat.deviceID, role: seat.role, scopes: seat.scopes, clientID: seat.params.client.id,
          clientMode: seat.params.client.mode, method: seat.method.rawValue, declared: seat.declared)
      }
    }
  }

  /// Every `node.event` so far, oldest first; the last 1000 are kept.
  public func receivedEvents(named name: String? = nil) -> [NodeEvent] {
    nodeEvents.filter { name == nil || $0.name == name }
  }

  /// A session's messages as `chat.history` would give them.
  public func transcript(of sessionKey: String = "main") -> [JSON] {
    chat.session(ChatStore.canonical(sessionKey)).messages.map { $0.json(limit: 500_000) }
  }

  // MARK: Talking

  /// Gives those who talk something else from now on; sessions that go on keep what they have.
  public func setTalk(_ offer: TalkOffer) { talk = offer }

  // MARK: Secrets

  /// A setup code for `urls`, or for this gateway's own (protocol §7).
  public func makeSetupCode(
    profile: SetupProfile, urls: [String] = [], life: Duration = .seconds(600)
  ) -> IssuedSetupCode {
    issueSetupCode(profile, urls: urls, lifeMs: Int64(life.milliseconds))
  }

  /// What became of a code: `waiting`, `bound`, `completed`, `revoked` or `expired`; nil for one that never was.
  public func setupStatus(_ setupID: String) -> String? {
    records.codes.status(setupID, nowMs: WallClock.milliseconds())?.status.rawValue
  }

  /// Another shared secret: whoever came in by the old one is closed with 4001 (protocol §1.3). `token` goes on telling the first.
  public func rotateSharedToken(to token: String) {
    records.token = token
    for connection in connections.values where connection.seat?.method == .shared {
      connection.close(4001, "gateway auth changed")
    }
  }

  public func rotateToken(of deviceID: String, role: Role) throws(WireError) {
    _ = try rotate(tokenOf: deviceID, role: role.rawValue, scopes: nil)
  }
  public func revokeToken(of deviceID: String, role: Role) throws(WireError) {
    _ = try revoke(tokenOf: deviceID, role: role.rawValue)
  }

  /// Replaces `gateway.nodes.commands`. Takes effect on what may be invoked at once, on what may be declared at the next connect.
  public func setPolicy(allow: [String], deny: [String] = []) {
    records.policy = CommandPolicy(allow: Set(allow), deny: Set(deny))
  }
}
