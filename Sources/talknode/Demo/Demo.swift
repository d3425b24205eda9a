import Configuration
import Crypto
import DevGateway
import GatewayClient
import GatewayProtocol
import Glibc
import NodeKit
import System
import Transport

/// The whole program shown on one machine: a gateway on loopback, this node pairing with it as a stranger, and the gateway's agent
/// calling every command of every module over the real wire.
struct Demo: Sendable {
  /// How one step ended.
  struct Outcome: Sendable, Equatable {
    enum Status: String, Sendable { case ok, skipped, failed }
    let name: String
    let status: Status
    let source: DemoStep.Source
    let asked: String
    let detail: String
    let remedy: String?
    let milliseconds: Double

    /// The issue of one step a command: keys that stay.
    var json: JSON {
      .object(present: [
        "name": .string(name), "status": .string(status.rawValue), "source": .string(source.rawValue),
        "detail": .string(detail), "remedy": remedy.map(JSON.string), "ms": .double((milliseconds * 10).rounded() / 10),
      ])
    }
  }

  /// What is told while it runs.
  enum News: Sendable {
    case gateway(String)
    case approval(String)
    case step(Outcome)
  }

  let stage: Stage
  let loop: EventLoop
  let tell: @Sendable (News) -> Void

  private static let patience: Duration = .seconds(15)

  /// Runs all of it and returns the steps and what is known of the gateway.
  func run() async throws(Failure) -> (steps: [Outcome], gateway: JSON) {
    var skips: [String: Skip] = [:]
    for demonstration in Modules.demonstrations {
      do throws(Skip) { try await demonstration.prepare(stage) } catch {
        skips[demonstration.capability.rawValue] = error
      }
    }
    let node = try await makeNode()
    let modules = node.router.modules
    let gateway = try await startGateway(modules)
    await stage.atEnd {
      await node.stop()
      await gateway.stop()
    }
    await stage.enter(node, gateway)
    let url = await gateway.url
    tell(.gateway(url))
    try await introduce(node, to: gateway)
    let approvals = try await pair(node, with: gateway)
    var outcomes: [Outcome] = []
    for module in modules {
      let demonstration = Modules.demonstrations.first { $0.capability == module.capability }
      let planned = demonstration?.steps(stage) ?? []
      for command in module.commands {
        let step = planned.first { $0.command == command.name } ?? DemoStep(command.name)
        let outcome = await show(step, of: module, skips[module.capability.rawValue], node, gateway)
        tell(.step(outcome))
        outcomes.append(outcome)
      }
    }
    return (
      outcomes, ["url": .string(url), "nodeId": .string(node.identity.id), "approvals": .array(approvals)]
    )
  }

  // MARK: The two sides

  private func makeNode() async throws(Failure) -> Node {
    let instance = Instance(state: stage.folder + "/state", environment: stage.environment)
    try instance.makeFolder()
    let node = try Node(instance, settings: await stage.settings, environment: stage.environment, loop: loop)
    // In the demo's own state folder everything may be used: it is this person who watches.
    for consent in node.router.modules.consents {
      do { try node.switches.set(consent.name, enabled: true) } catch {
        throw Failure("STATE_UNUSABLE", error.summary, remedy: error.remedy, exit: .ioError)
      }
    }
    return node
  }

  private func startGateway(_ modules: [any CapabilityModule]) async throws(Failure) -> DevGateway {
    var options = await stage.gatewayOptions
    options.autoApprove = false
    options.allow = modules.flatMap(\.commands).filter { $0.gatewayDefault != .allowed }.map(\.name)
    let gateway = DevGateway(options: options, loop: loop)
    do throws(DevGatewayError) { try await gateway.start() } catch {
      throw Failure("GATEWAY", "The demo's gateway can't listen on loopback.", cause: error.summary, exit: .system)
    }
    return gateway
  }

  private func introduce(_ node: Node, to gateway: DevGateway) async throws(Failure) {
    let pairing = Pairing(registry: node.registry, loop: loop)
    do throws(LinkError) {
      var offer = try await pairing.offer(parsing: await gateway.url)
      offer.token = gateway.token
      _ = try await pairing.prepare(offer)
    } catch {
      throw Failure(error)
    }
    await node.start()
  }

  // MARK: Pairing

