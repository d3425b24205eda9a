import Configuration
import Conversation
import Crypto
import DeviceModule
import GatewayClient
import GatewayProtocol
import Glibc
import LocationModule
import NodeKit
import System
import Transport
import Triggers

/// One device: its identity, the gateways it knows, the modules that answer for it, and the link to the active gateway. `run` serves it
/// to the control socket, `pair` waits for its approvals, `demo` shows it, `invoke` asks it without a gateway.
actor Node {
  nonisolated let instance: Instance
  nonisolated let loop: EventLoop
  nonisolated let identity: DeviceIdentity
  nonisolated let registry: GatewayRegistry
  nonisolated let router: CommandRouter
  nonisolated let switches: SwitchStore
  nonisolated let audit: AuditLog
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private let startedAtMs = WallClock.milliseconds()
  private let environment: Environment
  nonisolated let services: Services
  private let signs: UseSigns
  private var settings: Settings
  private let atStart: Settings
  private var gateway: GatewayRecord?
  private var link: GatewayLink?
  private var linkStatus: LinkStatus?
  /// The link is being changed; who waits for a turn at it.
  private var isChanging = false
  private var turns: [CheckedContinuation<Void, Never>] = []
  private var pump: Task<Void, Never>?
  private var talkPump: Task<Void, Never>?
  private var talkKey: KeyTrigger?
  private var talkShortcut: ShortcutTrigger?
  private var talkPhase = TalkNotice.Phase.idle
  private var observers: [UInt64: AsyncStream<NodeStatus>.Continuation] = [:]
  private var lastObserver: UInt64 = 0
  private var lastTold: NodeStatus?

  init(_ instance: Instance, settings: Settings, environment: Environment, loop: EventLoop) throws(Failure) {
    do throws(LinkError) {
      let state = try StateFolder(path: instance.state)
      identity = try DeviceIdentity.loadOrCreate(in: state)
      registry = GatewayRegistry(state: state)
    } catch {
      throw Failure(error)
    }
    self.instance = instance
    self.settings = settings
    atStart = settings
    self.environment = environment
    self.loop = loop
    audit = AuditLog(path: instance.audit)
    services = Services(instance, settings: settings, environment: environment, loop: loop)
    switches = services.switches
    signs = UseSigns(settings.signs, notifier: services.notifier, environment: environment, loop: loop)
    router = CommandRouter(
      modules: Modules.all(settings, services), switches: switches,
      audit: audit,
      sign: { [signs] in await signs.show($0) }, loop: loop)
  }

  // MARK: Life

  /// Starts the modules, which no invoke of another waits for, and the link to the active gateway.
  func start() async {
    Task { await router.start() }
    let notices = await services.talk.notices()
    let sign = settings.talk.showTranscriptOrDefault ? TranscriptSign(notifier: services.notifier) : nil
    talkPump = Task {
      for await notice in notices {
        took(notice)
        await sign?.took(notice)
      }
    }
    talkKey = KeyTrigger.made(settings.talkKey, services.talk, loop: loop)
    if let problem = await talkKey?.start() { Log.warning("The talk key does not work yet. \(problem)") }
    talkShortcut = ShortcutTrigger.made(
      settings.talkShortcut, services.talk, address: services.sessionBus.address, loop: loop)
    await talkShortcut?.start()
    await takeTurn()
    await connect()
    giveTurn()
  }

  /// Ends the link, then what runs, then the devices.
  func stop() async {
    talkPump?.cancel()
    await talkKey?.stop()
    await talkShortcut?.stop()
    await takeTurn()
    await disconnect()
    await router.stop()
    await services.close()
    for observer in observers.values { observer.finish() }
    observers = [:]
  }

  /// Takes over settings that were read anew, as far as they need no new start, and names those that wait for one. The link is opened
  /// again only when it would say or do something else.
  func apply(_ new: Settings) async -> [String] {
    await takeTurn()
    defer { giveTurn() }
    let old = settings
    settings = new
    signs.choose(new.signs)
    for case let device as DeviceModule in router.modules { device.rename(new.node.displayNameOrDefault) }
    services.location.choose(LocationModule.Privacy(new.location))
    await services.talk.transcribers.choose(TalkOptions.TranscriberChoice(new.talk.transcriberOrDefault))
    let isOther =
      old.node.displayNameOrDefault != new.node.displayNameOrDefault
      || old.gateway.headersOrDefault != new.gateway.headersOrDefault
    await reloadSwitches()
    let active = await registry.active()
    if isOther || gateway?.id != active?.id { await connect() } else { await link?.surfaceChanged() }
    return new.differences(from: atStart).filter { name in
      !Self.countAtOnce.contains(name) && !name.hasPrefix("signs.") && !name.hasPrefix("log.")
    }
  }

  /// Settings that `apply` takes over, beside `[signs]` and `[log]`.
  private static let countAtOnce: Set<String> = [
    "node.display_name", "gateway.headers", "location.round_to_meters", "talk.transcriber",
  ]

  // MARK: Gateways

  /// What changes the link is done one after the other: each waits for the farewell of the link before, and two at once would leave one
  /// that nobody knows and nobody stops. After `stop` nobody gets a turn any more.
  private func takeTurn() async {
    if !isChanging {
      isChanging = true
      return
    }
    await withCheckedContinuation { turns.append($0) }
  }

  private func giveTurn() {
    if turns.isEmpty { isChanging = false } else { turns.removeFirst().resume() }
  }

  /// Connects to the active gateway anew.
  private func connect() async {
    await disconnect()
    gateway = await registry.active()
    guard let gateway else { return changed() }
    let router = router
    let link = GatewayLink(
      gateway: gateway, identity: identity, registry: registry, client: clientInfo, loop: loop, options: linkOptions,
      surface: { await router.surface() },
      answer: { await router.handle($0, from: .gateway(gateway.id), payloadLimit: $1, answer: $2) },
      cancelInvoke: { await router.cancel($0) })
    self.link = link
    services.link.current = link
    // Known at once: a node that is asked before the first change would call itself unpaired.
    let status = await link.status()
    guard self.link === link else { return }
    took(status)
    let statuses = link.statuses()
    pump = Task { for await status in statuses { took(status) } }
    await link.start()
  }

  private func disconnect() async {
    pump?.cancel()
    pump = nil
    let old = link
    link = nil
    services.link.current = nil
    if let old { await services.talk.left(old) }
    linkStatus = nil
    await old?.stop()
  }

  func use(_ id: String) async throws(Failure) {
    await takeTurn()
    defer { giveTurn() }
    do { try await registry.use(id) } catch { throw Failure(error) }
    // What another gateway's agent said is not read on.
    if gateway?.id != id { await services.talk.hush() }
    await connect()
  }

  func forget(_ id: String) async throws(Failure) {
    await takeTurn()
    defer { giveTurn() }
    // The link first: it would write a token that comes in at the last moment into a folder that is gone.
    if gateway?.id == id { await disconnect() }
    do { try await registry.forget(id) } catch { throw Failure(error) }
    do { try await services.talk.kept.forget(gateway: id) } catch {
      throw Failure(storing: error)
    }
    if gateway?.id == id { await connect() }
  }

  // MARK: Switches

  /// Turns a capability on or off, tells the gateway, and returns the status once the gateway has looked at the new surface, at the
  /// latest after 6 s.
  func turn(_ name: String, on: Bool) async throws(Failure) -> NodeStatus {
    let declared = await router.surface()
    do { _ = try await router.modules.turn(name, on: on, in: switches) } catch {
      throw Failure("STATE_UNUSABLE", error.summary, remedy: error.remedy, exit: .ioError)
    }
    await router.switchesChanged()
    if !on { for module in router.modules where module.has(switch: name) { await module.forget() } }
    changed()
    // A switch that is not a command's own changes nothing that the gateway is told.
    guard let link, await router.surface() != declared else { return status() }
    let before = await link.status()
    await link.surfaceChanged()
    guard before.node.isConnected else { return status() }
    let observer = statuses()
    _ = try? await withDeadline(.seconds(6)) {
      var hasLeft = false
      for await status in observer {
        guard let link = status.link else { return }
        if link.node != before.node { hasLeft = true }
        // Until the operator socket has asked, it is not known what the gateway made of the new surface.
        let isLookedAt = link.surface != .unknown || !link.operator.isConnected
        if hasLeft && link.node.isConnected && isLookedAt { return }
      }
    }
    return status()
  }

  /// Switches that another process has turned. What is off now ends, as if it had been turned here.
  private func reloadSwitches() async {
    let wereOn = router.modules.consents.filter(switches.isEnabled)
    switches.reload()
    await router.switchesChanged()
    for consent in wereOn where !switches.isEnabled(consent) {
      for module in router.modules where module.has(switch: consent.name) { await module.forget() }
    }
  }

  // MARK: Status

  func status() -> NodeStatus {
    NodeStatus(
      version: Version.number, pid: getpid(), startedAtMs: startedAtMs, state: instance.state, deviceID: identity.id,
      displayName: settings.node.displayNameOrDefault, link: linkStatus, talk: talkPhase, triggers: triggers,
      capabilities: CapabilityState.all(router.modules, switches))
  }

  /// They are on this actor's loop.
  private var triggers: [TriggerState] {
    [talkKey?.assumeIsolated { $0.state }, talkShortcut?.assumeIsolated { $0.state }].compactMap { $0 }
  }

  /// The status now and at each change; who is slow gets the newest.
  func statuses() -> AsyncStream<NodeStatus> {
    lastObserver += 1
    let id = lastObserver
    let (stream, continuation) = AsyncStream.makeStream(of: NodeStatus.self, bufferingPolicy: .bufferingNewest(1))
    continuation.onTermination = { [weak self] _ in Task { await self?.leave(id) } }
    observers[id] = continuation
    continuation.yield(status())
    return stream
  }

  private func leave(_ id: UInt64) { observers[id] = nil }

  private func took(_ status: LinkStatus) {
    if link == nil || linkStatus == status { return }
    if linkStatus?.node.isConnected == true && !status.node.isConnected {
      // A capture that an agent opened has lost its owner.
      Task { [talk = services.talk] in await talk.gatewayGone(status.gatewayID) }
    }
    linkStatus = status
    changed()
  }

  private func took(_ notice: TalkNotice) {
    guard case .phase(let phase) = notice, phase != talkPhase else { return }
    talkPhase = phase
    changed()
  }

  /// The link to the active gateway, when there is one.
  var activeLink: GatewayLink? { link }

  private func changed() {
    let status = status()
    if status == lastTold { return }
    lastTold = status
    for observer in observers.values { observer.yield(status) }
  }

  // MARK: Asking the router

  /// Runs a command for a person at this machine. `timeoutMs` 0 leaves the time to the module.
  func invoke(_ command: String, params: JSON?, timeoutMs: Int64?) async -> InvokeOutcome {
    let request = InvokeRequest(
      id: Random.uuid(), nodeID: identity.id, command: command, paramsText: params?.encoded(), timeoutMs: timeoutMs)
    return await router.handle(request, from: .local, payloadLimit: ProtocolLimits.payload)
  }

  private var linkOptions: LinkOptions {
    var options = LinkOptions()
    options.headers = settings.gateway.headerFields
    options.proxy = { [variables = environment.variables] in Proxy.fromEnvironment(variables, for: $0) }
    return options
  }

  private var clientInfo: ClientInfo {
    let device = router.modules.lazy.compactMap { $0 as? DeviceModule }.first
    return ClientInfo(
      displayName: settings.node.displayNameOrDefault, version: Version.number,
      modelIdentifier: device?.modelIdentifier ?? "",
      instanceID: String(identity.id.prefix(32)), locale: device?.languageTag, userAgent: Version.userAgent)
  }
}
