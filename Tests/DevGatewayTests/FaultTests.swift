import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@Suite("Appendix A, 10: what can be made to go wrong")
struct FaultTests {
  private func withNode(
    _ configure: (inout DevGateway.Options) throws -> Void = { _ in },
    _ body: @Sendable (_ gateway: DevGateway, _ node: Peer, _ badge: Badge) async throws -> Void
  ) async throws {
    try await withGateway(configure) { gateway in
      let badge = try Badge.node(gateway.token)
      try await body(gateway, try await gateway.admit(badge), badge)
    }
  }

  @Test("A10: a gateway that is still starting says so and when to come back")
  func starting() async throws {
    try await withGateway { gateway in
      await gateway.setStarting(true)
      let badge = try Badge.node(gateway.token)
      let (error, closure) = try await gateway.refusal(of: badge)
      #expect(error.code == "UNAVAILABLE")
      #expect(error.message == "gateway starting; retry shortly")
      #expect(error.details == ["reason": "startup-sidecars"])
      #expect(error.retryable == true)
      #expect(error.retryAfterMs == 500)
      #expect(closure == Closure(code: 1013, reason: "gateway starting", isClean: true))
      await gateway.setStarting(false)
      _ = try await gateway.admit(badge)
    }
  }

  @Test("A10: a restart is announced, closes with 1012, and comes back on its port with all it remembers")
  func restart() async throws {
    try await withNode { gateway, node, badge in
      let port = gateway.port
      let token = try #require(await node.hello?["auth"]?["deviceToken"])
      try await gateway.restart(pause: .milliseconds(5))
      #expect(try await node.end() == Closure(code: 1012, reason: "service restart", isClean: true))
      #expect(try await node.event("shutdown") == ["reason": "service restart", "restartExpectedMs": 5])
      #expect(gateway.port == port)
      var again = badge
      again.auth = ["token": token]
      _ = try await gateway.admit(again)
      #expect(await gateway.nodes().first?.surface.commands == ["device.info", "device.status"])
    }
  }

  @Test("A10: a killed gateway drops every socket without a word, and can come back")
  func crash() async throws {
    try await withNode { gateway, node, badge in
      await gateway.crash()
      #expect(try await node.end().code == 1006)
      #expect(await node.events("shutdown").isEmpty)
      #expect(await gateway.isRunning == false)
      await #expect(throws: TransportError.self) { _ = try await Peer.open(gateway) }
      try await gateway.start()
      _ = try await gateway.admit(badge)
    }
  }

  @Test("A10: an orderly stop tells no time to come back")
  func stop() async throws {
    try await withNode { gateway, node, _ in
      await gateway.stop()
      let told = try await node.event("shutdown")
      #expect(told == ["reason": "gateway stopping"])
      #expect(try await node.end().code == 1012)
    }
  }

  @Test(
    "A10: who does not read misses droppable events, their numbers counted, and is closed by the next one that matters")
  func slowConsumer() async throws {
    try await withNode { options in
      options.maxBufferedBytes = 100_000
      options.tickInterval = .milliseconds(5)
    } _: { gateway, _, badge in
      let slow = try await gateway.admit(Badge.talker(gateway.token, key: badge.key))
      let id = badge.deviceID
      await slow.socket.stall()
      // What the kernel takes is no measure of the reader; what the gateway holds is.
      await gateway.sendLarge(10_000_000, to: id, role: .operator)
      let owner = try await gateway.owner()
      _ = try await owner.event("tick", nth: 3)
      #expect(await gateway.sessions().contains { $0.deviceID == id && $0.role == .operator })
      try await owner.request("chat.send", ["sessionKey": "main", "message": "hello", "idempotencyKey": "k"])
      #expect(await eventually { await !gateway.sessions().contains { $0.deviceID == id && $0.role == .operator } })
    }
  }

  @Test("A10: declared slow, a client is told so")
  func declaredSlow() async throws {
    try await withNode { gateway, node, badge in
      await gateway.declareSlow(badge.deviceID)
      let end = try await node.end()
      #expect(end == Closure(code: 1008, reason: "slow consumer", isClean: true))
    }
  }

