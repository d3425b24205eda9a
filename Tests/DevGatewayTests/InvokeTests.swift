import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

extension Peer {
  /// Waits for the nth invoke and answers it.
  func answer(nth: Int = 0, _ members: [String: JSON]) async throws -> JSON {
    let invoke = try await event("node.invoke.request", nth: nth)
    var params = members
    params["id"] = invoke["id"]
    params["nodeId"] = params["nodeId"] ?? invoke["nodeId"]
    return try await request("node.invoke.result", .object(params))
  }
}

@Suite("Appendix A, 7: invokes")
struct InvokeTests {
  /// A silently paired node and the owner.
  private func withNode(
    _ configure: (inout DevGateway.Options) -> Void = { _ in }, client: [String: JSON] = [:],
    _ body: @Sendable (_ gateway: DevGateway, _ node: Peer, _ owner: Peer, _ id: String) async throws -> Void
  ) async throws {
    try await withGateway { options in
      options.allow = ["device.info", "device.status", "camera.snap"]
      configure(&options)
    } _: { gateway in
      var badge = try Badge.node(gateway.token)
      badge.client.merge(client) { _, new in new }
      let node = try await gateway.admit(badge)
      try await body(gateway, node, try await gateway.owner(), badge.deviceID)
    }
  }

  private func invoke(_ id: String, _ more: [String: JSON] = [:]) -> JSON {
    .object(["nodeId": .string(id), "command": "device.info", "idempotencyKey": "k-1"].merging(more) { _, new in new })
  }

  @Test("A7: an operator's call reaches the node as an event and comes back parsed and as text")
  func roundTrip() async throws {
    try await withNode { gateway, node, owner, id in
      async let reply = owner.request(
        "node.invoke", invoke(id, ["params": ["x": 1, "s": "é😀"], "timeoutMs": 5000]))
      let asked = try await node.event("node.invoke.request")
      #expect(asked["nodeId"]?.string == id)
      #expect(asked["command"] == "device.info")
      #expect(asked["timeoutMs"] == 5000)
      #expect(asked["idempotencyKey"] == "k-1")
      #expect(try JSON(parsing: try #require(asked["paramsJSON"]?.string)) == ["x": 1, "s": "é😀"])
      #expect(await node.events("node.invoke.request").first?["seq"] == nil)
      let text = #"{"systemName": "Linux", "tab": "\t", "s": "\u00e9"}"#
      #expect(try await node.answer(["ok": true, "payloadJSON": .string(text)]) == ["ok": true])
      let payload = try await reply
      #expect(payload["payload"] == ["systemName": "Linux", "tab": "\t", "s": "é"])
      #expect(payload["payloadJSON"]?.string == text)
      #expect(payload["ok"] == true)
      #expect(payload["command"] == "device.info")
    }
  }

  @Test("A7: no params are null, and no deadline is not named")
  func bare() async throws {
    try await withNode { gateway, node, owner, id in
      async let reply = owner.request("node.invoke", invoke(id))
      let frame = try await node.event("node.invoke.request")
      #expect(frame.object?["paramsJSON"] == .null)
      #expect(frame.object?["timeoutMs"] == nil)
      _ = try await node.answer(["ok": true])
      let payload = try await reply
      #expect(payload == ["ok": true, "nodeId": .string(id), "command": "device.info"])
    }
  }

