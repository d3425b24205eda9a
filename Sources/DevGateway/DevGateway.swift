/// DevGateway: a gateway on loopback that the demo and the tests run a node against. A test double with a real wire: its
/// handshake, device proof, approvals, command policy and chat are those of the protocol reference; it remembers nothing on disk
/// and is no product.
import Crypto
import GatewayProtocol
import System
import Transport

/// The gateway: records (values in `Records/`), connections, and the methods operators and nodes may call (`Methods/`).
///
/// Pinned to its loop, on which its sockets live too, so that a frame is answered without a change of thread.
public actor DevGateway {
  public struct Options: Sendable {
    /// 0 for a free one, which is then kept over restarts.
    public var port: UInt16 = 0
    /// The shared secret.
    public var token: String
    /// A second shared secret. With one, clients are told about passwords rather than tokens.
    public var password: String?
    /// For `wss`; nil for `ws`.
    public var tls: ServerIdentity?
    /// `gateway.nodes.commands.allow`: commands beyond the platform's defaults. Exact names.
    public var allow: [String] = []
    /// `gateway.nodes.commands.deny`: wins over everything.
    public var deny: [String] = []
    /// Whether a client of this machine that came without a proxy is paired without asking, as gateways do.
    public var autoApprove = true
    public var tickInterval = ProtocolLimits.tickInterval
    public var handshakeTimeout = ProtocolLimits.handshakeTimeout
    /// How often clients are pinged.
    public var pingInterval: Duration = .seconds(30)
    /// How often `health` is broadcast.
    public var healthInterval: Duration = .seconds(60)
    /// The longest message taken after hello-ok, in bytes; told to clients as `policy.maxPayload`.
    public var maxPayload = ProtocolLimits.payload
    /// More unsent bytes than this make a slow consumer.
    public var maxBufferedBytes = ProtocolLimits.bufferedBytes
    /// Behaves as a gateway of before May 2026: version 3, v2 signatures only, ten minutes of skew, `canvasHostUrl`, bare details.
    public var protocol3 = false
    /// Pushes `voicewake.*` before hello-ok, as may happen (protocol §3.7).
    public var earlyEvents = false
    /// Counts failed authentications from this machine too; gateways exempt them.
    public var limitsLoopback = false
    /// What the agent says to a message.
    public var agent: Agent = AgentTurn.echo
    /// What it has for those who talk: by itself nothing.
    public var talk = TalkOffer()
    /// `server.version` of hello-ok.
    public var version = "2026.5.31-dev"

    public init(token: String = Random.token()) { self.token = token }
  }

  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  let options: Options
  let startedAtMs = WallClock.milliseconds()
  var records: Records
  var faults = Faults()
  var tls: ServerIdentity?
  var connections: [Int: Connection] = [:]
  var invokes = InvokeRegistry()
  var invokeTimers: [String: EventLoop.Token] = [:]
  var idleTimers: [String: EventLoop.Token] = [:]
  var agentInvokes = AgentInvokes()
  var queues = PendingQueues()
  var nodeEvents: [NodeEvent] = []
  /// By node: how long nobody has touched it.
  var idleSeconds: [String: Int64] = [:]
  /// Fingerprints of spoken turns, the newest last.
  var heardTranscripts: [String] = []
  var chat = ChatStore()
  /// The agent's runs that go on.
  var runTasks: [String: Task<Void, Never>] = [:]
  var talk: TalkOffer
  /// Transcriptions that go on, by their ids.
  var transcriptions: [String: TranscriptionSession] = [:]
  var voicesAtWork = 0
  /// What `talk.speak` and `tts.speak` were asked to say, the newest last; the last 100 are kept.
  public internal(set) var spokenTexts: [String] = []
  var surfaceTokens: [String: SurfaceURL] = [:]
  var stateVersion = (presence: Int64(1), health: Int64(1))
  var listeners: [Int: AsyncStream<Notice>.Continuation] = [:]
  var nextListener = 0
  private let bound = Lock<UInt16>(0)
  private var server: WebSocketServer?
  /// By what they are for.
  private var timers: [String: EventLoop.Token] = [:]
  private var nextConnection = 1

  public init(options: Options, loop: EventLoop) {
    self.options = options
    self.loop = loop
    tls = options.tls
    talk = options.talk
    records = Records(token: options.token, password: options.password)
    records.policy = CommandPolicy(allow: Set(options.allow), deny: Set(options.deny))
    bound.withLock { $0 = options.port }
  }

  // MARK: Starting and stopping

  /// The port it listens on; 0 before the first start with a free port.
  public nonisolated var port: UInt16 { bound.withLock { $0 } }
  /// The shared secret it was made with.
  public nonisolated var token: String { options.token }

  /// Where clients connect.
  public var url: String { (tls == nil ? "ws" : "wss") + "://127.0.0.1:\(port)" }
  /// SHA-256 of the certificate; nil without TLS.
  public var fingerprint: [UInt8]? { tls?.fingerprint }
  public var isRunning: Bool { server != nil }

  /// Listens on 127.0.0.1. After a stop it comes back on the same port with all that it remembers. Throws `DevGatewayError` when the port
  /// is taken. Nothing when it is running.
  public func start() throws(DevGatewayError) {
    if server != nil { return }
    let server: WebSocketServer
    do {
      server = try WebSocketServer(
        port: port, identity: tls, loop: loop, maxMessage: ProtocolLimits.preAuthPayload,
        handler: { [weak self] socket in await self?.serve(socket) })
    } catch {
      throw DevGatewayError(.portUnavailable, "\(error)", remedy: "Choose another port, or 0 for a free one.")
    }
    bound.withLock { $0 = server.port }
    self.server = server
    server.assumeIsolated { $0.start() }
    repeatEvery(options.tickInterval, "tick") { $0.tick() }
    repeatEvery(options.pingInterval, "ping") { $0.ping() }
    repeatEvery(options.healthInterval, "health") { $0.tellHealth() }
  }

  /// Says `shutdown`, closes every socket with 1012 and stops listening. What it remembers stays.
  public func stop() async { await end(restartExpectedMs: nil) }

  /// Stops as a gateway that comes back: `restartExpectedMs` is what clients are told.
  func end(restartExpectedMs: Int64?) async {
    guard let server else { return }
    self.server = nil
    rest()
    let reason = restartExpectedMs == nil ? "gateway stopping" : "service restart"
    let payload = JSON.object(present: [
      "reason": .string(reason), "restartExpectedMs": restartExpectedMs.map(JSON.int),
    ])
    broadcast("shutdown", payload)
    for connection in connections.values {
      // A stalled one would never answer the goodbye.
      if connection.isStalled {
        connection.drop("the gateway stops")
      } else {
        connection.close(1012, "service restart")
      }
    }
    await server.stop()
  }

  /// Ends at once: every socket is dropped without a word, as when the process is killed.
  public func crash() async {
    guard let server else { return }
    self.server = nil
    rest()
    for connection in connections.values { connection.drop("the gateway is killed") }
    await server.stop()
  }

  /// What goes on only while it runs: the timers and the agent's runs.
  private func rest() {
    for timer in timers.values { loop.cancel(timer) }
    timers = [:]
    for task in runTasks.values { task.cancel() }
    runTasks = [:]
    endTranscriptions()
    chat.loseRuns()
  }

  private func repeatEvery(_ period: Duration, _ name: String, _ act: @escaping @Sendable (isolated DevGateway) -> Void)
  {
    timers[name] = loop.after(period) { [weak self] in
      self?.assumeIsolated { gateway in
        act(gateway)
        gateway.repeatEvery(period, name, act)
      }
    }
  }

  private func tick() {
    if faults.ticks { broadcast("tick", ["ts": .int(WallClock.milliseconds())], droppable: true) }
  }

  private func ping() {
    for connection in connections.values where !connection.isStalled {
      let socket = connection.socket
      Task { try? await socket.ping(timeout: ProtocolLimits.pongDeadline) }
    }
  }

  // MARK: Serving one socket

  private func serve(_ socket: WebSocket) async {
    let connection = Connection(id: nextConnection, socket: socket)
    nextConnection += 1
    connections[connection.id] = connection
    defer { lost(connection) }
    if faults.answersNothing {
      connection.stall()
    } else {
      challenge(connection)
    }
    let closure = await socket.deliver { [weak self, id = connection.id] message in
      self?.assumeIsolated { $0.take(message, from: id) }
      return .wholly
    }
    Log.debug("dev-gateway: connection \(connection.id) \(closure)")
  }

  private func take(_ message: Message, from id: Int) {
    if let connection = connections[id], !connection.isStalled { take(message, from: connection) }
  }

  private func challenge(_ connection: Connection) {
    let payload: JSON = ["nonce": .string(connection.nonce), "ts": .int(WallClock.milliseconds())]
    connection.post(Frame.event(Frame.Event(name: "connect.challenge", payload: payload)))
    connection.handshakeTimer = loop.after(options.handshakeTimeout) { [weak connection] in
      connection?.close(1000, "")
    }
  }

  private func take(_ message: Message, from connection: Connection) {
    switch connection.phase {
    case .ended: return
    case .handshake: takeFirst(message, from: connection)
    case .open(let seat): takeRequest(message, from: connection, seat: seat)
    }
  }

  private func lost(_ connection: Connection) {
    connections[connection.id] = nil
    connection.cancelTimer(on: loop)
    endTranscriptions(of: connection)
    for entry in invokes.lose(connection.id) {
      fail(entry, code: "DISCONNECTED", message: "node disconnected (\(entry.command))")
    }
    guard connection.lastSeat?.role == .node else { return }
    stateVersion.presence += 1
    broadcast("presence", presence, droppable: true, withStateVersion: true)
  }
}

/// Why the gateway could not be run.
public struct DevGatewayError: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Code: String, Sendable { case portUnavailable, certificate, setupCode }
  public let code: Code
  public let summary: String
  public let remedy: String?
  public init(_ code: Code, _ summary: String, remedy: String? = nil) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
  }
  public var description: String { summary }
}
