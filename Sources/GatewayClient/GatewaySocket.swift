import GatewayProtocol
import System
import Transport

/// One role's connection to a gateway through all its lives: carries out what its `ConnectionMachine` decides. The node's and the
/// operator's know nothing of each other. Pinned to its loop.
actor GatewaySocket {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  nonisolated let role: Role

  /// What the socket tells its owner, on the loop.
  struct Hooks: Sendable {
    var changed: @Sendable () -> Void = {}
    /// Let in, and everything stored that came with it.
    var welcomed: @Sendable (HelloOK, GatewayChannel) -> Void = { _, _ in }
    var event: @Sendable (Frame.Event, GatewayChannel) -> Void = { _, _ in }
    /// Broadcasts that were lost.
    var gap: @Sendable (Int64) -> Void = { _ in }
    /// The gateway has removed this device.
    var removed: @Sendable (Stop) -> Void = { _ in }
  }

  private let identity: DeviceIdentity
  private let registry: GatewayRegistry
  private let client: ClientInfo
  private let options: LinkOptions
  private let surface: @Sendable () async -> NodeSurface
  private var hooks = Hooks()
  private var gateway: GatewayRecord
  private var machine: ConnectionMachine
  private var timer: EventLoop.Token?
  private var channel: GatewayChannel?
  /// Rises with every connect and every end; what belongs to an older one is ignored.
  private var generation = 0
  /// The connect in progress, or the session it led to.
  private var turn: Task<Void, Never>?
  /// Farewells under way: `stop` waits for them.
  private var farewells: [Task<Void, Never>] = []

  /// How the last connect or session ended; nil after a hello-ok.
  private var lastCourse: ConnectVerdict.Course?
  private(set) var waitingSinceMs: Int64 = 0
  /// The last line that was logged; nil after a hello-ok.
  private var toldOf: String?

  // What is remembered of refusals until the next hello-ok.
  private var addsDeviceToken = false
  private var deviceTokenRetrySpent = false
  private var signaturesRefused: Set<DeviceAuth.Version> = []
  private var looksForRoute = false
  /// The gateway let us in with the device token and refuses the shared one. Kept while the daemon runs.
  private var sharedRefused = false

  init(
    role: Role, gateway: GatewayRecord, identity: DeviceIdentity, registry: GatewayRegistry, client: ClientInfo,
    options: LinkOptions, loop: EventLoop, surface: @escaping @Sendable () async -> NodeSurface
  ) {
    self.role = role
    self.gateway = gateway
    self.identity = identity
    self.registry = registry
    self.client = client
    self.options = options
    self.loop = loop
    self.surface = surface
    machine = ConnectionMachine(timings: options.timings)
  }

  func setHooks(_ hooks: Hooks) { self.hooks = hooks }

  // MARK: What the owner asks

  /// Begins, also after a stop.
  func start() { on(.start) }
  /// Begins for the first time: what has stopped stays so.
  func startIfIdle() { if machine.phase == .idle { on(.start) } }
  func reopen() { on(.reopen) }
  func clockWasSet() { on(.clockSet) }

  /// Stops and tells `stop`, whatever the socket is doing.
  func halt(_ stop: Stop) {
    lastCourse = .stop(stop)
    on(.halt)
  }

  /// Says goodbye and comes to rest.
  func stop() async {
    on(.stop)
    for farewell in farewells { await farewell.value }
    farewells = []
    await turn?.value
    turn = nil
    hooks = Hooks()
  }

  var phase: ConnectionMachine.Phase { machine.phase }

  /// The channel of the session in progress; nil while there is none.
  var session: GatewayChannel? { if case .connected = machine.phase { channel } else { nil } }

  var url: String { gateway.endpoint.description }

  var status: SocketStatus {
    switch machine.phase {
    case .idle: return .idle
    case .connected(let since): return .connected(sinceMs: since.wallMs)
    case .connecting:
      // While a person has to approve, each ask is a connect: the request stays in sight.
      if case .wait(let wait)? = lastCourse {
        return .waitingForApproval(requestID: wait.requestID, reason: wait.reason)
      }
      return .connecting(attempt: machine.attempt)
    case .resting(let until):
      switch lastCourse {
      case .wait(let wait)?: return .waitingForApproval(requestID: wait.requestID, reason: wait.reason)
      case .retry(_, let reason)?: return .backingOff(untilMs: wallTime(of: until), reason: reason)
      case .stop, nil: return .backingOff(untilMs: wallTime(of: until), reason: "")
      }
    case .stopped:
      guard case .stop(let stop)? = lastCourse else { return .idle }
      return .stopped(code: stop.code, summary: stop.summary, remedy: stop.remedy)
    }
  }

  private func wallTime(of moment: Duration) -> Int64 {
    let now = options.clock()
    return now.wallMs + Int64((moment - now.monotonic).milliseconds)
  }

  // MARK: Carrying out

  private func on(_ event: ConnectionMachine.Event) {
    let actions = machine.on(event, at: options.clock(), jitter: options.jitter())
    for action in actions { perform(action) }
    switch event {
    case .received, .ponged, .timer: if !actions.contains(where: \.changesStatus) { return }
    default: break
    }
    hooks.changed()
  }

  private func perform(_ action: ConnectionMachine.Action) {
    switch action {
    case .open(let attempt):
      generation += 1
      let generation = generation
      turn = Task { await connect(attempt, generation) }
    case .close(let code, let reason):
      if code == 4000 { noteLoss("the gateway's tick is missing") }
      guard let channel = takeChannel() else { return }
      part(with: channel, code, reason)
    case .drop(let why):
      noteLoss(why)
      guard let channel = takeChannel() else { return }
      Task { await channel.drop(why) }
    case .ping(let deadline):
      guard let channel else { return }
      let generation = generation
      Task {
        // Without a pong the socket has been dropped, and the reader tells.
        if await channel.ping(deadline: deadline), generation == self.generation { on(.ponged) }
      }
    case .arm(let delay): arm(delay)
    }
  }

  /// Parts with the connection in progress: nothing of it counts any more.
  private func takeChannel() -> GatewayChannel? {
    generation += 1
    // Not connected yet: the dialling is called off.
    if channel == nil { turn?.cancel() }
    defer { channel = nil }
    return channel
  }

  private func part(with channel: GatewayChannel, _ code: UInt16, _ reason: String) {
    farewells.append(Task { await channel.close(code: code, reason: reason) })
    // Each takes 2 s at most, so that older ones have ended.
    if farewells.count > 8 { farewells.removeFirst() }
  }

  private func noteLoss(_ reason: String) {
    if case .wait? = lastCourse { return }
    lastCourse = .retry(.backOff, reason: reason)
  }

  private func arm(_ delay: Duration?) {
    if let timer { loop.cancel(timer) }
    timer = nil
    guard let delay else { return }
    timer = loop.after(delay) { [weak self] in self?.assumeIsolated { $0.timerFired() } }
  }

  private func timerFired() {
    timer = nil
    guard let channel else { return on(.timer(lastActivity: .zero)) }
    let generation = generation
    Task {
      let lastActivity = await channel.lastActivity
      if generation == self.generation { on(.timer(lastActivity: lastActivity)) }
    }
  }

  // MARK: One connect, and the session after it

  private func connect(_ attempt: Int, _ generation: Int) async {
    let credentials = await registry.credentials(for: gateway.id)
    if looksForRoute { await findRoute() }
    if generation != self.generation { return }
    let auth = AuthAttempt(
      credentials, role: role, withDeviceToken: addsDeviceToken, sharedRefused: sharedRefused)
    let context = context(credentials, auth)
    if credentials.removedAtMs != nil {
      return await ended(ConnectVerdict(.stop(ConnectVerdict.removed(context))), generation)
    }
    addsDeviceToken = false
    var connectOptions = ConnectOptions()
    connectOptions.trust = gateway.trust
    connectOptions.headers = options.headers
    connectOptions.timeout = options.timings.connectTimeout
    connectOptions.proxy = options.proxy(gateway.endpoint)
    let socket: WebSocket
    do throws(TransportError) {
      socket = try await WebSocket.connect(to: gateway.endpoint, options: connectOptions, loop: loop)
    } catch {
      looksForRoute = gateway.routes.count > 1
      return await ended(ConnectVerdict(error, context), generation)
    }
    let channel = GatewayChannel(socket: socket)
    if generation != self.generation { return await channel.drop("not wanted any more") }
    self.channel = channel
    on(.opened)
    let reader = Task { await channel.run() }
    do throws(LinkError) {
      let hello = try await handshake(channel, credentials, auth, context)
      try await keep(hello, auth)
      if generation != self.generation { return }
      welcome(hello, auth, channel, generation)
      await channel.welcome(maxPayload: hello.maxPayload, listener: listener(channel, generation))
      let closure = await reader.value
      await ended(ConnectVerdict(closure, context), generation)
    } catch {
      let verdict = await verdict(on: error, channel, reader, context)
      await ended(verdict, generation)
    }
  }

  private func handshake(
    _ channel: GatewayChannel, _ credentials: Credentials, _ auth: AuthAttempt, _ context: ConnectContext
  ) async throws(LinkError) -> HelloOK {
    guard let payload = await channel.nextChallenge() else {
      throw LinkError(.connectionLost, "The gateway closed the connection before its challenge.")
    }
    let challenge = try Challenge(payload: payload)
    let params = try ConnectParams(
      role: role, surface: role == .node ? await surface() : NodeSurface(), client: client, auth: auth,
      identity: identity, challenge: challenge, signature: context.signature, nowMs: options.clock().wallMs)
    let answer = try await channel.request("connect", params.json, timeout: options.timings.helloDeadline)
    guard let hello = HelloOK(payload: answer) else {
      throw LinkError(.protocolViolation, "The gateway answered connect with something that is no hello-ok.")
    }
    return hello
  }

  /// What the failure of a handshake means. A refusal is told in the response and again in the close that follows; when there is no
  /// response, the close alone counts.
  private func verdict(
    on error: LinkError, _ channel: GatewayChannel, _ reader: Task<Closure, Never>, _ context: ConnectContext
  ) async -> ConnectVerdict {
    if error.code == .connectionLost { return ConnectVerdict(await reader.value, context) }
    var verdict = ConnectVerdict(error, context)
    if case .wait(var wait) = verdict.course, wait.requestID == nil {
      // An old gateway names the request in the close only.
      let limit = loop.after(.seconds(1)) { Task { await channel.drop("no close after the refusal") } }
      let closure = await reader.value
      loop.cancel(limit)
      wait.requestID = ConnectVerdict.requestID(in: closure.reason)
      verdict.course = .wait(wait)
    }
    return verdict
  }

  private func context(_ credentials: Credentials, _ auth: AuthAttempt) -> ConnectContext {
    let stored = credentials.deviceTokens[role]
    return ConnectContext(
      role: role, url: gateway.endpoint.description, auth: auth,
      hasUsableDeviceToken: stored.map { Self.covers($0.scopes, ConnectParams.scopes(of: role)) } ?? false,
      isTrustedEndpoint: gateway.isTrustedEndpoint, deviceTokenRetrySpent: deviceTokenRetrySpent,
      signature: credentials.signature ?? .v3, signaturesRefused: signaturesRefused)
  }

  /// Whether a token with the scopes `held` may ask for `wanted` (protocol §5.2).
  static func covers(_ held: [String], _ wanted: [String]) -> Bool {
    wanted.allSatisfy { scope in
      held.contains(scope) || held.contains("operator.admin")
        || (scope == "operator.read" && held.contains("operator.write"))
    }
  }

  // MARK: Beginning and end of a session

  /// Tokens are stored before anything else happens: one that is lost can't be had again without a person.
  private func keep(_ hello: HelloOK, _ auth: AuthAttempt) async throws(LinkError) {
    let role = role
    let endpoint = gateway.endpoint
    let nowMs = options.clock().wallMs
    do throws(LinkError) {
      try await registry.updateCredentials(of: gateway.id) {
        $0.keep(
          hello.auth, role: role, bootstrapped: auth.source == .bootstrap,
          linkIsTrusted: PlaintextPolicy.allows(endpoint),
          nowMs: nowMs)
      }
      try await registry.setEndpoint(endpoint, of: gateway.id)
    } catch  where error.code == .unknownGateway {
      // Forgotten in the meantime: the owner stops this link.
    } catch {
      Log.error("What the gateway issued can't be stored: \(error)")
    }
  }

  private func welcome(_ hello: HelloOK, _ auth: AuthAttempt, _ channel: GatewayChannel, _ generation: Int) {
    if auth.source == .shared && auth.deviceToken != nil { sharedRefused = true }
    deviceTokenRetrySpent = false
    signaturesRefused = []
    looksForRoute = false
    lastCourse = nil
    toldOf = nil
    Log.info("\(gateway.name): \(role.rawValue) connection is up.")
    on(.welcomed(tick: hello.tickInterval))
    hooks.welcomed(hello, channel)
  }

  private func listener(_ channel: GatewayChannel, _ generation: Int) -> GatewayChannel.Listener {
    GatewayChannel.Listener(
      message: { [weak self] in self?.assumeIsolated { if generation == $0.generation { $0.on(.received) } } },
      event: { [weak self] event in
        self?.assumeIsolated { if generation == $0.generation { $0.hooks.event(event, channel) } }
      },
      gap: { [weak self] missed in
        self?.assumeIsolated { if generation == $0.generation { $0.hooks.gap(missed) } }
      })
  }

  private func ended(_ verdict: ConnectVerdict, _ generation: Int) async {
    for effect in verdict.effects { await apply(effect) }
    if generation != self.generation { return }
    var course = verdict.course
    if case .wait(var wait) = course {
      if case .wait(let before)? = lastCourse {
        if wait.requestID == nil && wait.reason == before.reason { wait.requestID = before.requestID }
      } else {
        waitingSinceMs = options.clock().wallMs
      }
      course = .wait(wait)
    }
    lastCourse = course
    tell(course)
    // A refusal leaves the socket open for a moment; it must not outlive its turn.
    if channel != nil, let channel = takeChannel() { part(with: channel, 1000, "") }
    on(.ended(course))
    if verdict.effects.contains(.markRemoved), case .stop(let stop) = course { hooks.removed(stop) }
  }

  private func apply(_ effect: ConnectVerdict.Effect) async {
    let role = role
    let nowMs = options.clock().wallMs
    switch effect {
    case .forgetDeviceToken: await update { $0.deviceTokens[role] = nil }
    case .dropBootstrapToken: await update { $0.bootstrapToken = nil }
    case .markRemoved:
      await update {
        $0.removedAtMs = nowMs
        $0.deviceTokens = [:]
      }
    case .addDeviceTokenOnce:
      addsDeviceToken = true
      deviceTokenRetrySpent = true
    case .sign(let version):
      signaturesRefused.insert(version == .v3 ? .v2 : .v3)
      await update { $0.signature = version }
    }
  }

  private func update(_ change: @escaping @Sendable (inout Credentials) -> Void) async {
    do throws(LinkError) { try await registry.updateCredentials(of: gateway.id, change) } catch {
      Log.error("The credentials of \(gateway.name) can't be changed: \(error)")
    }
  }

  /// One line for each new condition, however often it repeats.
  private func tell(_ course: ConnectVerdict.Course) {
    let who = "\(gateway.name): \(role.rawValue)"
    let line: String
    switch course {
    case .retry(_, let reason): line = "\(who) connection is down: \(reason). It is tried again by itself."
    case .wait(let wait):
      let request = wait.requestID.map { " On the gateway host: openclaw devices approve \($0)" } ?? ""
      line = "\(who) waits for approval (\(wait.reason)).\(request)"
    case .stop(let stop): line = "\(who) connection is stopped: \(stop.summary) \(stop.remedy)"
    }
    if line == toldOf { return }
    toldOf = line
    if case .stop = course { Log.error(line) } else { Log.warning(line) }
  }

  // MARK: Routes

  /// Takes the first route that answers; keeps the one in use when none does (protocol §7.6).
  private func findRoute() async {
    looksForRoute = false
    if let found = await RouteProbe.first(of: gateway.routes, loop: loop) { gateway.endpoint = found }
  }
}

extension ConnectionMachine.Action {
  fileprivate var changesStatus: Bool {
    switch self {
    case .open, .close, .drop: true
    case .ping, .arm: false
    }
  }
}
