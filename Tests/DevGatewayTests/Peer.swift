import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

/// A client of the gateway for tests: sends what it is told to, right or wrong, and keeps what comes.
actor Peer {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  nonisolated let socket: WebSocket
  /// Every frame that came, in order.
  private(set) var frames: [JSON] = []
  private(set) var closure: Closure?
  private(set) var hello: JSON?
  private var requests = 0

  private init(_ socket: WebSocket) {
    self.socket = socket
    loop = socket.loop
  }

  /// Opens a socket; `forwarded` makes it a remote client, which takes TLS because headers are only sent over it.
  static func open(_ gateway: DevGateway, forwarded: Bool = false, maxMessage: Int = 64 << 20) async throws -> Peer {
    let endpoint = try #require(Endpoint(url: await gateway.url))
    var options = ConnectOptions()
    options.maxMessage = maxMessage
    if let fingerprint = await gateway.fingerprint { options.trust = .pinned(fingerprint) }
    if forwarded {
      #expect(endpoint.isTLS, "headers are only sent over TLS")
      options.headers = [("X-Forwarded-For", "203.0.113.7")]
    }
    let peer = Peer(try await WebSocket.connect(to: endpoint, options: options, loop: gateway.loop))
    Task { await peer.read() }
    return peer
  }

  private func read() async {
    do throws(Closure) {
      while true {
        let message = try await socket.receive()
        frames.append((try? JSON(parsing: message.bytes)) ?? "not JSON")
      }
    } catch {
      closure = error
    }
  }

  // MARK: Sending

  func send(_ text: String) async throws { try await socket.send(Array(text.utf8)) }

  /// Sends a request and returns the frame that answers it.
  @discardableResult
  func call(_ method: String, _ params: JSON? = nil) async throws -> Frame.Response {
    requests += 1
    let id = "r\(requests)"
    try await socket.send(Frame.request(Frame.Request(id: id, method: method, params: params)).encoded())
    return try await response(to: id)
  }

  /// Sends a request and returns its payload; fails the test on an error.
  @discardableResult
  func request(_ method: String, _ params: JSON? = nil) async throws -> JSON {
    switch try await call(method, params).result {
    case .success(let payload): return payload ?? .null
    case .failure(let error): throw error
    }
  }

  /// Sends a request and returns the error that answers it; nil when it succeeds.
  func error(_ method: String, _ params: JSON? = nil) async throws -> WireError? {
    switch try await call(method, params).result {
    case .success: return nil
    case .failure(let error): return error
    }
  }

  func response(to id: String) async throws -> Frame.Response {
    // A method and not a function in here: an async closure that names the actor only through a local function runs off it (Swift 6.3).
    _ = await eventually { self.frame(answering: id) != nil }
    let found = frame(answering: id)
    guard
      case .response(let response) = try Frame(
        json: try #require(found, "no answer to \(id): \(String(describing: closure))"))
    else { throw WireError(code: "TEST", message: "no response") }
    return response
  }

  private func frame(answering id: String) -> JSON? {
    frames.first { $0["type"] == "res" && $0["id"]?.string == id }
  }

  // MARK: What came

  func events(_ name: String) -> [JSON] { frames.filter { $0["event"]?.string == name } }

  /// Waits for the first event of a name, or for the `nth`; returns its payload.
  @discardableResult
  func event(_ name: String, nth: Int = 0) async throws -> JSON {
    _ = await eventually { events(name).count > nth }
    let all = events(name)
    return try #require(all.count > nth ? all[nth]["payload"] ?? .null : nil, "no event \(name)")
  }

  /// Waits for the end.
  func end() async throws -> Closure {
    _ = await eventually { closure != nil }
    return try #require(closure, "the socket is still open")
  }

  func close() async { await socket.close() }

  // MARK: Connecting

  /// Sends `connect` with these params after the challenge; returns the answer.
  func connect(_ params: (_ nonce: String, _ tsMs: Int64) throws -> JSON) async throws -> Frame.Response {
    let challenge = try await event("connect.challenge")
    let params = try params(try #require(challenge["nonce"]?.string), try #require(challenge["ts"]?.int))
    let response = try await call("connect", params)
    if case .success(let payload) = response.result { hello = payload }
    return response
  }
}

/// Who a test says it is, and with what.
struct Badge {
  var key: SigningKey
  var role = Role.node
  var client: [String: JSON]
  var scopes: [String] = []
  var caps: [String] = ["device"]
  var commands: [String] = ["device.info", "device.status"]
  var permissions: [String: Bool] = [:]
  var auth: [String: JSON]
  var minProtocol: Int64 = 3
  var maxProtocol: Int64 = 4
  var version = DeviceAuth.Version.v3
  var sendsDevice = true
  /// Added to the clock's time of the signature.
  var lateMs: Int64 = 0
  /// Changes the params after they are signed.
  var tamper: @Sendable (inout [String: JSON]) -> Void = { _ in }

  /// A node like ours.
  static func node(_ token: String, key: SigningKey? = nil) throws -> Badge {
    Badge(
      key: try key ?? SigningKey(),
      client: [
        "id": "node-host", "mode": "node", "version": "1.0", "platform": "linux", "deviceFamily": "Linux",
        "displayName": "desk",
      ], auth: ["token": .string(token)])
  }

  /// The operator half of the same device.
  static func talker(_ token: String, key: SigningKey) -> Badge {
    Badge(
      key: key, role: .operator,
      client: ["id": "gateway-client", "mode": "ui", "version": "1.0", "platform": "linux", "deviceFamily": "Linux"],
      scopes: ["operator.write", "operator.read"], caps: [], commands: [], auth: ["token": .string(token)],
      minProtocol: 4)
  }

  /// The gateway's owner at this machine, without a device.
  static func owner(_ token: String) throws -> Badge {
    Badge(
      key: try SigningKey(), role: .operator,
      client: ["id": "gateway-client", "mode": "backend", "version": "1.0", "platform": "linux"],
      scopes: ["operator.admin", "operator.read", "operator.write", "operator.approvals", "operator.pairing"], caps: [],
      commands: [], auth: ["token": .string(token)], minProtocol: 4, sendsDevice: false)
  }

  var deviceID: String { hexadecimal(sha256(key.publicKey)) }

  func params(nonce: String, tsMs: Int64) throws -> JSON {
    var params: [String: JSON] = [
      "minProtocol": .int(minProtocol), "maxProtocol": .int(maxProtocol), "client": .object(client),
      "role": .string(role.rawValue), "scopes": .strings(scopes), "caps": .strings(caps), "auth": .object(auth),
    ]
    if role == .node {
      params["commands"] = .strings(commands)
      params["permissions"] = .object(permissions.mapValues(JSON.bool))
    }
    if sendsDevice {
      let secret = ["token", "deviceToken", "bootstrapToken"].compactMap { auth[$0]?.string }.first ?? ""
      let signedAtMs = tsMs + lateMs
      let payload = DeviceAuth(
        deviceID: deviceID, clientID: client["id"]?.string ?? "", clientMode: client["mode"]?.string ?? "",
        role: role.rawValue, scopes: scopes, signedAtMs: signedAtMs, token: secret, nonce: nonce,
        platform: client["platform"]?.string ?? "", deviceFamily: client["deviceFamily"]?.string ?? ""
      ).payload(version)
      params["device"] = [
        "id": .string(deviceID), "publicKey": .string(Base64.encodeURL(key.publicKey)),
        "signature": .string(Base64.encodeURL(try key.sign(Array(payload.utf8)))), "signedAt": .int(signedAtMs),
        "nonce": .string(nonce),
      ]
    }
    tamper(&params)
    return .object(params)
  }
}

extension DevGateway {
  /// Opens a socket and connects; the peer's `hello` is there when it was let in.
  func join(
    _ badge: Badge, forwarded: Bool = false, maxMessage: Int = 64 << 20
  ) async throws -> (peer: Peer, response: Frame.Response) {
    let peer = try await Peer.open(self, forwarded: forwarded, maxMessage: maxMessage)
    let response = try await peer.connect { nonce, tsMs in try badge.params(nonce: nonce, tsMs: tsMs) }
    return (peer, response)
  }

  /// Connects and must be let in.
  func admit(_ badge: Badge, forwarded: Bool = false) async throws -> Peer {
    let (peer, response) = try await join(badge, forwarded: forwarded)
    _ = try response.result.get()
    return peer
  }

  /// Connects and must be turned away: the error, and the close that followed.
  func refusal(of badge: Badge, forwarded: Bool = false) async throws -> (error: WireError, closure: Closure) {
    let (peer, response) = try await join(badge, forwarded: forwarded)
    guard case .failure(let error) = response.result else {
      throw WireError(code: "TEST", message: "let in: \(response)")
    }
    return (error, try await peer.end())
  }

  func owner() async throws -> Peer { try await admit(try Badge.owner(token)) }
}

/// A gateway on a loop of its own for one test.
func withGateway(
  _ configure: (inout DevGateway.Options) throws -> Void = { _ in },
  _ body: @Sendable (DevGateway) async throws -> Void
) async throws {
  var options = DevGateway.Options(token: "shared-" + Random.token())
  options.allow = ["device.info", "device.status"]
  try configure(&options)
  let loop = EventLoop(name: "test")
  defer { loop.stop() }
  let gateway = DevGateway(options: options, loop: loop)
  try await gateway.start()
  do {
    try await body(gateway)
  } catch {
    await gateway.crash()
    throw error
  }
  await gateway.crash()
}

/// The payload of a success, or the error.
extension Frame.Response {
  var error: WireError? { if case .failure(let error) = result { error } else { nil } }
}
