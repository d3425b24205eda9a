import Crypto
import GatewayProtocol

/// Paired devices and the requests to become one: the layer that decides who gets a socket (protocol §6.1 to §6.5).
struct DeviceStore: Sendable {
  /// How a device came to be approved: the first surface of the second and third kind is approved with it (§6.4).
  enum Approval: String, Sendable { case owner, silent, bootstrap }

  /// Who asks for what.
  struct Claim: Sendable, Equatable {
    var deviceID: String
    /// base64url of the raw key.
    var publicKey: String
    var displayName: String?
    var platform: String
    var deviceFamily: String?
    var clientID: String
    var clientMode: String
    var role: String
    /// More than `role` only for a setup code that grants more.
    var roles: [String]
    var scopes: [String]
  }

  struct Request: Sendable, Equatable {
    var requestID: String
    var claim: Claim
    var isSilent: Bool
    var isRepair: Bool
    /// When it was first made; does not change when it is refreshed.
    var tsMs: Int64
    var refreshedAtMs: Int64
  }

  struct Token: Sendable, Equatable {
    var secret: String
    var scopes: [String]
    var createdAtMs: Int64
    var rotatedAtMs: Int64?
    var lastUsedAtMs: Int64?
    var revokedAtMs: Int64?
  }

  struct Device: Sendable, Equatable {
    /// Roles and scopes in here are what the owner approved; platform and family are pinned.
    var claim: Claim
    var label: String?
    var createdAtMs: Int64
    var approvedAtMs: Int64
    var approval: Approval
    var lastSeenAtMs: Int64?
    var lastSeenReason: String?
    /// By role.
    var tokens: [String: Token] = [:]
    var displayName: String? { label ?? claim.displayName }
  }

  /// A live request that was put aside by another one, or has been decided on.
  struct Resolved: Sendable, Equatable {
    var requestID: String
    var deviceID: String
    var isApproved: Bool
  }

  static let requestLifeMs: Int64 = 5 * 60_000

  private(set) var pending: [Request] = []
  private(set) var paired: [String: Device] = [:]
  private let makeID: @Sendable () -> String

  init(makeID: @escaping @Sendable () -> String = Random.uuid) { self.makeID = makeID }

  /// Newest first.
  mutating func pendingNow(_ nowMs: Int64) -> [Request] {
    pending.removeAll { $0.refreshedAtMs + Self.requestLifeMs < nowMs }
    return pending.sorted { $0.tsMs > $1.tsMs }
  }

  // MARK: What a connect needs

  enum Need: String, Sendable, Equatable {
    case notPaired = "not-paired"
    case roleUpgrade = "role-upgrade"
    case scopeUpgrade = "scope-upgrade"
    case metadataUpgrade = "metadata-upgrade"

    var text: String {
      switch self {
      case .notPaired: "device is not approved yet"
      case .roleUpgrade: "device is asking for a higher role than currently approved"
      case .scopeUpgrade: "device is asking for more scopes than currently approved"
      case .metadataUpgrade: "device identity changed and must be re-approved"
      }
    }

    var hint: String {
      switch self {
      case .notPaired: "Approve this device from the pending pairing requests."
      case .roleUpgrade: "Review the requested role upgrade, then approve the pending request."
      case .scopeUpgrade: "Review the requested scopes, then approve the pending upgrade."
      case .metadataUpgrade: "Review the changed device details, then approve the pending request."
      }
    }
  }

  /// Which approval is missing; nil when none is.
  func need(of claim: Claim) -> Need? {
    guard let device = paired[claim.deviceID], device.claim.publicKey == claim.publicKey else { return .notPaired }
    let isSame = PlatformFamily.isSame(
      pinned: (device.claim.platform, device.claim.deviceFamily), claimed: (claim.platform, claim.deviceFamily),
      clientID: claim.clientID)
    if !isSame { return .metadataUpgrade }
    if !device.claim.roles.contains(claim.role) { return .roleUpgrade }
    let isOperator = claim.role == Role.operator.rawValue
    if isOperator && !Scope.covers(device.claim.scopes, all: claim.scopes) { return .scopeUpgrade }
    return nil
  }

  /// Makes or refreshes the one live request of a device (§6.3), and says which ones it put aside.
  mutating func request(
    _ claim: Claim, isSilent: Bool, nowMs: Int64
  ) -> (request: Request, isNew: Bool, putAside: [Resolved]) {
    _ = pendingNow(nowMs)
    let live = pending.indices.filter { pending[$0].claim.deviceID == claim.deviceID }
    if live.count == 1, let index = live.first, pending[index].covers(claim) {
      pending[index].claim.displayName = claim.displayName
      pending[index].claim.platform = claim.platform
      pending[index].claim.deviceFamily = claim.deviceFamily
      pending[index].claim.clientID = claim.clientID
      pending[index].claim.clientMode = claim.clientMode
      pending[index].isSilent = pending[index].isSilent && isSilent
      pending[index].refreshedAtMs = nowMs
      return (pending[index], false, [])
    }
    let old = live.map { pending[$0] }
    pending.removeAll { $0.claim.deviceID == claim.deviceID }
    var claim = claim
    for request in old where request.claim.publicKey == claim.publicKey {
      claim.roles = union(request.claim.roles, claim.roles)
      claim.scopes = union(request.claim.scopes, claim.scopes)
    }
    let request = Request(
      requestID: makeID(), claim: claim, isSilent: isSilent, isRepair: paired[claim.deviceID] != nil, tsMs: nowMs,
      refreshedAtMs: nowMs)
    pending.append(request)
    let putAside = old.map { Resolved(requestID: $0.requestID, deviceID: claim.deviceID, isApproved: false) }
    return (request, true, putAside)
  }