  /// Approves, as the gateway's owner would, what this node asks for, one after the other.
  private func pair(_ node: Node, with gateway: DevGateway) async throws(Failure) -> [JSON] {
    var approvals: [JSON] = []
    func approve(
      _ kind: MissingApproval.Kind, _ name: String, _ find: @Sendable () async -> String?,
      _ act: (String) async throws(WireError) -> Void
    ) async throws(Failure) {
      let began = Monotonic.now()
      guard let id = await until(Self.patience, find) else {
        throw Failure(
          "DEMO_PAIRING", "The node did not ask for \(name).", cause: await node.status().sentence,
          exit: .software)
      }
      do throws(WireError) { try await act(id) } catch {
        throw Failure("DEMO_PAIRING", "The gateway did not approve \(name).", cause: error.message, exit: .software)
      }
      tell(.approval("\(name): asked for as \(id), given"))
      approvals.append([
        "kind": .string(kind.rawValue), "requestId": .string(id),
        "ms": .double(((Monotonic.now() - began).milliseconds * 10).rounded() / 10),
      ])
    }
    let device = node.identity.id
    try await approve(
      .device, "this device", { await gateway.pendingDevices().first { $0.deviceID == device }?.requestID },
      { id throws(WireError) in try await gateway.approveDevice(id) })
    try await approve(
      .surface, "its commands", { await gateway.pendingSurfaces().first { $0.nodeID == device }?.requestID },
      { id throws(WireError) in try await gateway.approveSurface(id) })
    try await approve(
      .operator, "the operator role", { await gateway.pendingDevices().first { $0.deviceID == device }?.requestID },
      { id throws(WireError) in try await gateway.approveDevice(id) })
    let isReady = await until(Self.patience) { await node.status().isReady ? true : nil }
    if isReady == nil {
      throw Failure(
        "DEMO_PAIRING", "The node has its approvals and is not ready.", cause: await node.status().sentence,
        exit: .software)
    }
    return approvals
  }

  private func until<Value: Sendable>(
    _ limit: Duration, _ find: @Sendable () async -> Value?
  ) async -> Value? {
    let end = Monotonic.now() + limit
    while Monotonic.now() < end {
      if let value = await find() { return value }
      do { try await Task.sleep(for: .milliseconds(10)) } catch { return nil }
    }
    return nil
  }

  // MARK: A step

  private func show(
    _ step: DemoStep, of module: any CapabilityModule, _ skip: Skip?, _ node: Node, _ gateway: DevGateway
  ) async -> Outcome {
    func outcome(
      _ status: Outcome.Status, _ detail: String, remedy: String? = nil, since began: Duration? = nil
    ) -> Outcome {
      Outcome(
        name: step.command, status: status, source: step.source, asked: DemoStep.short(step.params), detail: detail,
        remedy: remedy, milliseconds: began.map { (Monotonic.now() - $0).milliseconds } ?? 0)
    }
    if let skip { return outcome(.skipped, skip.reason, remedy: skip.remedy) }
    await step.before()
    let began = Monotonic.now()
    let meanwhile = Task { await step.meanwhile() }
    defer { meanwhile.cancel() }
    do throws(WireError) {
      let payload = try await gateway.invoke(
        nodeID: node.identity.id, command: step.command, params: step.params, timeoutMs: 60_000,
        idempotencyKey: Random.uuid())
      let end = outcome(.ok, "", since: began).milliseconds
      do throws(DemoStep.Flaw) {
        let detail = try await step.describe(payload)
        return Outcome(
          name: step.command, status: .ok, source: step.source, asked: DemoStep.short(step.params), detail: detail,
          remedy: nil, milliseconds: end)
      } catch {
        return outcome(.failed, error.sentence, since: began)
      }
    } catch {
      if let lack = step.lacks.first(where: { error.message.contains($0) }) {
        return outcome(
          .skipped, error.message.replacing("\(lack): ", with: ""),
          remedy: "With a device that can: talknode demo --live", since: began)
      }
      // What this machine lacks is no failure of the program; the same error from a module that says it is ready is one.
      if case .absent(let reason, let remedy) = await module.availability() {
        return outcome(.skipped, reason, remedy: remedy, since: began)
      }
      return outcome(.failed, error.message, since: began)
    }
  }
}
