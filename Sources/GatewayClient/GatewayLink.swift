import GatewayProtocol
import System
import Transport

/// The link to one gateway: a node socket that answers commands, and an operator socket for chat, speech and approvals, each with its
/// own fate. The node comes first; the operator follows when the node was let in. Both come back by themselves until stopped.
/// Pinned to its loop.
public actor GatewayLink {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  public nonisolated let gateway: GatewayRecord

  /// A local event in `events(of:)`, never on the wire: broadcasts were lost before this point, `{"missed": n}`. Whoever keeps a
  /// picture of the gateway's state asks for it anew.
  public static let gapEvent = "link.gap"

  /// Invokes that may be under way at once; the router has a smaller limit of its own.
  static let mostInvokes = 128

  private struct InvokeKey: Hashable {
    let channel: ObjectIdentifier
    let id: String
  }

  let identity: DeviceIdentity
  let registry: GatewayRegistry
  let client: ClientInfo
  let options: LinkOptions
  let node: GatewaySocket
  let `operator`: GatewaySocket
  private let declare: @Sendable () async -> NodeSurface
  private let answer: @Sendable (InvokeRequest, Int, @escaping @Sendable (InvokeOutcome) -> Void) async -> Void
  private let cancelInvoke: @Sendable (String) async -> Void
  private let nodeEvents = Broadcast<Frame.Event>(depth: 256)
  private let operatorEvents = Broadcast<Frame.Event>(depth: 1024)
  private let statusBroadcast = Broadcast<LinkStatus>(depth: 1)
  private let latest: Lock<LinkStatus>
  private var clockWatch: ClockWatch?
  private var invokes: Set<InvokeKey> = []
  private var isRunning = false
  private var publications = 0
  private var published = 0

  // What is known about the surface; see `GatewayLink+Surface`.
  var surface = SurfaceKnowledge()
  var serverVersion: String?
  /// The gateway's main session, as the last hello named it.
  private(set) var mainSession: String?
  var presence: String?

  /// Makes a link that is idle until `start`.
  ///
  /// - Parameters:
  ///   - surface: what the node declares; asked at every connect of the node socket.
  ///   - answer: answers an invoke by calling `reply`, exactly once and from wherever it likes: until then the invoke has one of 128
  ///     places. `payloadLimit` is the longest payload text in bytes. Called for each invoke once.
  ///   - cancelInvoke: the gateway no longer wants the answer to the invoke with this id.
  public init(
    gateway: GatewayRecord, identity: DeviceIdentity, registry: GatewayRegistry, client: ClientInfo, loop: EventLoop,
    options: LinkOptions = LinkOptions(), surface: @escaping @Sendable () async -> NodeSurface,
    answer:
      @escaping @Sendable (
        InvokeRequest, _ payloadLimit: Int, _ reply: @escaping @Sendable (InvokeOutcome) -> Void
      ) async -> Void,
    cancelInvoke: @escaping @Sendable (String) async -> Void
  ) {
    self.gateway = gateway
    self.identity = identity
    self.registry = registry
    self.client = client
    self.loop = loop
    self.options = options
    declare = surface
    self.answer = answer
    self.cancelInvoke = cancelInvoke
    node = GatewaySocket(
      role: .node, gateway: gateway, identity: identity, registry: registry, client: client, options: options,
      loop: loop,
      surface: surface)
    `operator` = GatewaySocket(
      role: .operator, gateway: gateway, identity: identity, registry: registry, client: client, options: options,
      loop: loop, surface: surface)
    latest = Lock(LinkStatus(gatewayID: gateway.id, name: gateway.name, url: gateway.endpoint.description))
  }

  // MARK: Running

  /// Begins to connect; also begins again what has stopped for good, after a person has done what was asked for.
  public func start() async {
    if !isRunning {
      isRunning = true
      await node.setHooks(hooks(.node))
      await `operator`.setHooks(hooks(.operator))
      watchClock()
    }
    surface.declared = await declare()
    surface.approvedDigest = await registry.approvedSurface(of: gateway.id)
    // Stopped meanwhile: that is not undone.
    guard isRunning else { return }
    await node.start()
    if await node.session != nil { await `operator`.start() }
  }

  /// Says goodbye on both sockets, at most 2 s each, and ends all streams. An invoke under way goes on; its result is dropped.
  public func stop() async {
    isRunning = false
    clockWatch?.stop()
    clockWatch = nil
    forgetSurfacePoll()
    async let nodeEnded: Void = node.stop()
    async let operatorEnded: Void = `operator`.stop()
    _ = await (nodeEnded, operatorEnded)
    await publish()
    nodeEvents.end()
    operatorEvents.end()
    statusBroadcast.end()
  }

  /// Declares the node anew where what it offers has changed: results under way are lost with the old connection. The operator socket is
  /// left alone.
  public func surfaceChanged() async {
    let new = await declare()
    if new == surface.declared { return }
    surface.declared = new
    surface.description = nil
    await node.reopen()
    await publish()
  }

  private func watchClock() {
    do throws(SystemError) {
      clockWatch = try ClockWatch(loop: loop) { [weak self] in
        self?.later { await $0.clockWasSet() }
      }
    } catch {
      Log.warning("A sleep of the machine is noticed late: \(error).")
    }
  }

  /// The wall clock was set, or the machine woke up: a connection that did not outlast it ends at once. The link notices by itself;
  /// to be called by who knows better.
  public func clockWasSet() async {
    await node.clockWasSet()
    await `operator`.clockWasSet()
  }

  // MARK: Talking

  /// Asks the gateway on the socket of `role` and returns the answer's payload, `.null` when it has none. Throws `notConnected`,
  /// `timeout`, `connectionLost`, `tooLarge`, `tooManyRequests`, `cancelled`, or `refused` with the gateway's error.
  public func request(
    _ method: String, _ params: JSON?, as role: Role, timeout: Duration = .seconds(15)
  ) async throws(LinkError) -> JSON {
    guard let channel = await socket(role).session else { throw await notConnected(role) }
    return try await channel.request(method, params, timeout: timeout)
  }

  private func socket(_ role: Role) -> GatewaySocket { role == .node ? node : `operator` }

  private func notConnected(_ role: Role) async -> LinkError {
    let what = "The \(role.rawValue) connection to \(gateway.name) is not up"
    switch await socket(role).status {
    case .waitingForApproval(let requestID, let reason):
      return LinkError(
        .notConnected, "\(what): it waits for approval (\(reason)).",
        remedy: requestID.map { "On the gateway host: openclaw devices approve \($0)" })
    case .backingOff(_, let reason): return LinkError(.notConnected, "\(what): \(reason).")
    case .stopped(_, let summary, let remedy): return LinkError(.notConnected, "\(what): \(summary)", remedy: remedy)
    case .idle, .connecting, .connected: return LinkError(.notConnected, "\(what).")
    }
  }

  /// The session a person talks in when none is chosen: the gateway's main one, `main` as long as it has not said (protocol §3.7).
  public var mainSessionKey: String { mainSession ?? "main" }

  /// The events of one socket from now on, over all its connections; 256 (node) or 1024 (operator) may wait, then the oldest go.
  public nonisolated func events(of role: Role) -> AsyncStream<Frame.Event> {
    role == .node ? nodeEvents.listen() : operatorEvents.listen()
  }

  /// How the link is.
  public func status() -> LinkStatus { latest.withLock { $0 } }

  /// How the link is, now and after every change; only the newest waits.
  public nonisolated func statuses() -> AsyncStream<LinkStatus> {
    statusBroadcast.listen(first: latest.withLock { $0 })
  }

  // MARK: What the sockets tell

  private func hooks(_ role: Role) -> GatewaySocket.Hooks {
    GatewaySocket.Hooks(
      changed: { [weak self] in self?.later { await $0.publish() } },
      welcomed: { [weak self] hello, channel in self?.later { await $0.welcomed(role, hello, channel) } },
      event: { [weak self] event, channel in self?.assumeIsolated { $0.take(event, role, channel) } },
      gap: { [weak self] missed in
        self?.assumeIsolated { $0.deliver(Frame.Event(name: Self.gapEvent, payload: ["missed": .int(missed)]), role) }
      },
      removed: { [weak self] stop in self?.later { await $0.removed(role, stop) } })
  }

  private nonisolated func later(_ work: @escaping @Sendable (isolated GatewayLink) async -> Void) {
    Task { await work(self) }
  }

  private func welcomed(_ role: Role, _ hello: HelloOK, _ channel: GatewayChannel) async {
    serverVersion = hello.serverVersion
    mainSession = hello.mainSessionKey ?? mainSession
    guard isRunning else { return }
    if role == .node {
      await `operator`.startIfIdle()
      later {
        await $0.tellPresence(channel)
        await $0.publish()
      }
    }
    await describeNode()
    await publish()
  }

  /// A gateway that removed the device is not asked again, on neither socket.
  private func removed(_ role: Role, _ stop: Stop) async {
    await socket(role == .node ? .operator : .node).halt(stop)
  }

  private func take(_ event: Frame.Event, _ role: Role, _ channel: GatewayChannel) {
    if role == .node {
      switch event.name {
      case "node.invoke.request": return begin(event, channel)
      case "node.invoke.cancel":
        guard let id = event.payload?["invokeId"]?.string else { return }
        let cancelInvoke = cancelInvoke
        Task { await cancelInvoke(id) }
        return
      default: break
      }
    } else if event.name == "node.pair.resolved" || event.name == "node.pair.requested" {
      later { await $0.describeNode() }
    }
    deliver(event, role)
  }

  private func deliver(_ event: Frame.Event, _ role: Role) {
    (role == .node ? nodeEvents : operatorEvents).send(event)
  }

  // MARK: Invokes

  private func begin(_ event: Frame.Event, _ channel: GatewayChannel) {
    guard let request = InvokeRequest(payload: event.payload) else { return }
    // The same id twice on one connection is one invoke: it is answered once.
    let key = InvokeKey(channel: ObjectIdentifier(channel), id: request.id)
    guard invokes.count < Self.mostInvokes || invokes.contains(key) else {
      let error: JSON = [
        "code": "UNAVAILABLE", "message": "UNAVAILABLE: This node answers as many commands as it can.",
        "retryable": true,
        "retryAfterMs": 1000,
      ]
      Task { await channel.answer(request, .failure(error)) }
      return
    }
    guard invokes.insert(key).inserted else { return }
    Task { await carryOut(request, key, channel) }
  }

  private func carryOut(_ request: InvokeRequest, _ key: InvokeKey, _ channel: GatewayChannel) async {
    noteInvoked(request.command)
    let loop = loop
    await answer(request, await channel.payloadLimit) { outcome in
      loop.perform { self.assumeIsolated { $0.reply(to: request, key, channel, outcome) } }
    }
  }

  private func reply(to request: InvokeRequest, _ key: InvokeKey, _ channel: GatewayChannel, _ outcome: InvokeOutcome) {
    Task { await send(outcome, for: request, key, channel) }
  }

  /// On the connection that asked, or not at all (protocol §10.2).
  private func send(
    _ outcome: InvokeOutcome, for request: InvokeRequest, _ key: InvokeKey, _ channel: GatewayChannel
  ) async {
    await channel.answer(request, outcome)
    invokes.remove(key)
  }

  // MARK: Status

  /// Puts the status together and tells listeners when it has changed.
  func publish() async {
    publications += 1
    let publication = publications
    let nodeStatus = await node.status
    let operatorStatus = await `operator`.status
    let judged = surface.judge(nodeIsConnected: nodeStatus.isConnected)
    var status = LinkStatus(
      gatewayID: gateway.id, name: gateway.name, url: await node.url, serverVersion: serverVersion, node: nodeStatus,
      operator: operatorStatus, surface: judged.state, withheld: judged.withheld, effectiveCommands: judged.effective,
      presence: presence)
    status.missing = await missing(status)
    // A later one has read newer facts and must not be overwritten.
    if publication < published { return }
    published = publication
    let isNew = latest.withLock { latest in
      defer { latest = status }
      return latest != status
    }
    if isNew { statusBroadcast.send(status) }
  }

  private func missing(_ status: LinkStatus) async -> [MissingApproval] {
    var missing: [MissingApproval] = []
    if case .waitingForApproval(let requestID, let reason) = status.node {
      missing.append(
        MissingApproval(kind: .device, requestID: requestID, reason: reason, sinceMs: await node.waitingSinceMs))
    }
    if let approval = surface.missing(status) { missing.append(approval) }
    if case .waitingForApproval(let requestID, let reason) = status.operator {
      missing.append(
        MissingApproval(
          kind: .operator, requestID: requestID, reason: reason, sinceMs: await `operator`.waitingSinceMs))
    }
    return missing
  }
}
