/// LinkTestSupport: a node and a gateway for the tests of the link, on a real wire.
import DevGateway
import GatewayClient
import GatewayProtocol
import System
import TestSupport
import Transport

/// A node program at its desk: state of its own, a link to a gateway, and commands that answer. `DevGateway` has the other end.
public actor Desk {
  public nonisolated let folder = TemporaryFolder()
  public nonisolated let state: StateFolder
  public nonisolated let identity: DeviceIdentity
  public nonisolated let registry: GatewayRegistry
  public nonisolated let loop: EventLoop
  public private(set) var link: GatewayLink?
  public private(set) var surface = NodeSurface(
    caps: ["device", "system"], commands: ["device.info", "system.notify"])
  /// How often each invoke was carried out.
  public private(set) var answered: [String: Int] = [:]
  public private(set) var cancelled: [String] = []
  /// Answers that wait, because the params said `{"hold":true}`.
  private var held: [String: CheckedContinuation<Void, Never>] = [:]

  public init(loop: EventLoop) throws {
    self.loop = loop
    state = try StateFolder(path: folder("state"))
    identity = try DeviceIdentity.loadOrCreate(in: state)
    registry = GatewayRegistry(state: state)
  }

  public nonisolated var id: String { identity.id }

  /// Waits of milliseconds where a person would wait for seconds.
  public static var quick: LinkTimings {
    var timings = LinkTimings()
    timings.backOff = .milliseconds(20)
    timings.longestBackOff = .milliseconds(150)
    timings.stableSession = .milliseconds(100)
    timings.approvalPoll = .milliseconds(40)
    timings.longestApprovalPoll = .milliseconds(80)
    timings.surfacePoll = .milliseconds(30)
    timings.longestSurfacePoll = .milliseconds(60)
    timings.shortestTick = .milliseconds(50)
    return timings
  }

  /// Stores the gateway and begins a link to it.
  @discardableResult
  public func connect(
    _ offer: GatewayOffer, pin: [UInt8]? = nil, timings: LinkTimings = Desk.quick,
    clock: @escaping @Sendable () -> Moment = Moment.now
  ) async throws -> GatewayLink {
    var record = try await registry.add(offer)
    if let pin {
      try await registry.setPin(pin, for: offer.primary, of: record.id)
      record = await registry.gateway(record.id) ?? record
    }
    return await begin(record, timings: timings, clock: clock)
  }

  /// Begins a link to a stored gateway.
  @discardableResult
  public func begin(
    _ record: GatewayRecord, timings: LinkTimings = Desk.quick, clock: @escaping @Sendable () -> Moment = Moment.now
  ) async -> GatewayLink {
    var options = LinkOptions()
    options.timings = timings
    options.clock = clock
    let link = GatewayLink(
      gateway: record, identity: identity, registry: registry, client: testClient, loop: loop, options: options,
      surface: { [weak self] in await self?.surface ?? NodeSurface() },
      answer: { [weak self] request, limit, reply in
        reply(await self?.answer(request, limit) ?? .failure(["code": "UNAVAILABLE", "message": "UNAVAILABLE: gone"]))
      }, cancelInvoke: { [weak self] id in await self?.cancel(id) })
    self.link = link
    await link.start()
    return link
  }

  public func setSurface(_ surface: NodeSurface) { self.surface = surface }

  private func answer(_ request: InvokeRequest, _ limit: Int) async -> InvokeOutcome {
    answered[request.id, default: 0] += 1
    let params = request.paramsText.flatMap { try? JSON(parsing: $0) }
    if params?["hold"]?.bool == true {
      await withCheckedContinuation { held[request.id] = $0 }
    }
    if let size = params?["size"]?.int {
      return .success(JSON.object(["filler": .string(String(repeating: "x", count: Int(size)))]).encoded())
    }
    if params?["limit"]?.bool == true { return .success(JSON.object(["limit": .int(Int64(limit))]).encoded()) }
    if params?["fail"]?.bool == true { return .failure(["code": "DEMO_FAIL", "message": "DEMO_FAIL: no"]) }
    return .success(JSON.object(present: ["command": .string(request.command), "echo": params]).encoded())
  }

  private func cancel(_ id: String) {
    cancelled.append(id)
    release(id)
  }

  public func release(_ id: String) { held.removeValue(forKey: id)?.resume() }
  public func isHolding(_ id: String) -> Bool { held[id] != nil }
  public var holding: [String] { Array(held.keys) }

  public func close() async {
    await link?.stop()
    for id in holding { release(id) }
  }

  /// What is stored for the link's gateway.
  public var credentials: Credentials {
    get async {
      guard let link else { return Credentials() }
      return await registry.credentials(for: link.gateway.id)
    }
  }
}

/// How the node introduces itself.
public let testClient = ClientInfo(
  displayName: "Desk", version: "1.0.0", modelIdentifier: "x86_64", instanceID: "inst-1", locale: "en-GB",
  userAgent: "talknode/1.0.0 (linux)")

/// A gateway and a desk on one loop, put away at the end.
public func withHouse(
  _ change: (inout DevGateway.Options) -> Void = { _ in }, start: Bool = true,
  _ body: (DevGateway, Desk) async throws -> Void
) async throws {
  let loop = EventLoop(name: "test")
  defer { loop.stop() }
  var options = DevGateway.Options()
  options.allow = ["device.info"]
  change(&options)
  let gateway = DevGateway(options: options, loop: loop)
  if start { try await gateway.start() }
  let desk = try Desk(loop: loop)
  do {
    try await body(gateway, desk)
  } catch {
    await desk.close()
    await gateway.crash()
    throw error
  }
  await desk.close()
  await gateway.crash()
}

extension DevGateway {
  /// The offer of a person who copied the URL and the shared token.
  public func offer(token: String? = nil) throws -> GatewayOffer {
    try GatewayOffer(parsing: url, nowMs: WallClock.milliseconds(), token: token ?? self.token)
  }

  /// The offer of a setup code.
  public func offer(_ profile: SetupProfile) throws -> GatewayOffer {
    try GatewayOffer(parsing: makeSetupCode(profile: profile).text, nowMs: WallClock.milliseconds())
  }

  /// Approves whatever is asked for, until `link` is complete: what a patient owner does. False when that does not happen.
  public func approveAll(_ link: GatewayLink) async -> Bool {
    await eventually(within: .seconds(20)) {
      for device in self.pendingDevices() { try? self.approveDevice(device.requestID) }
      for surface in self.pendingSurfaces() { try? self.approveSurface(surface.requestID) }
      return await link.status().isComplete
    }
  }
}

extension GatewayOffer {
  init(parsing text: String, nowMs: Int64, token: String) throws {
    try self.init(parsing: text, nowMs: nowMs)
    self.token = token
  }
}
