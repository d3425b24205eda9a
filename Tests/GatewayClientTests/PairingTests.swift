import Crypto
import DevGateway
import GatewayProtocol
import LinkTestSupport
import System
import Testing
import Transport

@testable import GatewayClient

extension LinkStatus {
  func request(_ kind: MissingApproval.Kind) -> String? { missing.first { $0.kind == kind }?.requestID }
  func isMissing(_ kind: MissingApproval.Kind) -> Bool { missing.contains { $0.kind == kind } }
}

extension SocketStatus {
  var stopCode: String? { if case .stopped(let code, _, _) = self { code } else { nil } }
}

@Suite("Pairing with a gateway")
struct PairingTests {
  @Test("on the gateway's own machine needs nobody")
  func silent() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let sessions = await gateway.sessions()
      #expect(Set(sessions.map(\.role)) == [.node, .operator])
      for session in sessions {
        #expect(session.deviceID == desk.id)
        #expect(session.clientID == (session.role == .node ? "node-host" : "gateway-client"))
        #expect(session.clientMode == (session.role == .node ? "node" : "ui"))
        #expect(session.scopes == (session.role == .node ? [] : ["operator.read", "operator.write"]))
      }
      let status = await link.status()
      #expect(status.effectiveCommands == ["device.info", "system.notify"] && status.withheld.isEmpty)
      #expect(status.serverVersion == "2026.5.31-dev")
      try await eventually("presence was told") { await link.status().presence == "persisted" }
      let alive = try #require(await gateway.receivedEvents(named: "node.presence.alive").first)
      #expect(alive.payload?["trigger"] == "connect" && alive.payload?["platform"] == "linux")
      // Both tokens are kept.
      let tokens = await desk.credentials.deviceTokens
      #expect(tokens[.node]?.scopes == [] && tokens[.operator]?.scopes == ["operator.read", "operator.write"])
    }
  }

  @Test("as a stranger waits for three approvals, names each, and goes on by itself")
  func stranger() async throws {
    try await withHouse {
      $0.autoApprove = false
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      var progress = PairingProgress()
      var steps: [PairingEvent] = []
      func look() async -> LinkStatus {
        let status = await link.status()
        steps += progress.on(status)
        return status
      }
      // 1. The device.
      try await eventually("the device waits") { await look().request(.device) != nil }
      let device = try #require(await gateway.pendingDevices().first)
      #expect(device.deviceID == desk.id && device.role == "node")
      #expect(device.platform == "linux" && device.deviceFamily == "Linux")
      var status = await look()
      #expect(status.request(.device) == device.requestID)
      #expect(status.node == .waitingForApproval(requestID: device.requestID, reason: "not-paired"))
      #expect(status.operator == .idle)
      try await gateway.approveDevice(device.requestID)

      // 2. The operator role, in a request of its own; the surface is pending too.
      try await eventually("the operator waits") { await look().request(.operator) != nil }
      let role = try #require(await gateway.pendingDevices().first)
      status = await look()
      #expect(status.request(.operator) == role.requestID && role.requestID != device.requestID)
      #expect(status.operator == .waitingForApproval(requestID: role.requestID, reason: "role-upgrade"))
      #expect(role.scopes == ["operator.read", "operator.write"])
      guard case .connected(let since) = status.node else {
        Issue.record("\(status.node)")
        return
      }
      #expect(status.surface == .unknown && status.isMissing(.surface) && status.request(.surface) == nil)
      try await gateway.approveDevice(role.requestID)

      // 3. The surface, now that the operator can ask.
      try await eventually("the surface waits") { await look().request(.surface) != nil }
      let surface = try #require(await gateway.pendingSurfaces().first)
      status = await look()
      #expect(status.request(.surface) == surface.requestID && status.surface == .pending)
      #expect(Set(status.withheld.map(\.reason)) == [.notApproved] && status.effectiveCommands == [])
      try await gateway.approveSurface(surface.requestID)
      try await eventually("all is there") { await look().isComplete }
      status = await look()
      // The node socket was never disturbed.
      #expect(status.node == .connected(sinceMs: since))
      #expect(status.effectiveCommands == ["device.info", "system.notify"])

      let told = steps.compactMap { step -> String? in
        switch step {
        case .missing(let approval): "missing \(approval.kind) \(approval.requestID == nil ? "?" : "id")"
        case .approved(let kind): "approved \(kind)"
        case .complete: "complete"
        default: nil
        }
      }
      #expect(told.filter { $0.contains("device") } == ["missing device id", "approved device"])
      #expect(told.filter { $0.contains("operator") } == ["missing operator id", "approved operator"])
      #expect(
        told.filter { $0.contains("surface") } == ["missing surface ?", "missing surface id", "approved surface"])
      #expect(told.last == "complete")
    }
  }

  @Test("goes on waiting through rejections and pauses, and shows the newest request")
  func rejected() async throws {
    try await withHouse {
      $0.autoApprove = false
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("the device waits") { await link.status().request(.device) != nil }
      let first = try #require(await link.status().request(.device))
      try await gateway.rejectDevice(first)
      try await eventually("it has asked anew") {
        let request = await link.status().request(.device)
        return request != nil && request != first
      }
      await gateway.refuseConnects(
        Refusal(
          WireError(
            code: "NOT_PAIRED", message: "pairing required: device is not approved yet",
            details: [
              "code": "PAIRING_REQUIRED", "reason": "not-paired", "requestId": "paused-1", "pauseReconnect": true,
            ])),
        times: 3)
      try await eventually("the pause is waited out") { await link.status().request(.device) == "paused-1" }
      #expect(await gateway.approveAll(link))
    }
  }

  @Test("by a node code lets the node in alone, and says what the operator needs")
  func nodeCode() async throws {
    try await withHouse {
      $0.autoApprove = false
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer(.node))
      try await eventually("the node is in") { await link.status().node.isConnected }
      try await eventually("the operator says what is missing") {
        await link.status().operator.stopCode == "OPERATOR_CREDENTIAL_MISSING"
      }
      let credentials = await desk.credentials
      #expect(credentials.bootstrapToken == nil && credentials.deviceTokens[.node] != nil)
      #expect(try await gateway.invoke(nodeID: desk.id, command: "device.info")["command"] == "device.info")
      // The owner gives the token once: the operator asks for its role and both halves work.
      try await desk.registry.add(gateway.offer())
      await link.stop()
      let again = await desk.begin(try #require(await desk.registry.active()))
      try await eventually("the operator asks") { await again.status().request(.operator) != nil }
      #expect(await gateway.approveAll(again))
      #expect(Set(await gateway.sessions().map(\.role)) == [.node, .operator])
    }
  }

  @Test("by a full code asks once for both halves, and needs no shared token ever")
  func fullCode() async throws {
    try await withHouse {
      $0.autoApprove = false
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer(.full))
      try await eventually("the device waits") { await link.status().request(.device) != nil }
      #expect(Set(await gateway.pendingDevices().first?.roles ?? []) == ["node", "operator"])
      #expect(await gateway.approveAll(link))
      let credentials = await desk.credentials
      #expect(credentials.sharedToken == nil && credentials.bootstrapToken == nil)
      #expect(credentials.deviceTokens.count == 2)
      // And again with the tokens alone.
      await link.stop()
      let again = await desk.begin(link.gateway)
      try await eventually("both halves are back") { await again.status().isComplete }
      #expect(await gateway.sessions().allSatisfy { $0.method == "deviceToken" })
      #expect(await gateway.pendingDevices().isEmpty)
    }
  }

  @Test("by a code whose time is over, or that another device has used, stops and says so")
  func usedUp() async throws {
    try await withHouse { gateway, desk in
      var offer = try await gateway.offer(.node)
      offer.bootstrapToken = "used-up-" + Random.token()
      let link = try await desk.connect(offer)
      try await eventually("the node has stopped") {
        await link.status().node.stopCode == "AUTH_BOOTSTRAP_TOKEN_INVALID"
      }
      #expect(await desk.credentials.bootstrapToken == nil)
      #expect(await link.status().operator == .idle)
    }
  }

  @Test("withheld commands are named with their reasons")
  func withheld() async throws {
    try await withHouse {
      $0.allow = []
    } _: { gateway, desk in
      await desk.setSurface(
        NodeSurface(caps: ["camera", "device", "system"], commands: ["camera.snap", "device.info", "system.notify"]))
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let status = await link.status()
      #expect(status.effectiveCommands == ["system.notify"])
      #expect(status.withheld.map(\.command) == ["camera.snap", "device.info"])
      #expect(status.withheld.map(\.reason) == [.dangerous, .notAllowlisted])
    }
  }

  @Test("a changed surface reconnects the node alone and names the approval that is pending")
  func surfaceChanged() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      guard case .connected(let since) = await link.status().operator else { return }
      await desk.setSurface(
        NodeSurface(caps: ["device", "system", "talk"], commands: ["device.info", "system.notify", "talk.ptt.once"]))
      await link.surfaceChanged()
      try await eventually("the new surface waits") { await link.status().request(.surface) != nil }
      var status = await link.status()
      #expect(status.withheld.map(\.command) == ["talk.ptt.once"] && status.surface == .pending)
      #expect(status.missing.first { $0.kind == .surface }?.reason == "surface-changed")
      #expect(status.operator == .connected(sinceMs: since))
      try await gateway.approveSurface(try #require(status.request(.surface)))
      try await eventually("and is approved") { await link.status().isComplete }
      status = await link.status()
      #expect(status.effectiveCommands == ["device.info", "system.notify", "talk.ptt.once"])
      #expect(status.operator == .connected(sinceMs: since))
    }
  }

  // MARK: Preparing

  @Test("takes the first route that answers, and the primary's fingerprint only for the primary")
  func routes() async throws {
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    try await withHouse { gateway, desk in
      let dead = try #require(Endpoint(url: "wss://127.0.0.1:1"))
      let live = try #require(Endpoint(url: await gateway.url))
      let code = JSON.object([
        "url": .string(dead.description), "urls": .strings([dead.description, live.description]),
        "tlsFingerprint": .string(hexadecimal(sha256([1]))), "bootstrapToken": "t",
      ])
      let steps = Lock<[PairingEvent]>([])
      let pairing = Pairing(registry: desk.registry, loop: loop, report: { step in steps.withLock { $0.append(step) } })
      let record = try await pairing.prepare(try await pairing.offer(parsing: Base64.encodeURL(code.encoded())))
      #expect(record.id == "manual|127.0.0.1|1" && record.endpoint == live && record.pin == nil)
      #expect(record.pins[dead.authority] == sha256([1]))
      #expect(
        steps.withLock { $0 } == [
          .route(url: dead.description, answers: false), .route(url: live.description, answers: true),
          .stored(id: record.id, url: live.description),
        ])
    }
  }

  @Test("asks about a certificate that nobody vouches for, and trusts what a person or the code says")
  func certificates() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["127.0.0.1"])
    try await withHouse {
      $0.tls = identity
    } _: { gateway, desk in
      let offer = try await gateway.offer()
      let seen = identity.fingerprint
      func pairing(trusted: [UInt8]? = nil, answer: Bool = false, _ asked: Lock<Int> = Lock(0)) -> Pairing {
        Pairing(
          registry: desk.registry, loop: desk.loop, trusted: trusted,
          ask: { question in
            asked.withLock { $0 += 1 }
            return answer && question.fingerprint == seen && question.previous == nil
          })
      }
      let asked = Lock(0)
      await #expect(throws: LinkError.self) { try await pairing(asked).prepare(offer) }
      #expect(asked.withLock { $0 } == 1)
      #expect(await desk.registry.list().isEmpty, "nothing is stored before trust is settled")
      let wrong = await #expect(throws: LinkError.self) { try await pairing(trusted: sha256([9])).prepare(offer) }
      #expect(wrong?.code == .pinMismatch)
      var coded = offer
      coded.fingerprint = sha256([9])
      let other = await #expect(throws: LinkError.self) { try await pairing().prepare(coded) }
      #expect(other?.code == .pinMismatch)

      #expect(try await pairing(answer: true).prepare(offer).pin == seen)
      // Known now: nobody is asked again.
      let again = Lock(0)
      #expect(try await pairing(again).prepare(offer).pin == seen)
      #expect(again.withLock { $0 } == 0)
      try await desk.registry.forget(GatewayRecord.id(of: offer.primary))
      #expect(try await pairing(trusted: seen).prepare(offer).pin == seen)
      try await desk.registry.forget(GatewayRecord.id(of: offer.primary))
      coded.fingerprint = seen
      #expect(try await pairing().prepare(coded).pin == seen)

      let link = await desk.begin(try #require(await desk.registry.active()))
      try await eventually("both sockets are up over TLS") { await link.status().isComplete }
    }
  }

  @Test("keeps the pin when a certificate is swapped for one that nobody vouches for")
  func swappedWhilePairing() async throws {
    let first = try ServerIdentity.selfSigned(names: ["127.0.0.1"])
    try await withHouse {
      $0.tls = first
    } _: { gateway, desk in
      let offer = try await gateway.offer()
      _ = try await Pairing(registry: desk.registry, loop: desk.loop, trusted: first.fingerprint).prepare(offer)
      let second = try ServerIdentity.selfSigned(names: ["127.0.0.1"])
      try await gateway.swapCertificate(to: second)
      let pairing = Pairing(registry: desk.registry, loop: desk.loop, ask: { _ in true })
      let error = await #expect(throws: LinkError.self) { try await pairing.prepare(offer) }
      #expect(error?.code == .pinMismatch)
      #expect(await desk.registry.active()?.pin == first.fingerprint)
      // Only a person who names the new one changes it.
      let told = Pairing(registry: desk.registry, loop: desk.loop, trusted: second.fingerprint)
      #expect(try await told.prepare(offer).pin == second.fingerprint)
    }
  }

  @Test("stores a gateway that is away, so that the link can go on trying")
  func away() async throws {
    try await withHouse(start: false) { gateway, desk in
      let endpoint = try #require(Endpoint(url: "wss://127.0.0.1:1"))
      let pairing = Pairing(registry: desk.registry, loop: desk.loop)
      let record = try await pairing.prepare(GatewayOffer(endpoint: endpoint, token: "t"))
      #expect(record.pin == nil && record.endpoint == endpoint)
      let link = await desk.begin(record)
      try await eventually("it tries") {
        if case .backingOff = await link.status().node { true } else { false }
      }
    }
  }

  @Test("refuses an old code and a fingerprint for a gateway without TLS")
  func refusedEarly() async throws {
    try await withHouse { gateway, desk in
      var offer = try await gateway.offer()
      let trusting = Pairing(registry: desk.registry, loop: desk.loop, trusted: sha256([1]))
      #expect(await #expect(throws: LinkError.self) { try await trusting.prepare(offer) }?.code == .offerInvalid)
      offer.expiresAtMs = 5
      let pairing = Pairing(registry: desk.registry, loop: desk.loop)
      #expect(await #expect(throws: LinkError.self) { try await pairing.prepare(offer) }?.code == .offerExpired)
      #expect(await desk.registry.list().isEmpty)
    }
  }
}
