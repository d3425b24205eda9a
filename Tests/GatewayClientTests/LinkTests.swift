import Crypto
import DevGateway
import GatewayProtocol
import LinkTestSupport
import System
import Testing
import Transport

@testable import GatewayClient

@Suite("A link to a gateway")
struct LinkTests {
  // MARK: Being let in, and no longer

  @Test("with a wrong token stops and tells")
  func wrongToken() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(token: "wrong"))
      try await eventually("the node has stopped") { await link.status().node.stopCode == "AUTH_TOKEN_MISMATCH" }
      #expect(await link.status().operator == .idle)
      let refused = await #expect(throws: LinkError.self) { try await link.request("node.list", [:], as: .operator) }
      #expect(refused?.code == .notConnected)
    }
  }

  @Test("whose shared token was changed comes back with its device tokens, and stays with them")
  func sharedRotated() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      await gateway.rotateSharedToken(to: "another")
      try await eventually("both are back with device tokens") {
        let sessions = await gateway.sessions()
        return await link.status().isComplete && sessions.count == 2
          && sessions.allSatisfy { $0.method == "deviceToken" }
      }
      try await gateway.restart()
      try await eventually("and after a restart") {
        let sessions = await gateway.sessions()
        return await link.status().isComplete && sessions.count == 2
          && sessions.allSatisfy { $0.method == "deviceToken" }
      }
    }
  }

  @Test("whose device token was rotated comes back by the shared one and keeps the new")
  func deviceTokenRotated() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let old = await desk.credentials.deviceTokens[.node]?.token
      try await gateway.rotateToken(of: desk.id, role: .node)
      try await eventually("it is back with a new token") {
        let token = await desk.credentials.deviceTokens[.node]?.token
        return await link.status().isComplete && token != nil && token != old
      }
    }
  }

  @Test("whose only token was revoked forgets it, stops, and does not ask again")
  func revoked() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(.full))
      try await eventually("both sockets are up") { await link.status().isComplete }
      try await gateway.revokeToken(of: desk.id, role: .node)
      try await eventually("the node has stopped") { await link.status().node.stopCode == "DEVICE_TOKEN_REVOKED" }
      try await eventually("its token is gone") { await desk.credentials.deviceTokens[.node] == nil }
      // The operator's token is another matter.
      #expect(await desk.credentials.deviceTokens[.operator] != nil)
    }
  }

  @Test("whose token was revoked does not come back with the shared token by itself, only when a person pairs anew")
  func revokedForGood() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      try await gateway.revokeToken(of: desk.id, role: .node)
      try await eventually("the node has stopped") { await link.status().node.stopCode == "DEVICE_TOKEN_REVOKED" }
      try await eventually("which is kept") { await desk.credentials.revokedRoles == [.node] }
      await link.stop()
      let again = await desk.begin(link.gateway)
      try await eventually("it does not even ask") { await again.status().node.stopCode == "DEVICE_TOKEN_REVOKED" }
      await again.stop()
      let anew = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up again") { await anew.status().isComplete }
    }
  }

  @Test("that was revoked while it was away learns it at the next connect")
  func revokedWhileAway() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer(.full))
      try await eventually("both sockets are up") { await link.status().isComplete }
      await link.stop()
      try await gateway.revokeToken(of: desk.id, role: .node)
      let again = await desk.begin(link.gateway)
      try await eventually("the node has stopped") { await again.status().node.stopCode == "DEVICE_TOKEN_REVOKED" }
      #expect(await desk.credentials.deviceTokens[.node] == nil)
    }
  }

  @Test("to a gateway that removed the device stops on both sockets, also at the next start, until paired anew")
  func removed() async throws {
    try await withHouse {
      $0.autoApprove = false
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      #expect(await gateway.approveAll(link))
      try await gateway.removeDevice(desk.id)
      try await eventually("both have stopped") {
        let status = await link.status()
        return status.node.stopCode == "DEVICE_REMOVED" && status.operator.stopCode == "DEVICE_REMOVED"
      }
      let credentials = await desk.credentials
      #expect(credentials.deviceTokens.isEmpty && credentials.removedAtMs != nil)
      await link.stop()
      let again = await desk.begin(link.gateway)
      try await eventually("it does not even ask") { await again.status().node.stopCode == "DEVICE_REMOVED" }
      #expect(await gateway.pendingDevices().isEmpty)
      await again.stop()
      let anew = try await desk.connect(gateway.offer())
      #expect(await gateway.approveAll(anew))
    }
  }

  @Test("stops at a certificate that is not the pinned one, in whatever spelling the pin was given")
  func certificateSwapped() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["127.0.0.1"])
    try await withHouse {
      $0.tls = identity
    } _: { gateway, desk in
      let colons = identity.fingerprint.map { hexadecimal([$0]).uppercased() }.joined(separator: ":")
      for spelling in [colons, hexadecimal(identity.fingerprint), "sha256:" + hexadecimal(identity.fingerprint)] {
        let pin: [UInt8] = try #require(fingerprint(parsing: spelling))
        let link = try await desk.connect(gateway.offer(), pin: pin)
        try await eventually("both sockets are up") { await link.status().isComplete }
        await link.stop()
      }
      let link = await desk.begin(try #require(await desk.registry.active()))
      try await eventually("both sockets are up") { await link.status().isComplete }
      try await gateway.swapCertificate(to: ServerIdentity.selfSigned(names: ["127.0.0.1"]))
      try await eventually("both have stopped") {
        let status = await link.status()
        return status.node.stopCode == "PIN_MISMATCH" && status.operator.stopCode == "PIN_MISMATCH"
      }
    }
  }

  @Test("stops at a certificate that nobody vouches for")
  func untrusted() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["127.0.0.1"])
    try await withHouse {
      $0.tls = identity
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("the node has stopped") { await link.status().node.stopCode == "CERTIFICATE_UNTRUSTED" }
      guard case .stopped(_, _, let remedy) = await link.status().node else { return }
      #expect(remedy.contains("--trust \(hexadecimal(identity.fingerprint))"))
    }
  }

  @Test("to an old gateway signs as that understands, remembers it, and says that chat needs a newer one")
  func protocol3() async throws {
    try await withHouse {
      $0.protocol3 = true
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("the node is in") { await link.status().node.isConnected }
      #expect(await desk.credentials.signature == .v2)
      try await eventually("the operator has stopped") { await link.status().operator.stopCode == "PROTOCOL_MISMATCH" }
      guard case .stopped(_, let summary, _) = await link.status().operator else { return }
      #expect(summary.hasPrefix("The gateway is too old"))
      #expect(try await gateway.invoke(nodeID: desk.id, command: "device.info")["command"] == "device.info")
    }
  }

  @Test("waits for a gateway that is still starting, and for one that asks for patience")
  func starting() async throws {
    try await withHouse { gateway, desk in
      await gateway.setStarting(true)
      let link = try await desk.connect(gateway.offer())
      try await eventually("it waits") {
        guard case .backingOff(_, let reason) = await link.status().node else { return false }
        return reason.contains("starting")
      }
      await gateway.setStarting(false)
      await gateway.refuseConnects(
        Refusal(WireError(code: "UNAVAILABLE", message: "draining", retryable: true)), times: 2)
      try await eventually("both sockets are up") { await link.status().isComplete }
    }
  }

  @Test("tolerates events before hello-ok, and delivers them")
  func earlyEvents() async throws {
    try await withHouse {
      $0.earlyEvents = true
    } _: { gateway, desk in
      var record = try await desk.registry.add(gateway.offer())
      record.isActive = true
      let link = await desk.begin(record)
      let events = link.events(of: .node)
      try await eventually("both sockets are up") { await link.status().isComplete }
      await link.surfaceChanged()
      for await event in events where event.name == "voicewake.changed" { break }
    }
  }

  // MARK: Two sockets, two fates

  @Test("loses one socket without the other")
  func independent() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      guard case .connected(let nodeSince) = await link.status().node else { return }
      await gateway.refuseConnects(
        Refusal(WireError(code: "INVALID_REQUEST", message: "no", details: ["code": "OPERATOR_ACCESS_DENIED"])),
        as: .operator)
      await gateway.drop(desk.id, role: .operator)
      try await eventually("the operator is kept out") {
        guard case .backingOff(_, let reason) = await link.status().operator else { return false }
        return reason.contains("OPERATOR_ACCESS_DENIED")
      }
      #expect(await link.status().node == .connected(sinceMs: nodeSince))
      #expect(try await gateway.invoke(nodeID: desk.id, command: "device.info")["command"] == "device.info")
      await gateway.clearFaults()
      try await eventually("it comes back by itself") { await link.status().operator.isConnected }

      guard case .connected(let operatorSince) = await link.status().operator else { return }
      await gateway.drop(desk.id, role: .node)
      try await eventually("the node comes back by itself") {
        guard case .connected(let since) = await link.status().node else { return false }
        let isComplete = await link.status().isComplete
        return since >= nodeSince && isComplete
      }
      #expect(await link.status().operator == .connected(sinceMs: operatorSince))
    }
  }

  @Test("says goodbye when it stops, and its streams end")
  func stops() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      let events = link.events(of: .operator)
      let statuses = link.statuses()
      try await eventually("both sockets are up") { await link.status().isComplete }
      await link.stop()
      #expect(await link.status().node == .idle)
      #expect(await link.status().operator == .idle)
      try await eventually("the gateway has nobody") { await gateway.sessions().isEmpty }
      for await _ in events {}
      for await _ in statuses {}
      for await _ in link.statuses() {}
    }
  }

  // MARK: Requests and events

  @Test("carries requests and their refusals")
  func requests() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let list = try await link.request("node.list", [:], as: .operator)
      #expect(list["nodes"]?.array?.count == 1)
      let refused = await #expect(throws: LinkError.self) { try await link.request("node.list", [:], as: .node) }
      #expect(refused?.code == .refused && refused?.wire?.message == "unauthorized role: node")
      // More at once than may wait for an answer: the rest is told at once, and none hangs.
      let outcomes = await withTaskGroup(of: String.self) { group in
        for _ in 0..<400 {
          group.addTask {
            do throws(LinkError) {
              _ = try await link.request("node.list", [:], as: .operator)
              return "ok"
            } catch { return error.code.rawValue }
          }
        }
        return await group.reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
      }
      #expect(outcomes["ok", default: 0] >= GatewayChannel.mostPending)
      #expect(outcomes["ok", default: 0] + outcomes["TOO_MANY_REQUESTS", default: 0] == 400)
    }
  }

  @Test("ends a request at its limit, at cancellation, and with its connection")
  func requestEnds() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      await gateway.stall(desk.id, role: .operator)
      let late = await #expect(throws: LinkError.self) {
        try await link.request("node.list", [:], as: .operator, timeout: .milliseconds(50))
      }
      #expect(late?.code == .timeout)
      let cancelled = Task { try await link.request("node.list", [:], as: .operator) }
      cancelled.cancel()
      #expect(await #expect(throws: LinkError.self) { try await cancelled.value }?.code == .cancelled)
      async let lost = link.request("node.list", [:], as: .operator)
      try await Task.sleep(for: .milliseconds(30))
      await gateway.drop(desk.id, role: .operator)
      do {
        _ = try await lost
        Issue.record("an answer came from nowhere")
      } catch {
        #expect((error as? LinkError)?.code == .connectionLost)
      }
    }
  }

  @Test("tells of broadcasts that were lost")
  func gaps() async throws {
    try await withHouse {
      $0.tickInterval = .milliseconds(30)
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      var events = link.events(of: .operator).makeAsyncIterator()
      while let event = await events.next(), event.name != "tick" {}
      await gateway.skipSeq(by: 3)
      while let event = await events.next() {
        guard event.name == GatewayLink.gapEvent else { continue }
        #expect(event.payload == ["missed": 3])
        break
      }
    }
  }

  // MARK: Invokes

  @Test("answers invokes: payloads, errors, and what does not fit")
  func invokes() async throws {
    try await withHouse {
      $0.maxPayload = 100_000
    } _: { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let answer = try await gateway.invoke(nodeID: desk.id, command: "device.info", params: ["s": "é😀\"\\"])
      #expect(answer == ["command": "device.info", "echo": ["s": "é😀\"\\"]])
      let failed = await #expect(throws: WireError.self) {
        try await gateway.invoke(nodeID: desk.id, command: "device.info", params: ["fail": true])
      }
      #expect(failed?.details?["nodeError"]?["code"] == "DEMO_FAIL")
      let limit = try await gateway.invoke(nodeID: desk.id, command: "device.info", params: ["limit": true])
      #expect(limit["limit"]?.int.map { $0 < 100_000 && $0 > 90_000 } == true)
      let large = await #expect(throws: WireError.self) {
        try await gateway.invoke(nodeID: desk.id, command: "device.info", params: ["size": 120_000])
      }
      #expect(large?.message.hasPrefix("PAYLOAD_TOO_LARGE") == true)
      // The link is intact, and a request that does not fit is told before it is sent.
      #expect(await link.status().isComplete)
      let tooLarge = await #expect(throws: LinkError.self) {
        try await link.request("chat.send", ["message": .string(String(repeating: "x", count: 100_000))], as: .operator)
      }
      #expect(tooLarge?.code == .tooLarge)
    }
  }

  @Test("carries ten megabytes both ways")
  func large() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let filler = String(repeating: "y", count: 10 << 20)
      let answer = try await gateway.invoke(
        nodeID: desk.id, command: "device.info", params: ["filler": .string(filler)])
      #expect(answer["echo"]?["filler"]?.string == filler)
    }
  }

  @Test("answers many invokes at once, each exactly once")
  func concurrent() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<100 {
          group.addTask {
            let answer = try await gateway.invoke(
              nodeID: desk.id, command: "device.info", params: ["n": .int(Int64(number))])
            #expect(answer["echo"]?["n"]?.int == Int64(number))
          }
        }
        try await group.waitForAll()
      }
      let answered = await desk.answered
      #expect(answered.count == 100 && answered.values.allSatisfy { $0 == 1 })
    }
  }

  @Test("an invoke sent twice on one connection is carried out once")
  func duplicate() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let request: JSON = [
        "id": "twice", "nodeId": .string(desk.id), "command": "device.info", "paramsJSON": #"{"hold":true}"#,
      ]
      await gateway.send(event: "node.invoke.request", payload: request, to: desk.id, role: .node)
      try await eventually("it is under way") { await desk.isHolding("twice") }
      // The same again, as a string in a string, and frames that are no invoke.
      await gateway.send(event: "node.invoke.request", payload: .string(request.text), to: desk.id, role: .node)
      for nonsense in [.null, [:], "x", ["id": " ", "nodeId": "a", "command": "b"]] as [JSON] {
        await gateway.send(event: "node.invoke.request", payload: nonsense, to: desk.id, role: .node)
      }
      _ = try await gateway.invoke(nodeID: desk.id, command: "device.info")
      await desk.release("twice")
      #expect(await desk.answered["twice"] == 1)
    }
  }

  @Test("passes the gateway's cancelling on")
  func cancel() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let id = try await gateway.beginInvoke(nodeID: desk.id, command: "device.info", params: ["hold": true])
      try await eventually("it is under way") { await !desk.holding.isEmpty }
      await gateway.cancelInvoke(id)
      try await eventually("the node was told") { await !desk.cancelled.isEmpty }
      #expect(await desk.holding.isEmpty)
    }
  }

  @Test("drops the result of an invoke whose connection is gone, and answers the next")
  func lostResult() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      let id = try await gateway.beginInvoke(nodeID: desk.id, command: "device.info", params: ["hold": true])
      try await eventually("it is under way") { await !desk.holding.isEmpty }
      let held = try #require(await desk.holding.first)
      await gateway.drop(desk.id, role: .node)
      await #expect(throws: WireError.self) { try await gateway.reply(to: id) }
      try await eventually("the node answers again") {
        (try? await gateway.invoke(nodeID: desk.id, command: "device.info")["command"]) == "device.info"
      }
      await desk.release(held)
      #expect(try await gateway.invoke(nodeID: desk.id, command: "device.info")["command"] == "device.info")
      let answered = await desk.answered
      #expect(answered.values.allSatisfy { $0 == 1 })
    }
  }

  @Test("refuses more invokes than it can hold, and stays")
  func tooMany() async throws {
    try await withHouse { gateway, desk in
      let link = try await desk.connect(gateway.offer())
      try await eventually("both sockets are up") { await link.status().isComplete }
      var ids: [String] = []
      for _ in 0..<GatewayLink.mostInvokes {
        ids.append(try await gateway.beginInvoke(nodeID: desk.id, command: "device.info", params: ["hold": true]))
      }
      try await eventually("all are under way") { await desk.holding.count == GatewayLink.mostInvokes }
      let refused = await #expect(throws: WireError.self) {
        try await gateway.invoke(nodeID: desk.id, command: "device.info")
      }
      #expect(refused?.message.hasPrefix("UNAVAILABLE") == true)
      for id in await desk.holding { await desk.release(id) }
      for id in ids { _ = try await gateway.reply(to: id) }
      #expect(try await gateway.invoke(nodeID: desk.id, command: "device.info")["command"] == "device.info")
    }
  }
}
