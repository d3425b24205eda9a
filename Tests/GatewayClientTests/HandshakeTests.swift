import Crypto
import GatewayProtocol
import LinkTestSupport
import Testing

@testable import GatewayClient

@Suite("The handshake's values")
struct HandshakeTests {
  /// The seed of protocol §4.5.
  static let seed = (0..<32).map { UInt8($0) }

  func params(
    _ role: Role, _ credentials: Credentials = Credentials(), ts: JSON? = 1_767_225_600_000,
    signature: DeviceAuth.Version = .v3
  ) throws -> ConnectParams {
    let identity = try DeviceIdentity(seed: Self.seed, createdAtMs: 0)
    let challenge = try Challenge(payload: .object(present: ["nonce": "n-1", "ts": ts]))
    return try ConnectParams(
      role: role,
      surface: NodeSurface(caps: ["device"], commands: ["device.info"], permissions: ["camera": false]),
      client: testClient,
      auth: AuthAttempt(credentials, role: role), identity: identity, challenge: challenge, signature: signature,
      nowMs: 42)
  }

  @Test("connect says who the node is, what it offers, and proves its key")
  func node() throws {
    let params = try params(.node, Credentials(sharedToken: "t0ken"))
    let json = params.json
    #expect(json["minProtocol"] == 3 && json["maxProtocol"] == 4)
    #expect(
      json["client"] == [
        "id": "node-host", "mode": "node", "version": "1.0.0", "platform": "linux", "deviceFamily": "Linux",
        "displayName": "Desk", "modelIdentifier": "x86_64", "instanceId": "inst-1",
      ])
    #expect(json["role"] == "node" && json["scopes"] == [] && json["caps"] == ["device"])
    #expect(json["commands"] == ["device.info"] && json["permissions"] == ["camera": false])
    #expect(json["auth"] == ["token": "t0ken"])
    #expect(json["locale"] == "en-GB" && json["userAgent"] == "talknode/1.0.0 (linux)")
    let id = "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c"
    #expect(json["device"]?["id"]?.string == id)
    #expect(json["device"]?["publicKey"] == "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg")
    #expect(json["device"]?["signedAt"] == 1_767_225_600_000 && json["device"]?["nonce"] == "n-1")
    let signed = "v3|\(id)|node-host|node|node||1767225600000|t0ken|n-1|linux|linux"
    let signature = try #require(json["device"]?["signature"]?.string.flatMap { Base64.decode($0) })
    let key = try SigningKey(seed: Self.seed)
    #expect(SigningKey.verify(signature, of: Array(signed.utf8), publicKey: key.publicKey))
    // Nothing that an older gateway refuses (protocol §3.2, §13.2).
    let known: Set = [
      "minProtocol", "maxProtocol", "client", "caps", "commands", "permissions", "role", "scopes", "device", "auth",
      "locale",
      "userAgent",
    ]
    let names = Set(try #require(json.object).keys)
    #expect(names.isSubset(of: known))
  }

  @Test("connect asks for read and write as operator, and signs v2 when told")
  func `operator`() throws {
    let json = try params(.operator, ts: nil, signature: .v2).json
    #expect(json["minProtocol"] == 4 && json["maxProtocol"] == 4)
    #expect(json["client"]?["id"] == "gateway-client" && json["client"]?["mode"] == "ui")
    #expect(json["client"]?["platform"] == "linux" && json["client"]?["deviceFamily"] == "Linux")
    #expect(json["scopes"] == ["operator.read", "operator.write"])
    #expect(json["commands"] == nil && json["permissions"] == nil && json["auth"] == nil)
    // Without the gateway's time, our own.
    #expect(json["device"]?["signedAt"] == 42)
    let id = "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c"
    let signed = "v2|\(id)|gateway-client|ui|operator|operator.read,operator.write|42||n-1"
    let signature = try #require(json["device"]?["signature"]?.string.flatMap { Base64.decode($0) })
    let key = try SigningKey(seed: Self.seed)
    #expect(SigningKey.verify(signature, of: Array(signed.utf8), publicKey: key.publicKey))
  }

