import GatewayProtocol

/// The params of `connect` (protocol §3.2), read as strictly as the gateway reads them.
///
/// Members and client ids that only the newest gateways know are refused, as 2026.5.31 was seen to do: a client that sends them
/// would not get into the gateways most people run.
struct ConnectParams: Sendable, Equatable {
  struct Client: Sendable, Equatable {
    var id: String
    var mode: String
    var version: String
    var platform: String
    var displayName: String?
    var deviceFamily: String?
    var modelIdentifier: String?
    var instanceID: String?
  }

  struct Device: Sendable, Equatable {
    var id: String
    var publicKey: String
    var signature: String
    var signedAtMs: Int64
    var nonce: String
  }

  struct Auth: Sendable, Equatable {
    var token: String?
    var password: String?
    var deviceToken: String?
    var bootstrapToken: String?

    /// Field 8 of the signed string (§4.2).
    var signedToken: String { [token, deviceToken, bootstrapToken].compactMap(\.self).first { !$0.isEmpty } ?? "" }
  }

  var minProtocol: Int64
  var maxProtocol: Int64
  var client: Client
  /// As sent: `node` and `operator` are the roles there are.
  var role: String
  /// In the order sent.
  var scopes: [String]
  var surface: NodeSurface
  var device: Device?
  var auth: Auth

  private static let ids: Set<String> = [
    "webchat-ui", "openclaw-control-ui", "openclaw-tui", "webchat", "cli", "gateway-client", "openclaw-macos",
    "openclaw-ios", "openclaw-watchos", "openclaw-android", "node-host", "openclaw-worker", "test", "fingerprint",
    "openclaw-probe",
  ]
  private static let modes: Set<String> = ["webchat", "cli", "ui", "backend", "node", "worker", "probe", "test"]

  init(validating json: JSON?) throws(SchemaError) {
    let root = try ClosedObject(
      json,
      known: [
        "minProtocol", "maxProtocol", "client", "caps", "commands", "permissions", "pathEnv", "role", "scopes",
        "device",
        "auth", "locale", "userAgent",
      ])
    minProtocol = try root.whole("minProtocol", in: 1...Int64.max)
    maxProtocol = try root.whole("maxProtocol", in: 1...Int64.max)
    client = try Self.client(try root.required("client"))
    role = try root.optionalText("role") ?? Role.operator.rawValue
    scopes = try root.optionalTexts("scopes") ?? []
    surface = NodeSurface(
      caps: try root.optionalTexts("caps") ?? [], commands: try root.optionalTexts("commands") ?? [],
      permissions: try root.optionalFlags("permissions") ?? [:])
    for key in ["pathEnv", "locale", "userAgent"] { _ = try root.optionalAnyText(key) }
    device = try root["device"].map { json throws(SchemaError) in try Self.device(json) }
    auth = try Self.auth(root["auth"])
  }

  private static func client(_ json: JSON) throws(SchemaError) -> Client {
    let object = try ClosedObject(
      json, at: "/client",
      known: [
        "id", "mode", "version", "platform", "displayName", "deviceFamily", "modelIdentifier", "instanceId",
      ])
    guard let id = try object.optionalChoice("id", of: ids) else { throw missing("id") }
    guard let mode = try object.optionalChoice("mode", of: modes) else { throw missing("mode") }
    return Client(
      id: id, mode: mode, version: try object.text("version"), platform: try object.text("platform"),
      displayName: try object.optionalText("displayName"), deviceFamily: try object.optionalText("deviceFamily"),
      modelIdentifier: try object.optionalText("modelIdentifier"), instanceID: try object.optionalText("instanceId"))
  }

  private static func missing(_ key: String) -> SchemaError {
    SchemaError(path: "/client", problem: "must have required property '\(key)'")
  }

  /// The nonce may be empty here: an absent one has an answer of its own (§4.3, 3).
  private static func device(_ json: JSON) throws(SchemaError) -> Device {
    let object = try ClosedObject(json, at: "/device", known: ["id", "publicKey", "signature", "signedAt", "nonce"])
    return Device(
      id: try object.text("id"), publicKey: try object.text("publicKey"), signature: try object.text("signature"),
      signedAtMs: try object.whole("signedAt"), nonce: try object.anyText("nonce"))
  }

  private static func auth(_ json: JSON?) throws(SchemaError) -> Auth {
    let object = try ClosedObject(
      json, at: "/auth",
      known: [
        "token", "password", "deviceToken", "bootstrapToken", "approvalRuntimeToken", "agentRuntimeIdentityToken",
      ])
    for key in ["approvalRuntimeToken", "agentRuntimeIdentityToken"] { _ = try object.optionalAnyText(key) }
    return Auth(
      token: try object.optionalAnyText("token"), password: try object.optionalAnyText("password"),
      deviceToken: try object.optionalAnyText("deviceToken"),
      bootstrapToken: try object.optionalAnyText("bootstrapToken"))
  }
}
