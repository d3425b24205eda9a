import Crypto
import GatewayProtocol

/// The decision on one connect: who is let in as what, and who is turned away with which words. Pure: the records change, the
/// caller sends.
struct Admission {
  /// How the gateway stands at this moment.
  struct House {
    var nonce: String
    var nowMs: Int64
    var isStarting = false
    /// A gateway of before May 2026: version 3, v2 signatures, ten minutes of skew, bare details (§13).
    var isProtocol3 = false
    /// Direct loopback clients are paired without asking (§6.4).
    var autoApproves = true
    /// Counts failures from this machine too; gateways exempt them.
    var limitsLoopback = false
  }

  /// Who is at the door.
  struct Peer: Equatable {
    /// Loopback, and no forwarding header.
    var isDirect: Bool
    var address: String
  }

  enum Method: String, Equatable { case shared, deviceToken, bootstrap }

  struct Welcome {
    var role: Role
    var scopes: [String]
    var params: ConnectParams
    var method: Method
    /// A node that only speaks protocol 3.
    var isLegacy: Bool
    var deviceID: String?
    var token: DeviceStore.Token?
    /// Tokens of the other roles that a setup code grants.
    var handOff: [(role: String, token: DeviceStore.Token)]
    /// Used up once the hello has arrived.
    var bootstrapToken: String?
    /// For a node: as what it is seen by the policy, and what of its surface is left after the cut.
    var kind: CommandPolicy.Kind
    var declared: NodeSurface
  }

  enum Verdict {
    case refused(Refusal)
    case welcome(Welcome)
  }

  var verdict: Verdict
  /// For operators with the pairing scope.
  var notices: [Notice]
}

extension Records {
  /// Decides on the params of a `connect`.
  mutating func admit(_ json: JSON?, from peer: Admission.Peer, to house: Admission.House) -> Admission {
    var notices: [Notice] = []
    do throws(Refusal) {
      let welcome = try admit(json, from: peer, to: house, notices: &notices)
      return Admission(verdict: .welcome(welcome), notices: notices)
    } catch {
      return Admission(verdict: .refused(house.isProtocol3 ? error.bare : error), notices: notices)
    }
  }

  private mutating func admit(
    _ json: JSON?, from peer: Admission.Peer, to house: Admission.House, notices: inout [Notice]
  ) throws(Refusal) -> Admission.Welcome {
    if house.isStarting { throw .starting }
    let params: ConnectParams
    do { params = try ConnectParams(validating: json) } catch { throw .params(error) }
    let range = ProtocolRange(version: house.isProtocol3 ? 3 : 4)
    let fit = range.verdict(on: params)
    if fit == .mismatch { throw Refusal(range.mismatch(params), closeCode: 1002) }
    guard let role = Role(rawValue: params.role) else { throw .role }

    var claim: DeviceStore.Claim?
    if let device = params.device {
      let key = try prove(params, device, to: house)
      claim = DeviceStore.Claim(
        deviceID: device.id, publicKey: Base64.encodeURL(key), displayName: params.client.displayName,
        platform: params.client.platform, deviceFamily: params.client.deviceFamily, clientID: params.client.id,
        clientMode: params.client.mode, role: params.role, roles: [params.role], scopes: params.scopes)
    } else if role == .node || params.auth.isEmpty {
      throw .deviceRequired
    }
    let credential = try authenticate(params, claim, from: peer, to: house)
    var scopes = params.scopes
    if house.isProtocol3 && role == .operator && scopes.isEmpty { scopes = [Scope.admin] }
    var welcome = Admission.Welcome(
      role: role, scopes: role == .node ? [] : scopes, params: params, method: credential.method,
      isLegacy: fit == .legacyNode, handOff: [],
      kind: CommandPolicy.Kind(
        platform: params.client.platform, deviceFamily: params.client.deviceFamily, clientID: params.client.id),
      declared: NodeSurface())
    guard var claim else {
      // Without a device nobody vouches for a remote operator's scopes (§4.3).
      if !peer.isDirect { welcome.scopes = [] }
      return welcome
    }
    if let code = credential.code {
      claim.roles = code.profile.roles
      claim.scopes = code.profile.scopes
    }
    try pair(claim, with: credential, from: peer, to: house, notices: &notices)
    seat(claim, with: credential, into: &welcome, to: house, notices: &notices)
    return welcome
  }

  private func prove(
    _ params: ConnectParams, _ device: ConnectParams.Device, to house: Admission.House
  ) throws(Refusal) -> [UInt8] {
    var rules = DeviceProof.Rules(nonce: house.nonce, nowMs: house.nowMs)
    if house.isProtocol3 {
      rules.skewMs = 600_000
      rules.versions = [.v2]
    }
    do { return try DeviceProof.check(params, device: device, by: rules) } catch { throw .proof(error) }
  }

  // MARK: Pairing (§6)