  @Test("a challenge without a time is tolerated, one with a wrong time is not")
  func challenges() throws {
    #expect(try Challenge(payload: ["nonce": "n", "ts": 5]).timestampMs == 5)
    #expect(try Challenge(payload: ["nonce": "n", "ts": 0]).timestampMs == 0)
    #expect(try Challenge(payload: ["nonce": "n"]).timestampMs == nil)
    let wrong: [JSON] = [
      .null, [:], ["nonce": ""], ["nonce": 7], ["nonce": "n", "ts": -1], ["nonce": "n", "ts": 1.5],
      ["nonce": "n", "ts": "5"],
      ["nonce": "n", "ts": nil], ["nonce": .string(String(repeating: "n", count: 600))],
    ]
    for payload in wrong { #expect(throws: LinkError.self, "\(payload.text)") { try Challenge(payload: payload) } }
  }

  @Test("hello-ok is read leniently, and its numbers kept within reason")
  func hello() throws {
    let text = #"""
      {"type":"hello-ok","protocol":4,"server":{"version":"2026.5.31","connId":"k-1"},
       "features":{"methods":["node.event"],"events":["tick"]},
       "snapshot":{"presence":[],"health":{},"stateVersion":{"presence":0,"health":0},"uptimeMs":5,
        "sessionDefaults":{"mainSessionKey":"agent:main:main"}},
       "auth":{"method":"bootstrap-token","role":"node","scopes":[],"deviceToken":"tok-1","issuedAtMs":1,
        "deviceTokens":[{"deviceToken":"op-1","role":"operator","scopes":["operator.write"],"issuedAtMs":2},
         {"deviceToken":"x y","role":"operator"},{"deviceToken":"z","role":"king"}]},
       "policy":{"maxPayload":26214400,"maxBufferedBytes":52428800,"tickIntervalMs":15000},"novelty":7}
      """#
    let hello = try #require(HelloOK(payload: try JSON(parsing: text)))
    #expect(hello.serverVersion == "2026.5.31" && hello.maxPayload == 26_214_400 && hello.tickInterval == .seconds(15))
    #expect(hello.auth.deviceToken == "tok-1" && hello.mainSessionKey == "agent:main:main")
    #expect(
      hello.auth.deviceTokens == [HelloOK.Auth.Issued(token: "op-1", role: .operator, scopes: ["operator.write"])])
    let bare = try #require(HelloOK(payload: ["type": "hello-ok"]))
    #expect(
      bare.maxPayload == ProtocolLimits.payload && bare.tickInterval == .seconds(30) && bare.auth.deviceToken == nil)
    let hostile = try #require(
      HelloOK(payload: ["type": "hello-ok", "policy": ["maxPayload": -1, "tickIntervalMs": 9_000_000_000_000_000_000]]))
    #expect(hostile.maxPayload == 1024 && hostile.tickInterval == .seconds(600))
    for other in [.null, [:], ["type": "hello"], "hello-ok"] as [JSON] { #expect(HelloOK(payload: other) == nil) }
  }

  // MARK: Credentials

  static func credentials(
    shared: Bool = false, password: Bool = false, bootstrap: Bool = false, node: Bool = false, operator: Bool = false
  ) -> Credentials {
    var credentials = Credentials(
      sharedToken: shared ? "shared" : nil, password: password ? "password" : nil,
      bootstrapToken: bootstrap ? "boot" : nil)
    if node { credentials.deviceTokens[.node] = .init(token: "node", scopes: [], updatedAtMs: 0) }
    if `operator` {
      credentials.deviceTokens[.operator] = .init(token: "op", scopes: ["operator.write"], updatedAtMs: 0)
    }
    return credentials
  }

  @Test("the credential that goes out is chosen in the order of the protocol")
  func order() {
    typealias Row = (Credentials, Role, JSON?, String)
    let c = Self.credentials
    let rows: [Row] = [
      (c(false, false, false, false, false), .node, nil, ""),
      (c(true, true, true, true, true), .node, ["token": "shared"], "shared"),
      (c(false, false, false, true, false), .node, ["token": "node"], "node"),
      (c(false, true, false, true, false), .node, ["password": "password"], ""),
      (c(false, true, true, true, false), .node, ["password": "password"], ""),
      (c(false, false, true, true, false), .node, ["bootstrapToken": "boot"], "boot"),
      (c(false, false, true, false, false), .node, ["bootstrapToken": "boot"], "boot"),
      (c(false, false, false, true, true), .operator, ["token": "op"], "op"),
      (c(false, false, false, true, false), .operator, ["token": "node"], "node"),
      (c(true, false, false, true, false), .operator, ["token": "shared"], "shared"),
      (c(false, false, false, false, true), .node, nil, ""),
    ]
    for (credentials, role, json, signed) in rows {
      let auth = AuthAttempt(credentials, role: role)
      #expect(auth.json == json)
      #expect(auth.signedToken == signed)
    }
  }

  @Test("the device token goes beside the shared one once, and in its place once that was refused")
  func retry() {
    let credentials = Self.credentials(shared: true, node: true)
    let once = AuthAttempt(credentials, role: .node, withDeviceToken: true)
    #expect(once.json == ["token": "shared", "deviceToken": "node"] && once.signedToken == "shared")
    let after = AuthAttempt(credentials, role: .node, sharedRefused: true)
    #expect(after.json == ["token": "node"] && after.source == .device)
    // Without a device token the shared one is all there is.
    #expect(AuthAttempt(Self.credentials(shared: true), role: .node, sharedRefused: true).json == ["token": "shared"])
  }

  @Test("a bootstrap token lets each role in once and is then gone")
  func bootstrap() {
    var credentials = Self.credentials(bootstrap: true)
    let auth = HelloOK.Auth(method: "bootstrap-token", scopes: [], deviceToken: "n", deviceTokens: [])
    credentials.keep(auth, role: .node, bootstrapped: true, linkIsTrusted: true, nowMs: 1)
    #expect(AuthAttempt(credentials, role: .node).json == ["token": "n"])
    // No operator token was handed over: the operator shows the code itself.
    #expect(AuthAttempt(credentials, role: .operator).json == ["bootstrapToken": "boot"])
    credentials.keep(
      HelloOK.Auth(scopes: ["operator.write", "operator.read"], deviceToken: "o"), role: .operator, bootstrapped: true,
      linkIsTrusted: true, nowMs: 2)
    #expect(credentials.bootstrapToken == nil)
    #expect(AuthAttempt(credentials, role: .operator).json == ["token": "o"])
  }

  @Test("a full code hands the operator's token over at once")
  func handOff() {
    var credentials = Self.credentials(bootstrap: true)
    let issued = HelloOK.Auth.Issued(token: "o", role: .operator, scopes: ["operator.read"])
    credentials.keep(
      HelloOK.Auth(scopes: [], deviceToken: "n", deviceTokens: [issued]), role: .node, bootstrapped: true,
      linkIsTrusted: true,
      nowMs: 1)
    #expect(credentials.deviceTokens[.operator]?.token == "o" && credentials.bootstrapToken == nil)
    // Over a link that can't be trusted nothing is kept; outside a bootstrap no other role's token counts.
    var untrusted = Self.credentials(bootstrap: true)
    untrusted.keep(
      HelloOK.Auth(deviceToken: "n", deviceTokens: [issued]), role: .node, bootstrapped: true, linkIsTrusted: false,
      nowMs: 1)
    #expect(untrusted.deviceTokens.isEmpty)
    var plain = Self.credentials(shared: true)
    plain.keep(
      HelloOK.Auth(deviceToken: "n", deviceTokens: [issued]), role: .node, bootstrapped: false, linkIsTrusted: true,
      nowMs: 1)
    #expect(plain.deviceTokens.keys.map(\.rawValue) == ["node"])
  }

  @Test("a token that comes again keeps the scopes it was stored with, a new one brings its own")
  func scopesKept() {
    var credentials = Self.credentials(operator: true)
    credentials.keep(
      HelloOK.Auth(scopes: ["other"], deviceToken: "op"), role: .operator, bootstrapped: false, linkIsTrusted: true,
      nowMs: 9)
    #expect(credentials.deviceTokens[.operator]?.scopes == ["operator.write"])
    credentials.keep(
      HelloOK.Auth(scopes: ["other"], deviceToken: "op2"), role: .operator, bootstrapped: false, linkIsTrusted: true,
      nowMs: 9)
    #expect(credentials.deviceTokens[.operator] == .init(token: "op2", scopes: ["other"], updatedAtMs: 9))
  }

  @Test("write covers read, admin covers all, nothing else covers anything")
  func covering() {
    #expect(GatewaySocket.covers([], []))
    #expect(GatewaySocket.covers(["operator.write"], ["operator.read", "operator.write"]))
    #expect(GatewaySocket.covers(["operator.admin"], ["operator.talk"]))
    #expect(!GatewaySocket.covers(["operator.read"], ["operator.write"]))
    #expect(!GatewaySocket.covers(["operator.write"], ["operator.talk"]))
  }
}