  @Test("A7: a result may be a value, or a payloadJSON that is no string; null members are tolerated")
  func forms() async throws {
    try await withNode { gateway, node, _, id in
      let forms: [[String: JSON]] = [
        ["payload": ["a": [1, 2]], "payloadJSON": .null, "error": .null], ["payloadJSON": ["a": [1, 2]]],
        ["payload": ["a": 0], "payloadJSON": #"{"a":[1,2]}"#],
      ]
      for (nth, form) in forms.enumerated() {
        async let reply = gateway.invoke(nodeID: id, command: "device.info")
        _ = try await node.answer(nth: nth, form.merging(["ok": true]) { _, new in new })
        #expect(try await reply == ["a": [1, 2]])
      }
    }
  }

  @Test("A7: a node's error reaches the operator as UNAVAILABLE with the node's own code and words")
  func nodeError() async throws {
    try await withNode { gateway, node, owner, id in
      async let error = owner.error("node.invoke", invoke(id))
      _ = try await node.answer(["ok": false, "error": ["code": "DEMO_FAIL", "message": "no"]])
      let found = try await error
      #expect(found?.code == "UNAVAILABLE")
      #expect(found?.message == "DEMO_FAIL: no")
      #expect(found?.details == ["nodeError": ["code": "DEMO_FAIL", "message": "no"]])
    }
  }

  @Test("A7: a deadline ends it with TIMEOUT, our kind of node is told to stop, and what comes late is ignored")
  func timeout() async throws {
    try await withNode { gateway, node, owner, id in
      let error = try await owner.error("node.invoke", invoke(id, ["timeoutMs": 10]))
      #expect(error?.message == "TIMEOUT: node invoke timed out")
      #expect(error?.details == ["nodeError": ["code": "TIMEOUT", "message": "node invoke timed out"]])
      let asked = try await node.event("node.invoke.request")
      #expect(
        try await node.event("node.invoke.cancel") == ["invokeId": try #require(asked["id"]), "nodeId": .string(id)])
      #expect(try await node.answer(["ok": true]) == ["ok": true, "ignored": true])
      #expect(try await node.answer(["ok": true]) == ["ok": true, "ignored": true], "and so is a second one")
    }
  }

  @Test("A7: 0 is no deadline; without one it is 30 s")
  func deadlines() async throws {
    try await withNode { gateway, node, owner, id in
      let begun = try await gateway.beginInvoke(nodeID: id, command: "device.info", timeoutMs: 0)
      #expect(try await node.event("node.invoke.request")["timeoutMs"] == 0)
      _ = try await node.answer(["ok": true, "payloadJSON": "1"])
      #expect(try await gateway.reply(to: begun).payload == 1)
    }
  }

  @Test("A7: another node's result is a mismatch, and unknown members are refused")
  func mismatch() async throws {
    try await withNode { gateway, node, _, id in
      let error = try await node.error("node.invoke.result", ["id": "i", "nodeId": "other", "ok": true])
      #expect(error?.message == "nodeId mismatch")
      let closed = try await node.error("node.invoke.result", ["id": "i", "nodeId": .string(id), "ok": true, "x": 1])
      #expect(closed?.message == "invalid node.invoke.result params: at root: unexpected property 'x'")
      #expect(
        try await node.error("node.invoke.result", ["id": "i", "nodeId": .string(id)])?.code == "INVALID_REQUEST")
      #expect(try await node.error("node.invoke.result") != nil)
    }
  }

  @Test("A7: when the node goes, what it owed ends with DISCONNECTED")
  func disconnect() async throws {
    try await withNode { gateway, node, owner, id in
      async let error = owner.error("node.invoke", invoke(id))
      try await node.event("node.invoke.request")
      await node.close()
      #expect(try await error?.details?["nodeError"]?["code"] == "DISCONNECTED")
      _ = await eventually { await gateway.nodes().first?.isConnected == false }
      let offline = try await owner.error("node.invoke", invoke(id))
      #expect(offline?.code == "UNAVAILABLE")
      #expect(offline?.detailsCode == "NOT_CONNECTED")
    }
  }

  @Test("A7: a second connection of a node does not end the first, and is the one that is asked")
  func secondConnection() async throws {
    try await withGateway { gateway in
      let badge = try Badge.node(gateway.token)
      let first = try await gateway.admit(badge)
      let second = try await gateway.admit(badge)
      async let reply = gateway.invoke(nodeID: badge.deviceID, command: "device.info")
      _ = try await second.answer(["ok": true, "payloadJSON": "2"])
      #expect(try await reply == 2)
      #expect(await first.closure == nil)
      #expect(await first.events("node.invoke.request").isEmpty)
      await second.close()
      _ = await eventually { await gateway.sessions().count == 1 }
      async let again = gateway.invoke(nodeID: badge.deviceID, command: "device.info")
      _ = try await first.answer(["ok": true, "payloadJSON": "1"])
      #expect(try await again == 1)
    }
  }

  @Test("A7: progress is put in order, input and cancel reach the node")
  func streaming() async throws {
    try await withNode(client: ["id": "openclaw-android"]) { gateway, node, _, id in
      let begun = try await gateway.beginInvoke(nodeID: id, command: "device.info", idleTimeoutMs: 10_000)
      await gateway.sendInput(["key": "a"], to: begun)
      let input = try await node.event("node.invoke.input")
      #expect(input["seq"] == 0)
      #expect(input["payloadJSON"] == #"{"key":"a"}"#)
      func progress(_ seq: Int64, _ chunk: String) async throws -> JSON {
        try await node.request(
          "node.invoke.progress",
          ["invokeId": .string(begun), "nodeId": .string(id), "seq": .int(seq), "chunk": .string(chunk)])
      }
      #expect(try await progress(1, "b") == ["ok": true])
      #expect(try await progress(0, "a") == ["ok": true])
      #expect(try await progress(0, "again") == ["ok": true, "ignored": true])
      _ = try await node.answer(["ok": true])
      #expect(try await gateway.reply(to: begun).chunks == ["a", "b"])
      #expect(try await progress(2, "late") == ["ok": true, "ignored": true])

      let second = try await gateway.beginInvoke(nodeID: id, command: "device.info", idleTimeoutMs: 10_000)
      await gateway.cancelInvoke(second)
      #expect(try await node.event("node.invoke.cancel")["invokeId"]?.string == second)
      await #expect(throws: WireError.self) { _ = try await gateway.reply(to: second) }
      let third = try await gateway.beginInvoke(nodeID: id, command: "device.info", idleTimeoutMs: 5)
      do throws(WireError) { _ = try await gateway.reply(to: third) } catch {
        #expect(error.details?["nodeError"]?["code"] == "IDLE_TIMEOUT")
      }
    }
  }

  @Test(
    "A7: what the policy or the surface withholds is refused with its reason",
    arguments: [
      ("nope.nope", "command not allowlisted", "is not in the allowlist for platform \"linux\""),
      ("health.summary", "command not allowlisted", "gateway.nodes.commands.allow"),
      ("camera.snap", "command not declared by node", "camera.snap"),
    ])
  func refused(command: String, reason: String, words: String) async throws {
    try await withNode { gateway, _, owner, id in
      let error = try await owner.error("node.invoke", invoke(id, ["command": .string(command)]))
      #expect(error?.code == "INVALID_REQUEST")
      #expect(error?.message.hasPrefix("node command not allowed: ") == true)
      #expect(error?.message.contains(words) == true)
      #expect(error?.details == ["reason": .string(reason), "command": .string(command)])
    }
  }

  @Test("A7: before the surface is approved nothing can be called, and the way to approve it is named")
  func unapproved() async throws {
    try await withGateway {
      $0.autoApprove = false
    } _: { gateway in
      let badge = try Badge.node(gateway.token)
      _ = try await gateway.join(badge)
      try await gateway.approveDevice(try #require(await gateway.pendingDevices().first).requestID)
      _ = try await gateway.admit(badge)
      do throws(WireError) {
        _ = try await gateway.invoke(nodeID: badge.deviceID, command: "device.info")
        Issue.record("let through")
      } catch {
        #expect(error.details?["reason"] == "node did not declare commands")
        #expect(error.message.contains("nodes approve"))
      }
    }
  }

  @Test("A7: admin-only and never-invoked commands")
  func admin() async throws {
    try await withGateway {
      $0.allow = ["fs.listDir", "system.execApprovals.get"]
    } _: { gateway in
      var badge = try Badge.node(gateway.token)
      badge.commands = ["fs.listDir", "system.execApprovals.get"]
      _ = try await gateway.admit(badge)
      var clerk = try Badge.owner(gateway.token)
      clerk.scopes = ["operator.write"]
      let peer = try await gateway.admit(clerk)
      let denied = try await peer.error("node.invoke", invoke(badge.deviceID, ["command": "fs.listDir"]))
      #expect(denied?.details?["missingScope"] == "operator.admin")
      let never = try await peer.error("node.invoke", invoke(badge.deviceID, ["command": "system.execApprovals.get"]))
      #expect(never?.code == "INVALID_REQUEST")
    }
  }

  @Test("A7: adding a command asks for approval again while the old ones stay usable; dropping one needs none")
  func reapproval() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      var badge = try Badge.node(gateway.token)
      badge.commands = ["device.info"]
      await (try gateway.admit(badge)).close()
      badge.commands = ["device.info", "device.status"]
      await (try gateway.admit(badge)).close()
      let node = try await gateway.admit(badge)
      #expect(await owner.events("node.pair.requested").count == 1, "the same wish is no news")
      let described = try await owner.request("node.describe", ["nodeId": .string(badge.deviceID)])
      #expect(described["approvalState"] == "pending-reapproval")
      #expect(described["commands"]?.strings == ["device.info"])
      #expect(described["pendingDeclaredCommands"]?.strings == ["device.info", "device.status"])
      let id = try #require(described["pendingRequestId"]?.string)
      badge.commands = ["device.info"]
      await node.close()
      _ = try await gateway.admit(badge)
      let resolved = try await owner.event("node.pair.resolved")
      #expect(resolved["requestId"]?.string == id)
      #expect(resolved["decision"] == "rejected")
      #expect(await gateway.nodes().first?.approvalState == "approved")
    }
  }