  /// Returns when the device is approved for what it claims; else opens or refreshes its request and turns it away.
  private mutating func pair(
    _ claim: DeviceStore.Claim, with credential: Credential, from peer: Admission.Peer, to house: Admission.House,
    notices: inout [Notice]
  ) throws(Refusal) {
    guard let need = devices.need(of: claim) else { return }
    let isByCode = credential.code?.profile.approves(credential.client) ?? false
    let isSilent = peer.isDirect && house.autoApproves && need.isSilentlyGranted(to: claim)
    let (request, isNew, putAside) = devices.request(claim, isSilent: isSilent, nowMs: house.nowMs)
    notices += putAside.map { $0.notice(house.nowMs) }
    if isByCode || isSilent {
      _ = devices.approve(request.requestID, as: isByCode ? .bootstrap : .silent, nowMs: house.nowMs)
      let resolved = DeviceStore.Resolved(requestID: request.requestID, deviceID: claim.deviceID, isApproved: true)
      notices.append(resolved.notice(house.nowMs))
      return
    }
    if isNew { notices.append(Notice(event: "device.pair.requested", payload: request.json)) }
    throw .pairing(need, request: request, approved: devices.paired[claim.deviceID], isWaiting: credential.code != nil)
  }

  // MARK: Letting in

  private mutating func seat(
    _ claim: DeviceStore.Claim, with credential: Credential, into welcome: inout Admission.Welcome,
    to house: Admission.House, notices: inout [Notice]
  ) {
    let id = claim.deviceID
    devices.saw(id, at: house.nowMs, because: "connect")
    welcome.deviceID = id
    welcome.scopes.sort()
    welcome.token = devices.token(for: id, role: claim.role, nowMs: house.nowMs)
    if let code = credential.code {
      welcome.bootstrapToken = code.token
      for role in code.profile.roles where role != claim.role {
        guard let token = devices.token(for: id, role: role, nowMs: house.nowMs) else { continue }
        welcome.handOff.append((role, token))
      }
    }
    // Platform and family are those pinned at approval, whatever the client says now (§6.5).
    if let pinned = devices.paired[id]?.claim {
      welcome.kind.platform = pinned.platform
      welcome.kind.deviceFamily = pinned.deviceFamily
    }
    guard welcome.role == .node else { return }
    var declared = welcome.params.surface
    if welcome.isLegacy {
      declared.caps.removeAll { $0 == "canvas" }
      declared.commands.removeAll { $0.hasPrefix("canvas.") }
    }
    welcome.declared = policy.cut(declared, for: welcome.kind)
    let node = SurfaceStore.Node(
      nodeID: id, displayName: claim.displayName, platform: welcome.kind.platform,
      deviceFamily: welcome.kind.deviceFamily, version: welcome.params.client.version)
    let (opened, resolved) = surfaces.reconcile(
      node, declares: welcome.declared, trusted: devices.paired[id]?.approval != .owner, nowMs: house.nowMs)
    notices += resolved.map { $0.notice(house.nowMs) }
    if let opened { notices.append(Notice(event: "node.pair.requested", payload: opened.json)) }
  }
}

extension ConnectParams.Auth {
  fileprivate var isEmpty: Bool {
    [token, password, deviceToken, bootstrapToken].allSatisfy { $0?.isEmpty ?? true }
  }
}

extension DeviceStore.Need {
  /// §6.4, "same host": not for a paired device that asks for a role other than operator; changed metadata only of native apps.
  fileprivate func isSilentlyGranted(to claim: DeviceStore.Claim) -> Bool {
    switch self {
    case .notPaired, .scopeUpgrade: true
    case .roleUpgrade: claim.role == Role.operator.rawValue
    case .metadataUpgrade:
      ["openclaw-macos", "openclaw-ios", "openclaw-android"].contains(claim.clientID) && claim.clientMode == "ui"
    }
  }
}

extension Refusal {
  /// §6.2. `isWaiting` = a valid setup code that only waits for the owner: the client is to keep asking.
  static func pairing(
    _ need: DeviceStore.Need, request: DeviceStore.Request, approved: DeviceStore.Device?, isWaiting: Bool
  ) -> Refusal {
    func some(_ texts: [String]?) -> JSON? {
      guard let texts, !texts.isEmpty else { return nil }
      return .strings(texts)
    }
    let old = need == .notPaired ? nil : approved?.claim
    let message = "pairing required: \(need.text)"
    let details = JSON.object(present: [
      "code": "PAIRING_REQUIRED", "reason": .string(need.rawValue), "requestId": .string(request.requestID),
      "remediationHint": .string(need.hint), "deviceId": .string(request.claim.deviceID),
      "requestedRole": .string(request.claim.role), "requestedScopes": some(request.claim.scopes),
      "approvedRoles": some(old?.roles), "approvedScopes": some(old?.scopes),
      "recommendedNextStep": isWaiting ? "wait_then_retry" : nil, "retryable": isWaiting ? true : nil,
      "pauseReconnect": isWaiting ? false : nil,
    ])
    return Refusal(
      WireError(code: "NOT_PAIRED", message: message, details: details),
      closeReason: "\(message) (requestId: \(request.requestID))")
  }
}
