import Crypto
import GatewayProtocol

/// The request `connect` (protocol §3.2). Only long-standing members are sent: the gateway refuses what it does not know.
struct ConnectParams: Sendable, Equatable {
  var role: Role
  var scopes: [String]
  /// What the node offers; empty for the operator.
  var surface: NodeSurface
  var client: ClientInfo
  var auth: AuthAttempt
  var device: JSON

  /// The scopes the operator socket asks for: chat and speech need no more.
  static let operatorScopes = ["operator.read", "operator.write"]

  static func scopes(of role: Role) -> [String] { role == .node ? [] : operatorScopes }
  /// Accepted by every gateway version (protocol §3.3).
  static func clientID(of role: Role) -> String { role == .node ? "node-host" : "gateway-client" }
  static func clientMode(of role: Role) -> String { role == .node ? "node" : "ui" }

  /// Signs the challenge. `nowMs` stands in for a challenge without a time.
  init(
    role: Role, surface: NodeSurface, client: ClientInfo, auth: AuthAttempt, identity: DeviceIdentity,
    challenge: Challenge, signature: DeviceAuth.Version, nowMs: Int64
  ) throws(LinkError) {
    self.role = role
    scopes = Self.scopes(of: role)
    self.surface = role == .node ? surface : NodeSurface()
    self.client = client
    self.auth = auth
    let signedAtMs = challenge.timestampMs ?? nowMs
    let payload = DeviceAuth(
      deviceID: identity.id, clientID: Self.clientID(of: role), clientMode: Self.clientMode(of: role),
      role: role.rawValue, scopes: scopes, signedAtMs: signedAtMs, token: auth.signedToken, nonce: challenge.nonce,
      platform: ClientInfo.platform, deviceFamily: ClientInfo.deviceFamily)
    device = [
      "id": .string(identity.id), "publicKey": .string(Base64.encodeURL(identity.publicKey)),
      "signature": .string(Base64.encodeURL(try identity.sign(payload.payload(signature)))),
      "signedAt": .int(signedAtMs), "nonce": .string(challenge.nonce),
    ]
  }

  var json: JSON {
    // An operator socket can't talk to a protocol 3 gateway; a node can (protocol §13.1).
    let oldest = role == .node ? ProtocolLimits.oldestNodeVersion : ProtocolLimits.version
    func filled(_ text: String?) -> JSON? { text.flatMap { $0.isEmpty ? nil : .string($0) } }
    let isNode = role == .node
    return .object(present: [
      "minProtocol": .int(Int64(oldest)), "maxProtocol": .int(Int64(ProtocolLimits.version)),
      "client": .object(present: [
        "id": .string(Self.clientID(of: role)), "mode": .string(Self.clientMode(of: role)),
        "version": filled(client.version) ?? "0", "platform": .string(ClientInfo.platform),
        "deviceFamily": .string(ClientInfo.deviceFamily), "displayName": filled(client.displayName),
        "modelIdentifier": filled(client.modelIdentifier), "instanceId": filled(client.instanceID),
      ]),
      "role": .string(role.rawValue), "scopes": .strings(scopes), "caps": .strings(surface.caps),
      "commands": isNode ? .strings(surface.commands) : nil,
      "permissions": isNode ? .object(surface.permissions.mapValues(JSON.bool)) : nil,
      "device": device, "auth": auth.json, "locale": filled(client.locale), "userAgent": filled(client.userAgent),
    ])
  }
}