  @Test("A7: a deny entry takes effect at once; an allow entry on what may be declared at the next connect")
  func policyChange() async throws {
    try await withNode { gateway, node, owner, id in
      await gateway.setPolicy(allow: ["device.info", "device.status"], deny: ["device.info"])
      let error = try await owner.error("node.invoke", invoke(id))
      #expect(error?.details?["reason"] == "command not allowlisted")
      #expect(await gateway.nodes().first?.surface.commands == ["device.status"])
    }
  }

  @Test("A7: 12.5 MB of base64 pass unchanged")
  func large() async throws {
    try await withNode { gateway, node, owner, id in
      let base64 = String(repeating: "QUJD/+09", count: 12_500_000 / 8)
      let text = #"{"format":"jpg","base64":""# + base64 + "\"}"
      async let reply = owner.request("node.invoke", invoke(id))
      _ = try await node.answer(["ok": true, "payloadJSON": .string(text)])
      let payload = try await reply
      #expect(payload["payload"]?["base64"]?.string?.utf8.count == base64.utf8.count)
      #expect(payload["payload"]?["base64"]?.string == base64)
      #expect(payload["payloadJSON"]?.string == text)
    }
  }

  @Test("A7: text that is no JSON stays text")
  func notJSON() async throws {
    try await withNode { gateway, node, owner, id in
      async let reply = owner.request("node.invoke", invoke(id))
      _ = try await node.answer(["ok": true, "payloadJSON": "{broken"])
      let payload = try await reply
      #expect(payload["payload"] == nil)
      #expect(payload["payloadJSON"] == "{broken")
    }
  }
}
