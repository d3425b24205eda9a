import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@testable import GatewayClient

/// A node program at its desk: state of its own, a link to a gateway, and commands that answer. `DevGateway` has the other end.
actor Desk {
  let folder = TemporaryFolder()
  let state: StateFolder
  let identity: DeviceIdentity
  let registry: GatewayRegistry
  let loop: EventLoop
  private(set) var link: GatewayLink!
  var surface = NodeSurface(caps: ["device", "system"], commands: ["device.info", "system.notify"])
  private(set) var answered: [String: Int] = [:]
  private(set) var cancelled: [String] = []
  /// Ends an answer that waits; see `system.notify` with `{"hold":true}`.
  private var held: [String: CheckedContinuation<Void, Never>] = [:]

  init(loop: EventLoop) throws {
    self.loop = loop
    state = try folder.state()
    identity = try DeviceIdentity.loadOrCreate(in: state)
    registry = GatewayRegistry(state: state)
  }

  nonisolated var id: String { identity.id }

  static var quick: LinkTimings {
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
  func connect(
    _ offer: GatewayOffer, pin: [UInt8]? = nil, timings: LinkTimings = Desk.quick,
    clock: @escaping @Sendable () -> Moment = Moment.now
  ) async throws -> GatewayLink {
    var record = try await registry.add(offer)
    if let pin {
      try await registry.setPin(pin, for: offer.primary, of: record.id)
      record = try #require(await registry.gateway(record.id))
    }
    return await begin(record, timings: timings, clock: clock)
  }

  /// Begins a link to a stored gateway.
  @discardableResult
  func begin(
    _ record: GatewayRecord, timings: LinkTimings = Desk.quick, clock: @escaping @Sendable () -> Moment = Moment.now
  ) async -> GatewayLink {
    var options = LinkOptions()
    options.timings = timings
    options.clock = clock
    let link = GatewayLink(
      gateway: record, identity: identity, registry: registry, client: testClient, loop: loop, options: options,
      surface: { [weak self] in await self?.surface ?? NodeSurface() },
      answer: { [weak self] request, limit in
        await self?.answer(request, limit) ?? .failure(["code": "UNAVAILABLE", "message": "UNAVAILABLE: gone"])
      }, cancelInvoke: { [weak self] id in await self?.cancel(id) })
    self.link = link
    await link.start()
    return link
  }

  func setSurface(_ surface: NodeSurface) { self.surface = surface }

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

  func release(_ id: String) { held.removeValue(forKey: id)?.resume() }
  func isHolding(_ id: String) -> Bool { held[id] != nil }
  var holding: [String] { Array(held.keys) }

  func close() async {
    await link?.stop()
    for id in holding { release(id) }
  }

  var credentials: Credentials { get async { await registry.credentials(for: link.gateway.id) } }
}

/// A gateway and a desk on one loop, put away at the end.
func withHouse(
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
  func offer(token: String? = nil) throws -> GatewayOffer {
    try GatewayOffer(endpoint: try #require(Endpoint(url: url)), token: token ?? self.token)
  }

  func offer(_ profile: SetupProfile) throws -> GatewayOffer {
    try GatewayOffer(parsing: makeSetupCode(profile: profile).text, nowMs: WallClock.milliseconds())
  }

  /// Approves whatever is asked for, until `link` is complete: what a patient owner does.
  func approveAll(_ link: GatewayLink) async throws {
    try await eventually("all approvals are there") {
      for device in self.pendingDevices() { try? self.approveDevice(device.requestID) }
      for surface in self.pendingSurfaces() { try? self.approveSurface(surface.requestID) }
      return await link.status().isComplete
    }
  }
}
