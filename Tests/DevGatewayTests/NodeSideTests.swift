import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@Suite("Appendix A, 8 and 9: what a node may call, and what it may not")
struct NodeSideTests {
  private func withNode(
    client: [String: JSON] = [:], permissions: [String: Bool] = [:], caps: [String] = ["device"],
    _ body: @Sendable (_ gateway: DevGateway, _ node: Peer, _ owner: Peer, _ id: String) async throws -> Void
  ) async throws {
    try await withGateway {
      $0.allow = ["camera.snap", "device.info"]
    } _: { gateway in
      var badge = try Badge.node(gateway.token)
      badge.client.merge(client) { _, new in new }
      badge.permissions = permissions
      badge.caps = caps
      badge.commands = ["camera.snap", "device.info"]
      let node = try await gateway.admit(badge)
      try await body(gateway, node, try await gateway.owner(), badge.deviceID)
    }
  }

  @Test("A8: every event is recorded, with its payload from text or value")
  func recorder() async throws {
    try await withNode { gateway, node, _, id in
      #expect(
        try await node.request("node.event", ["event": "something.new", "payloadJSON": #"{"a":1}"#]) == ["ok": true])
      try await node.request("node.event", ["event": "something.new", "payload": ["a": 2]])
      try await node.request("node.event", ["event": "something.new", "payloadJSON": "no JSON"])
      try await node.request("node.event", ["event": "something.new"])
      let events = await gateway.receivedEvents(named: "something.new")
      #expect(events.map(\.payload) == [["a": 1], ["a": 2], nil, nil])
      #expect(events.first?.nodeID == id)
    }
  }

  @Test(
    "A8: the replies of the events that have one",
    arguments: [
      ("node.presence.alive", #"{"trigger":"connect","sentAtMs":1}"#, true, "persisted"),
      ("node.presence.alive", #"{"trigger":"because"}"#, false, "invalid_payload"),
      ("node.presence.alive", nil, false, "invalid_payload"),
      ("node.presence.activity", #"{"idleSeconds":4}"#, true, "updated"),
      ("node.presence.activity", #"{"idleSeconds":-4}"#, false, "invalid_payload"),
      ("node.presence.activity", #"{"action":"clear"}"#, false, "already_clear"),
      ("exec.finished", #"{"runId":"r"}"#, false, "unmatched_exec_event"),
    ] as [(String, String?, Bool, String)])
  func replies(event: String, payload: String?, handled: Bool, reason: String) async throws {
    try await withNode(permissions: ["accessibility": true]) { gateway, node, _, id in
      let reply = try await node.request(
        "node.event", .object(present: ["event": .string(event), "payloadJSON": payload.map(JSON.string)]))
      #expect(
        reply == ["ok": true, "event": .string(event), "handled": .bool(handled), "reason": .string(reason)])
    }
  }

  @Test("A8: being alive is what node.list says was seen last")
  func lastSeen() async throws {
    try await withNode { gateway, node, owner, id in
      try await node.request("node.event", ["event": "node.presence.alive", "payload": ["trigger": "manual"]])
      let described = try await owner.request("node.describe", ["nodeId": .string(id)])
      #expect(described["lastSeenReason"] == "manual")
      let activity = try await node.request(
        "node.event", ["event": "node.presence.activity", "payload": ["idleSeconds": 1]])
      #expect(activity["reason"] == "permission_required")
    }
  }

  @Test("A8: a push registration is checked")
  func push() async throws {
    try await withNode { gateway, node, _, _ in
      let token = JSON.string(String(repeating: "ab", count: 32))
      let relay: [String: JSON] = [
        "transport": "relay", "topic": "ai.example", "environment": "production", "relayHandle": "h",
        "installationId": "i", "sendGrant": "g", "distribution": "official",
      ]
      let cases: [(JSON, Bool)] = [
        (["token": token, "topic": "ai.example"], true), (["token": "<abab>", "topic": "ai.example"], false),
        (["token": token], false), (.object(relay), true),
        (.object(relay.merging(["distribution": "other"]) { _, new in new }), false),
        (.object(relay.merging(["sendGrant": "a b"]) { _, new in new }), false),
      ]
      for (payload, isGood) in cases {
        let error = try await node.error("node.event", ["event": "push.apns.register", "payload": payload])
        #expect((error == nil) == isGood, "\(payload.text)")
      }
    }
  }

  @Test("A8: a phone in the background has its action kept, pulls it and acknowledges it")
  func foregroundQueue() async throws {
    let phone: [String: JSON] = ["id": "openclaw-ios", "platform": "iOS 26.1", "deviceFamily": "iPhone"]
    try await withNode(client: phone) { gateway, node, owner, id in
      async let error = owner.error(
        "node.invoke", ["nodeId": .string(id), "command": "camera.snap", "params": ["q": 1], "idempotencyKey": "k"])
      _ = try await node.answer([
        "ok": false, "error": ["code": "NODE_BACKGROUND_UNAVAILABLE", "message": "app is in background"],
      ])
      let found = try await error
      #expect(found?.detailsCode == "QUEUED_UNTIL_FOREGROUND")
      #expect(found?.retryable == true)
      let pulled = try await node.request("node.pending.pull", [:])
      let action = try #require(pulled["actions"]?.array?.first)
      #expect(action["command"] == "camera.snap")
      #expect(action["paramsJSON"] == #"{"q":1}"#)
      let acked = try await node.request("node.pending.ack", ["ids": [try #require(action["id"]), "other"]])
      #expect(acked["ackedIds"] == [try #require(action["id"])])
      #expect(acked["remainingCount"] == 0)
      #expect(try await node.error("node.pending.ack", ["ids": []])?.code == "INVALID_REQUEST")
    }
  }

  @Test("A8: only phones have their actions kept")
  func noQueueForDesktops() async throws {
    try await withNode { gateway, node, owner, id in
      async let error = owner.error(
        "node.invoke", ["nodeId": .string(id), "command": "camera.snap", "idempotencyKey": "k"])
      _ = try await node.answer(["ok": false, "error": ["code": "NODE_BACKGROUND_UNAVAILABLE", "message": "locked"]])
      #expect(try await error?.details?["nodeError"]?["code"] == "NODE_BACKGROUND_UNAVAILABLE")
      #expect(try await node.request("node.pending.pull", [:])["actions"] == [])
    }
  }

  @Test("A8: small jobs are enqueued by operators and drained by the node, the urgent first")
  func workQueue() async throws {
    try await withNode { gateway, node, owner, id in
      let idle = try await node.request("node.pending.drain", [:])
      #expect(idle["items"]?.array?.first?["type"] == "status.request", "there is always a status to tell")
      for (type, priority) in [
        ("status.request", "normal"), ("location.request", "high"), ("status.request", "normal"),
      ] {
        let queued = try await owner.request(
          "node.pending.enqueue",
          ["nodeId": .string(id), "type": .string(type), "priority": .string(priority), "expiresInMs": 60_000])
        #expect(queued["queued"]?["type"]?.string == type)
      }
      let first = try await node.request("node.pending.drain", ["maxItems": 1])
      #expect(first["items"]?.array?.map { $0["type"]?.string } == ["location.request"])
      #expect(first["hasMore"] == true)
      let rest = try await node.request("node.pending.drain", [:])
      #expect(rest["items"]?.array?.count == 1, "one job a type")
      #expect(rest["hasMore"] == false)
      #expect(try await node.error("node.pending.drain", ["maxItems": 11]) != nil)
      let wrong = try await owner.error("node.pending.enqueue", ["nodeId": .string(id), "type": "other"])
      #expect(wrong?.code == "INVALID_REQUEST")
    }
  }

  @Test("A8: a plugin surface's URL is renewed")
  func surface() async throws {
    try await withNode(caps: ["canvas"]) { gateway, node, _, _ in
      let old = try #require(await node.hello?["pluginSurfaceUrls"]?["canvas"]?.string)
      let fresh = try await node.request(
        "node.pluginSurface.refresh", ["surface": "canvas", "observedUrl": .string(old)])
      #expect(fresh["surface"] == "canvas")
      #expect(fresh["pluginSurfaceUrls"]?["canvas"]?.string != old)
      #expect(try #require(fresh["expiresAtMs"]?.int) > WallClock.milliseconds())
      #expect(try await node.error("node.pluginSurface.refresh", ["surface": "tv"]) != nil)
    }
  }

  @Test("A8: hosts upload tools and skills")
  func uploads() async throws {
    try await withNode { gateway, node, _, _ in
      #expect(try await node.request("node.pluginTools.update", ["tools": []]) == ["ok": true])
      #expect(try await node.request("node.skills.update", ["skills": []]) == ["ok": true])
      let many = JSON.array([JSON](repeating: 1, count: 65))
      let error = try await node.error("node.skills.update", ["skills": many])
      #expect(error?.code == "INVALID_REQUEST")
    }
  }

  @Test("A9: a node that calls an operator's method is refused, and at the eleventh in a row put out")
  func flood() async throws {
    try await withNode { gateway, node, _, _ in
      for _ in 0..<9 {
        let error = try await node.error("node.list", [:])
        #expect(error?.code == "INVALID_REQUEST")
        #expect(error?.message == "unauthorized role: node")
      }
      try await node.request("node.event", ["event": "x"])
      for method in ["node.list", "no.such.method", "config.set"] + [String](repeating: "node.invoke", count: 8) {
        #expect(try await node.error(method, [:])?.message == "unauthorized role: node")
      }
      #expect(try await node.end() == Closure(code: 1008, reason: "repeated unauthorized calls", isClean: true))
    }
  }

  @Test("A9: an operator may not call a node's methods, nor those that do not exist, nor those beyond its scopes")
  func operatorGate() async throws {
    try await withNode { gateway, _, owner, id in
      #expect(try await owner.error("node.event", ["event": "x"])?.message == "unauthorized role: operator")
      #expect(try await owner.error("node.invoke.result", [:])?.message == "unauthorized role: operator")
      #expect(try await owner.error("no.such.method", [:])?.message == "unknown method: no.such.method")
      var reader = try Badge.owner(gateway.token)
      reader.scopes = ["operator.read"]
      let peer = try await gateway.admit(reader)
      try await peer.request("node.list", [:])
      let error = try await peer.error("node.invoke", ["nodeId": .string(id), "command": "x", "idempotencyKey": "k"])
      #expect(
        error?.details == [
          "code": "MISSING_SCOPE", "missingScope": "operator.write", "requiredScopes": ["operator.write"],
        ])
      #expect(await peer.events("device.pair.resolved").isEmpty)
    }
  }

  @Test(
    "A9: what is no request is answered with the id it had, and the socket stays",
    arguments: [
      ("[]", "invalid"), ("nonsense", "invalid"), (#"{"type":"req"}"#, "invalid"),
      (#"{"type":"res","id":"a","ok":true}"#, "a"), (#"{"type":"req","id":"b"}"#, "b"),
      (#"{"type":"req","id":"c","method":"health","extra":1}"#, "c"),
      (#"{"type":"req","id":7,"method":"x"}"#, "invalid"),
    ])
  func invalidFrames(text: String, id: String) async throws {
    try await withNode { _, node, owner, _ in
      try await owner.send(text)
      let response = try await owner.response(to: id)
      #expect(response.error?.code == "INVALID_REQUEST")
      #expect(response.error?.message.hasPrefix("invalid request frame:") == true)
      try await owner.request("health")
    }
  }

  @Test("A9: a request in a binary message counts")
  func binary() async throws {
    try await withNode { _, _, owner, _ in
      try await owner.socket.send(Array(#"{"type":"req","id":"bin","method":"health"}"#.utf8), text: false)
      #expect(try await owner.response(to: "bin").error == nil)
    }
  }
}