  // MARK: What the owner does

  /// nil when there is no such live request.
  mutating func approve(_ requestID: String, as approval: Approval, nowMs: Int64) -> Device? {
    _ = pendingNow(nowMs)
    guard let index = pending.firstIndex(where: { $0.requestID == requestID }) else { return nil }
    let claim = pending.remove(at: index).claim
    var device = Device(claim: claim, createdAtMs: nowMs, approvedAtMs: nowMs, approval: approval)
    // A device with another key is another device: nothing of the old one, its tokens least of all, carries over.
    if let old = paired[claim.deviceID], old.claim.publicKey == claim.publicKey {
      device = old
      device.claim = claim
      device.claim.role = old.claim.role
      device.claim.roles = union(old.claim.roles, claim.roles)
      device.claim.scopes = union(old.claim.scopes, claim.scopes)
      device.approvedAtMs = nowMs
      // A silent role upgrade does not undo what the owner has decided, nor the reverse.
      if approval == .owner { device.approval = .owner }
    }
    paired[claim.deviceID] = device
    for role in claim.roles { _ = token(for: claim.deviceID, role: role, nowMs: nowMs) }
    return paired[claim.deviceID]
  }

  mutating func reject(_ requestID: String, nowMs: Int64) -> Request? {
    _ = pendingNow(nowMs)
    guard let index = pending.firstIndex(where: { $0.requestID == requestID }) else { return nil }
    return pending.remove(at: index)
  }

  /// nil when the device is not known. Its pending requests go with it.
  mutating func remove(_ deviceID: String) -> (device: Device, putAside: [Resolved])? {
    guard let device = paired.removeValue(forKey: deviceID) else { return nil }
    let old = pending.filter { $0.claim.deviceID == deviceID }
    pending.removeAll { $0.claim.deviceID == deviceID }
    return (device, old.map { Resolved(requestID: $0.requestID, deviceID: deviceID, isApproved: false) })
  }

  mutating func rename(_ deviceID: String, to label: String) -> Device? {
    paired[deviceID]?.label = label
    return paired[deviceID]
  }

  mutating func saw(_ deviceID: String, at nowMs: Int64, because reason: String) {
    paired[deviceID]?.lastSeenAtMs = nowMs
    paired[deviceID]?.lastSeenReason = reason
  }

  // MARK: Tokens

  /// The device's token for a role it is approved for: the current one while its scopes suffice, else a new one (§5.3).
  mutating func token(for deviceID: String, role: String, nowMs: Int64) -> Token? {
    guard let device = paired[deviceID], device.claim.roles.contains(role) else { return nil }
    let scopes = role == Role.node.rawValue ? [] : Scope.normalised(device.claim.scopes)
    if let token = device.tokens[role], token.revokedAtMs == nil, Scope.covers(token.scopes, all: scopes) {
      return token
    }
    let token = Token(
      secret: Random.token(), scopes: scopes, createdAtMs: device.tokens[role]?.createdAtMs ?? nowMs,
      rotatedAtMs: device.tokens[role] == nil ? nil : nowMs)
    paired[deviceID]?.tokens[role] = token
    return token
  }

  enum TokenVerdict: Equatable { case good, narrow, wrong }

  /// Whether `secret` is the token of this device and role, and covers `scopes`.
  mutating func verify(
    _ secret: String, deviceID: String, publicKey: String, role: String, scopes: [String], nowMs: Int64
  ) -> TokenVerdict {
    guard let device = paired[deviceID], device.claim.publicKey == publicKey, let token = device.tokens[role],
      token.revokedAtMs == nil, Secret.areEqual(token.secret, secret)
    else { return .wrong }
    // More than the owner approved is a question of pairing and is asked there; less in the token than approved is the token's fault.
    if Scope.covers(device.claim.scopes, all: scopes) && !Scope.covers(token.scopes, all: scopes) { return .narrow }
    paired[deviceID]?.tokens[role]?.lastUsedAtMs = nowMs
    return .good
  }

  /// A new secret for a role, with `scopes` or the old ones; nil when the device has no token for it.
  mutating func rotate(_ deviceID: String, role: String, scopes: [String]?, nowMs: Int64) -> Token? {
    guard let old = paired[deviceID]?.tokens[role] else { return nil }
    let token = Token(
      secret: Random.token(), scopes: scopes.map { $0.sorted() } ?? old.scopes, createdAtMs: old.createdAtMs,
      rotatedAtMs: nowMs)
    paired[deviceID]?.tokens[role] = token
    return token
  }

  mutating func revoke(_ deviceID: String, role: String, nowMs: Int64) -> Token? {
    paired[deviceID]?.tokens[role]?.revokedAtMs = nowMs
    return paired[deviceID]?.tokens[role]
  }
}

extension DeviceStore.Request {
  /// Whether this request asks for all that `claim` asks for, with the same key and role.
  fileprivate func covers(_ other: DeviceStore.Claim) -> Bool {
    claim.publicKey == other.publicKey && claim.role == other.role && Set(claim.roles).isSuperset(of: other.roles)
      && Scope.covers(claim.scopes, all: other.scopes)
  }
}

/// Both in their order, each once.
private func union(_ first: [String], _ second: [String]) -> [String] {
  first + second.filter { !first.contains($0) }
}