  @Test("A10: a gap in the numbers")
  func seqGap() async throws {
    try await withNode {
      $0.tickInterval = .milliseconds(10)
    } _: { gateway, node, _ in
      try await node.event("tick")
      await gateway.skipSeq(by: 5)
      let seen = await node.events("tick").count
      try await node.event("tick", nth: seen)
      let numbers = await node.frames.compactMap { $0["seq"]?.int }
      #expect(zip(numbers, numbers.dropFirst()).map { $1 - $0 }.filter { $0 != 1 } == [6])
    }
  }

  @Test("A10: ticks stop and come again")
  func tickStop() async throws {
    try await withNode {
      $0.tickInterval = .milliseconds(5)
    } _: { gateway, node, _ in
      try await node.event("tick")
      await gateway.setTicks(false)
      let count = await node.events("tick").count
      try await Task.sleep(for: .milliseconds(40))
      #expect(await node.events("tick").count <= count + 1)
      await gateway.setTicks(true)
      try await node.event("tick", nth: count + 2)
    }
  }

  @Test("A10: another shared secret puts out who came by the old one, and not who came by its own token")
  func authRotation() async throws {
    try await withNode { gateway, node, badge in
      var own = badge
      own.auth = ["token": try #require(await node.hello?["auth"]?["deviceToken"])]
      let second = try await gateway.admit(own)
      await gateway.rotateSharedToken(to: "another")
      #expect(try await node.end() == Closure(code: 4001, reason: "gateway auth changed", isClean: true))
      #expect(await second.closure == nil)
      #expect(try await gateway.refusal(of: badge).error.detailsCode == "AUTH_TOKEN_MISMATCH")
    }
  }

  @Test("A10: any refusal of the catalogue can be had, for a role and a number of times")
  func refusals() async throws {
    try await withGateway { gateway in
      let badge = try Badge.node(gateway.token)
      for failure in AuthFailure.allCases {
        await gateway.refuseConnects(failure.refusal(canRetry: true, retryAfterMs: 300), as: .node, times: 1)
        let (error, closure) = try await gateway.refusal(of: badge)
        #expect(error.detailsCode == failure.code)
        #expect(error.details?["authReason"]?.string == failure.rawValue)
        #expect(closure.code == 1008)
        _ = try await gateway.owner()
      }
      _ = try await gateway.admit(badge)
    }
  }

  @Test("A10: protocol 3: its number, the surface's old name, old signatures, wide clocks, and nothing in the details")
  func protocol3() async throws {
    try await withGateway { options in
      options.protocol3 = true
      options.autoApprove = false
    } _: { gateway in
      var badge = try Badge.node(gateway.token)
      badge.caps = ["canvas"]
      badge.commands = ["canvas.present"]
      let newer = try await gateway.refusal(of: badge).error
      #expect(newer.message == "device signature invalid", "it knows no version 3 of the signature")
      #expect(newer.details == nil)
      badge.version = .v2
      badge.lateMs = -400_000
      let (error, _) = try await gateway.refusal(of: badge)
      #expect(error.details == nil)
      let id = try #require(await gateway.pendingDevices().first).requestID
      #expect(error.message == "pairing required: device is not approved yet (requestId: \(id))")
      try await gateway.approveDevice(id)
      let node = try await gateway.admit(badge)
      #expect(await node.hello?["protocol"] == 3)
      #expect(await node.hello?["canvasHostUrl"]?.string?.contains("/__openclaw__/cap/") == true)
      #expect(await node.hello?["pluginSurfaceUrls"] == nil)
      let refreshed = try await node.request("node.canvas.capability.refresh", [:])
      #expect(refreshed["canvasHostUrl"] != nil)
      #expect(try await node.error("node.pluginSurface.refresh", ["surface": "canvas"])?.code == "INVALID_REQUEST")
      let alive = try await node.request(
        "node.event", ["event": "node.presence.alive", "payload": ["trigger": "connect"]])
      #expect(alive == ["ok": true])

      let (mismatch, closure) = try await gateway.refusal(of: Badge.talker(gateway.token, key: badge.key))
      #expect(mismatch.details == ["expectedProtocol": 3])
      #expect(closure.code == 1002)
    }
  }

  @Test("A10: another certificate no longer fits the pin")
  func certificateSwap() async throws {
    try await withNode {
      $0.tls = try ServerIdentity.selfSigned(names: ["localhost"])
    } _: { gateway, node, badge in
      let old = try #require(await gateway.fingerprint)
      try await gateway.swapCertificate(to: try ServerIdentity.selfSigned(names: ["localhost"]))
      #expect(try await node.end().code == 1006)
      var options = ConnectOptions()
      options.trust = .pinned(old)
      let endpoint = try #require(Endpoint(url: await gateway.url))
      do throws(TransportError) {
        _ = try await WebSocket.connect(to: endpoint, options: options, loop: gateway.loop)
        Issue.record("the old pin still fits")
      } catch {
        #expect(error.kind == .pinMismatch(try #require(await gateway.fingerprint)))
      }
      _ = try await gateway.admit(badge)
    }
  }

  @Test("A10: a socket that ends in the middle of a frame")
  func midFrame() async throws {
    try await withNode { gateway, node, badge in
      await gateway.closeInMidFrame(badge.deviceID)
      let end = try await node.end()
      #expect(end.code == 1006)
    }
  }

  @Test("A10: a half-open socket: no pong, no answer, no end")
  func stall() async throws {
    try await withNode { gateway, node, badge in
      await gateway.stall(badge.deviceID)
      try await node.send(#"{"type":"req","id":"x","method":"node.event","params":{"event":"x"}}"#)
      await #expect(throws: Closure.self) { try await node.socket.ping(timeout: .milliseconds(50)) }
      #expect(await node.frames.contains { $0["id"] == "x" } == false)
    }
  }

  @Test("A10: a gateway that upgrades and then says nothing")
  func answersNothing() async throws {
    try await withGateway { gateway in
      await gateway.setAnswersNothing(true)
      let peer = try await Peer.open(gateway)
      try await Task.sleep(for: .milliseconds(30))
      #expect(await peer.frames.isEmpty)
      #expect(await peer.closure == nil)
      await gateway.clearFaults()
      _ = try await gateway.owner()
    }
  }

  @Test("A10: text that is no JSON, bytes that are no frame, messages that are too long")
  func garbage() async throws {
    try await withNode { gateway, node, badge in
      await gateway.sendText("{not json", to: badge.deviceID)
      await gateway.send(event: "no.such.event", payload: ["a": 1], to: badge.deviceID)
      #expect(try await node.event("no.such.event") == ["a": 1])
      #expect(await node.frames.contains("not JSON"))
      await node.close()
      let (short, _) = try await gateway.join(badge, maxMessage: 100_000)
      await gateway.sendLarge(100_001, to: badge.deviceID)
      #expect(try await short.end().code == 1009, "longer than the client takes")

      let second = try await gateway.admit(badge)
      await gateway.sendRaw([0x83, 0x00, 0xFF], to: badge.deviceID)
      #expect(try await second.end().code == 1002)
    }
  }

  @Test("A10: any close code")
  func anyClose() async throws {
    try await withNode { gateway, node, badge in
      await gateway.close(badge.deviceID, role: .node, code: 1012, reason: "node capabilities changed")
      #expect(try await node.end() == Closure(code: 1012, reason: "node capabilities changed", isClean: true))
      let second = try await gateway.admit(badge)
      await gateway.drop(badge.deviceID)
      #expect(try await second.end().code == 1006)
    }
  }

  @Test("A10: a port that is taken is an error with a remedy")
  func portTaken() async throws {
    try await withGateway { gateway in
      var options = DevGateway.Options()
      options.port = gateway.port
      let second = DevGateway(options: options, loop: gateway.loop)
      do throws(DevGatewayError) {
        try await second.start()
        Issue.record("two on one port")
      } catch {
        #expect(error.code == .portUnavailable)
        #expect(error.remedy != nil)
      }
    }
  }
}
