import DevGateway
import GatewayClient
import GatewayProtocol
import LinkTestSupport
import System
import TestSupport
import Testing

@Suite("A gateway that is killed and comes back", .serialized)
struct RestartTests {
  @Test("50 times at random moments, with an invoke in flight at 25 of them or more")
  func killed() async throws {
    var random = SeededRandom()
    print("killed(): seed \(random.seed)")
    try await withHouse {
      $0.autoApprove = false
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      #expect(await gateway.approveAll(link))
      let paired = await desk.credentials
      var inFlight = 0
      for round in 0..<50 {
        var invoke: String?
        if round % 2 == 0 || Bool.random(using: &random) {
          try await gateway.expectAnswer(desk)
          invoke = try await gateway.beginInvoke(nodeID: desk.id, command: "device.info", params: ["hold": true])
          try await eventually("the invoke is under way") { await !desk.holding.isEmpty }
          inFlight += 1
        }
        // Anywhere in the life of the connections: dialling, handshake, both up, in the middle of the describing.
        try await Task.sleep(for: .microseconds(Int.random(in: 0...30_000, using: &random)))
        await gateway.crash()
        let held = await desk.holding
        if Bool.random(using: &random) { for id in held { await desk.release(id) } }
        try await Task.sleep(for: .microseconds(Int.random(in: 0...20_000, using: &random)))
        try await gateway.start()
        if let invoke { await #expect(throws: WireError.self) { try await gateway.reply(to: invoke) } }
        if Bool.random(using: &random) { try await gateway.expectAnswer(desk) }
        for id in await desk.holding { await desk.release(id) }
      }
      print("killed(): an invoke was in flight \(inFlight) times")
      #expect(inFlight >= 25)
      try await gateway.expectAnswer(desk)
      try await eventually("all is as before") { await link.status().isComplete }
      // Nobody had to approve anything again, no connection is left over, and nothing was carried out twice.
      #expect(await gateway.pendingDevices().isEmpty)
      #expect(await gateway.pendingSurfaces().isEmpty)
      #expect(await desk.credentials == paired)
      try await eventually("two connections are there") { await gateway.sessions().count == 2 }
      let answered = await desk.answered
      #expect(answered.values.allSatisfy { $0 == 1 })
      #expect(await desk.holding.isEmpty)
    }
  }

  @Test("politely is met again at once")
  func restarted() async throws {
    // With pauses of a minute only an immediate return is soon enough.
    var timings = Desk.quick
    timings.backOff = .seconds(60)
    timings.longestBackOff = .seconds(60)
    timings.stableSession = .zero
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: timings)
      try await eventually("both sockets are up") { await link.status().isComplete }
      await gateway.close(desk.id, code: 1012, reason: "node capabilities changed")
      try await eventually("both are back", within: .seconds(10)) {
        let count = await gateway.sessions().count
        return await link.status().isComplete && count == 2
      }
    }
  }

  @Test("while still starting is asked again in half a second, also when it only says so by its close")
  func startingAgain() async throws {
    var timings = Desk.quick
    timings.backOff = .seconds(60)
    timings.longestBackOff = .seconds(60)
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(), timings: timings)
      try await eventually("both sockets are up") { await link.status().isComplete }
      await gateway.close(desk.id, code: 1013, reason: "gateway starting")
      try await gateway.expectAnswer(desk)
      await gateway.setStarting(true)
      await gateway.close(desk.id, role: .node, code: 1013, reason: "gateway starting")
      try await eventually("it is turned away") {
        guard case .backingOff(_, let reason) = await link.status().node else { return false }
        return reason.contains("starting")
      }
      await gateway.setStarting(false)
      try await gateway.expectAnswer(desk)
    }
  }

  @Test("with 4001 is obeyed: a changed secret is tried again, a removed device is not")
  func invalidated() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      await gateway.close(desk.id, code: 4001, reason: "gateway auth changed")
      try await gateway.expectAnswer(desk)
      await gateway.close(desk.id, role: .node, code: 4001, reason: "client invalidated: device removed")
      try await eventually("both have stopped") {
        let status = await link.status()
        guard case .stopped("DEVICE_REMOVED", _, _) = status.node, case .stopped = status.operator else { return false }
        return true
      }
    }
  }
}
