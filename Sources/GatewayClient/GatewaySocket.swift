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

  let identity: DeviceIdentity
  let registry: GatewayRegistry
  let client: ClientInfo
  let options: LinkOptions
  let surface: @Sendable () async -> NodeSurface
  var hooks = Hooks()
  var gateway: GatewayRecord
  private var machine: ConnectionMachine
  private var timer: EventLoop.Token?
  var channel: GatewayChannel?
  /// Rises with every connect and every end; what belongs to an older one is ignored.
  var generation = 0
  /// The connect in progress, or the session it led to.
  private var turn: Task<Void, Never>?
  /// Farewells under way: `stop` waits for them.
  private var farewells: [Task<Void, Never>] = []

  /// How the last connect or session ended; nil after a hello-ok.
  var lastCourse: ConnectVerdict.Course?
  var waitingSinceMs: Int64 = 0
  /// The last line that was logged; nil after a hello-ok.
  var toldOf: String?

  /// What the gateway was shown in this turn, and then what it issued: a verdict is on these.
  var shown = Credentials()
  // What is remembered of refusals until the next hello-ok.
  var addsDeviceToken = false
  var deviceTokenRetrySpent = false
  var signaturesRefused: Set<DeviceAuth.Version> = []
  var looksForRoute = false
  /// The gateway let us in with the device token and refuses the shared one. Kept while the daemon runs.
  var sharedRefused = false

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

  func on(_ event: ConnectionMachine.Event) {
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
  func takeChannel() -> GatewayChannel? {
    generation += 1
    // Not connected yet: the dialling is called off.
    if channel == nil { turn?.cancel() }
    defer { channel = nil }
    return channel
  }

  func part(with channel: GatewayChannel, _ code: UInt16, _ reason: String) {
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
}

extension ConnectionMachine.Action {
  fileprivate var changesStatus: Bool {
    switch self {
    case .open, .close, .drop: true
    case .ping, .arm: false
    }
  }
}
