import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@Suite("Appendix A, 5 and 6: the three approvals, and what hello-ok brings")
struct PairingTests {
  /// A gateway that approves nothing by itself.
  private func withStranger(_ body: @Sendable (DevGateway, Badge) async throws -> Void) async throws {
    try await withGateway {
      $0.autoApprove = false
    } _: { gateway in
      try await body(gateway, try Badge.node(gateway.token))
    }
  }

  private func requestID(_ error: WireError) throws -> String { try #require(error.details?["requestId"]?.string) }

  @Test("A5: an unpaired device is refused with its request, which stays the same while it asks again")
  func pending() async throws {
    try await withStranger { gateway, badge in
      let owner = try await gateway.owner()
      let (error, closure) = try await gateway.refusal(of: badge)
      let id = try requestID(error)
      #expect(error.code == "NOT_PAIRED")
      #expect(error.message == "pairing required: device is not approved yet")
      #expect(
        error.details == [
          "code": "PAIRING_REQUIRED", "reason": "not-paired", "requestId": .string(id),
          "remediationHint": "Approve this device from the pending pairing requests.",
          "deviceId": .string(badge.deviceID), "requestedRole": "node",
        ])
      #expect(closure == Closure(code: 1008, reason: "\(error.message) (requestId: \(id))", isClean: true))

      #expect(try requestID(try await gateway.refusal(of: badge).error) == id)
      let listed = try #require(try await owner.request("device.pair.list", [:])["pending"]?.array)
      #expect(listed.map { $0["requestId"]?.string } == [id])
      let told = try await owner.event("device.pair.requested")
      #expect(told == listed[0])
      #expect(await owner.events("device.pair.requested").count == 1, "asking again is no news")
    }
  }

  @Test("A5: a request for more takes the place of the old one, and the owner hears of it")
  func supersession() async throws {
    try await withStranger { gateway, badge in
      let owner = try await gateway.owner()
      let first = try requestID(try await gateway.refusal(of: badge).error)
      let talker = Badge.talker(gateway.token, key: badge.key)
      let second = try requestID(try await gateway.refusal(of: talker).error)
      #expect(second != first)
      let resolved = try await owner.event("device.pair.resolved")
      #expect(resolved["requestId"]?.string == first)
      #expect(resolved["decision"] == "rejected")
      let pending = await gateway.pendingDevices()
      #expect(pending.map(\.requestID) == [second])
      #expect(pending.first?.roles == ["node", "operator"])
    }
  }

  @Test("A5: three approvals make a node that talks; the operator's does not disturb the node's socket")
  func threeApprovals() async throws {
    try await withStranger { gateway, badge in
      let owner = try await gateway.owner()
      // 1: the device.
      let first = try requestID(try await gateway.refusal(of: badge).error)
      let approved = try await owner.request("device.pair.approve", ["requestId": .string(first)])
      #expect(approved["device"]?["deviceId"]?.string == badge.deviceID)
      #expect(approved["device"]?["tokens"]?.array?.first?["role"] == "node")
      let node = try await gateway.admit(badge)
      let nodeToken = try #require(await node.hello?["auth"]?["deviceToken"]?.string)

      // 2: the command surface, on the live connection.
      #expect(await gateway.nodes().first?.surface == NodeSurface())
      #expect(await gateway.nodes().first?.approvalState == "pending-approval")
      let surface = try #require(try await owner.request("node.pair.list", [:])["pending"]?.array?.first)
      #expect(surface["commands"]?.strings == ["device.info", "device.status"])
      #expect(surface["requiredApproveScopes"]?.strings == ["operator.pairing", "operator.write"])
      try await owner.request("node.pair.approve", ["requestId": try #require(surface["requestId"])])
      #expect(await gateway.nodes().first?.surface.commands == ["device.info", "device.status"])
      #expect(await gateway.nodes().first?.approvalState == "approved")

      // 3: the operator role.
      let talker = Badge.talker(gateway.token, key: badge.key)
      let (error, closure) = try await gateway.refusal(of: talker)
      #expect(error.details?["reason"] == "role-upgrade")
      #expect(error.details?["approvedRoles"]?.strings == ["node"])
      #expect(error.details?["requestedScopes"]?.strings == ["operator.write", "operator.read"])
      #expect(closure.reason.utf8.count <= 123)
      try await owner.request("device.pair.approve", ["requestId": .string(try requestID(error))])
      let operatorPeer = try await gateway.admit(talker)
      #expect(await operatorPeer.hello?["auth"]?["scopes"]?.strings == ["operator.read", "operator.write"], "sorted")
      let operatorToken = try #require(await operatorPeer.hello?["auth"]?["deviceToken"]?.string)
      #expect(operatorToken != nodeToken)

      #expect(await node.closure == nil)
      var again = badge
      again.auth = ["token": .string(nodeToken)]
      _ = try await gateway.admit(again)
    }
  }

  @Test("A5: more scopes than approved are a scope upgrade, also on a device token")
  func scopeUpgrade() async throws {
    try await withStranger { gateway, badge in
      var talker = Badge.talker(gateway.token, key: badge.key)
      try await gateway.approveDevice(try requestID(try await gateway.refusal(of: talker).error))
      let hello = await (try gateway.admit(talker)).hello
      talker.auth = ["token": try #require(hello?["auth"]?["deviceToken"])]
      talker.scopes.append("operator.approvals")
      let error = try await gateway.refusal(of: talker).error
      #expect(error.details?["reason"] == "scope-upgrade")
      #expect(error.details?["approvedScopes"]?.strings == ["operator.write", "operator.read"])
      try await gateway.approveDevice(try requestID(error))
      talker.auth = ["token": .string(gateway.token)]
      let scopes = await (try gateway.admit(talker)).hello?["auth"]?["scopes"]?.strings
      #expect(scopes == ["operator.approvals", "operator.read", "operator.write"])
    }
  }

  @Test("A5: another platform under a paired id is a metadata upgrade, even on this machine")
  func metadataUpgrade() async throws {
    try await withGateway { gateway in
      var badge = try Badge.node(gateway.token)
      _ = try await gateway.admit(badge)
      badge.client["platform"] = "linux 6.8"
      let error = try await gateway.refusal(of: badge).error
      #expect(error.details?["reason"] == "metadata-upgrade")
      #expect(error.message == "pairing required: device identity changed and must be re-approved")
      try await gateway.approveDevice(try requestID(error))
      _ = try await gateway.admit(badge)
    }
  }

  @Test("A5: a client of this machine is paired without asking, surface and operator role too")
  func silent() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      let badge = try Badge.node(gateway.token)
      _ = try await gateway.admit(badge)
      #expect(await gateway.nodes().first?.surface.commands == ["device.info", "device.status"])
      _ = try await gateway.admit(Badge.talker(gateway.token, key: badge.key))
      #expect(await owner.events("device.pair.requested").isEmpty)
      #expect(try await owner.event("device.pair.resolved")["decision"] == "approved")
    }
  }

  @Test("A5: behind a proxy nobody is paired without asking")
  func forwarded() async throws {
    try await withGateway {
      $0.tls = try ServerIdentity.selfSigned(names: ["localhost"])
    } _: { gateway in
      let badge = try Badge.node(gateway.token)
      let (peer, response) = try await gateway.join(badge, forwarded: true)
      #expect(response.error?.details?["reason"] == "not-paired")
      #expect(try await peer.end().code == 1008)
      let listed = try #require(await gateway.pendingDevices().first)
      try await gateway.approveDevice(listed.requestID)
      _ = try await gateway.admit(badge, forwarded: true)
      #expect(
        await gateway.pendingSurfaces().map(\.nodeID) == [badge.deviceID], "an owner's approval is of the device only")
    }
  }

  @Test("A5: a removed device is closed with 4001, its token is worthless, and it can ask again")
  func removal() async throws {
    try await withStranger { gateway, badge in
      try await gateway.approveDevice(try requestID(try await gateway.refusal(of: badge).error))
      let node = try await gateway.admit(badge)
      let owner = try await gateway.owner()
      try await owner.request("device.pair.remove", ["deviceId": .string(badge.deviceID)])
      #expect(try await node.end() == Closure(code: 4001, reason: "device removed", isClean: true))
      var again = badge
      again.auth = ["token": try #require(await node.hello?["auth"]?["deviceToken"])]
      #expect(try await gateway.refusal(of: again).error.detailsCode == "AUTH_TOKEN_MISMATCH")
      #expect(try await gateway.refusal(of: badge).error.details?["reason"] == "not-paired")
    }
  }

  @Test("A5: nobody gives away more than they hold")
  func approverScopes() async throws {
    try await withStranger { gateway, badge in
      var clerk = try Badge.owner(gateway.token)
      clerk.scopes = ["operator.pairing"]
      let peer = try await gateway.admit(clerk)
      var talker = Badge.talker(gateway.token, key: badge.key)
      talker.scopes = ["operator.admin"]
      let id = try requestID(try await gateway.refusal(of: talker).error)
      let error = try await peer.error("device.pair.approve", ["requestId": .string(id)])
      #expect(error?.detailsCode == "MISSING_SCOPE")
      #expect(error?.details?["missingScope"] == "operator.admin")

      let node = try requestID(try await gateway.refusal(of: try Badge.node(gateway.token)).error)
      try await peer.request("device.pair.approve", ["requestId": .string(node)])
    }
  }

  @Test("A5: rejecting, renaming, and requests that are none")
  func otherCalls() async throws {
    try await withStranger { gateway, badge in
      let owner = try await gateway.owner()
      let id = try requestID(try await gateway.refusal(of: badge).error)
      try await owner.request("device.pair.reject", ["requestId": .string(id)])
      #expect(try await owner.error("device.pair.approve", ["requestId": .string(id)])?.message == "unknown requestId")
      #expect(try await owner.error("device.pair.remove", ["deviceId": "x"])?.message == "unknown deviceId")
      #expect(
        try await owner.error("device.pair.approve", ["requestId": "x", "y": 1])?.message
          == "invalid device.pair.approve params: at root: unexpected property 'y'")
      try await gateway.approveDevice(try requestID(try await gateway.refusal(of: badge).error))
      let renamed = try await owner.request(
        "device.pair.rename", ["deviceId": .string(badge.deviceID), "label": "Desk"])
      #expect(renamed["displayName"] == "Desk")
      _ = try await gateway.admit(badge)
      try await gateway.approveSurface(try #require(await gateway.pendingSurfaces().first).requestID)
      try await owner.request("node.rename", ["nodeId": .string(badge.deviceID), "displayName": "Table"])
      #expect(await gateway.nodes().first?.displayName == "Desk", "the owner's label of the device goes first")
    }
  }

  @Test("A5: rotating or revoking a token closes the sockets of that role only")
  func tokens() async throws {
    try await withGateway { gateway in
      let badge = try Badge.node(gateway.token)
      let node = try await gateway.admit(badge)
      let talker = try await gateway.admit(Badge.talker(gateway.token, key: badge.key))
      let owner = try await gateway.owner()
      let answer = try await owner.request(
        "device.token.rotate", ["deviceId": .string(badge.deviceID), "role": "node"])
      #expect(answer["token"] == nil, "a secret is told to its own device only")
      #expect(
        try await node.end() == Closure(code: 4001, reason: "client invalidated: device-token-rotated", isClean: true))
      #expect(await talker.closure == nil)

      try await owner.request("device.token.revoke", ["deviceId": .string(badge.deviceID), "role": "operator"])
      #expect(try await talker.end().reason == "client invalidated: device-token-revoked")
      var again = Badge.talker("", key: badge.key)
      again.auth = ["token": try #require(await talker.hello?["auth"]?["deviceToken"])]
      #expect(try await gateway.refusal(of: again).error.detailsCode == "AUTH_TOKEN_MISMATCH")
      #expect(try await owner.error("device.token.revoke", ["deviceId": "x", "role": "node"]) != nil)
    }
  }

  @Test("A6: a node's hello-ok has what a client needs, then come health and voice wake")
  func hello() async throws {
    try await withGateway { gateway in
      let node = try await gateway.admit(try Badge.node(gateway.token))
      let hello = try #require(await node.hello)
      #expect(hello["type"] == "hello-ok")
      #expect(hello["protocol"] == 4)
      #expect(hello["policy"] == ["maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 30_000])
      #expect(hello["features"]?["methods"]?.strings?.contains("node.invoke.result") == true)
      #expect(hello["snapshot"]?["sessionDefaults"]?["mainSessionKey"] == "agent:main:main")
      #expect(hello["snapshot"]?["stateVersion"]?.object?.keys.sorted() == ["health", "presence"])
      try await node.event("voicewake.routing.changed")
      let order = await node.frames.compactMap { $0["event"]?.string ?? $0["type"]?.string }
      #expect(order == ["connect.challenge", "res", "health", "voicewake.changed", "voicewake.routing.changed"])
      #expect(await node.events("voicewake.changed").first?["seq"] == nil)
      #expect(await node.events("health").first?["seq"] == 1)
    }
  }

  @Test("A6: voice wake may come before hello-ok")
  func early() async throws {
    try await withGateway {
      $0.earlyEvents = true
    } _: { gateway in
      let node = try await gateway.admit(try Badge.node(gateway.token))
      let order = await node.frames.compactMap { $0["event"]?.string ?? $0["type"]?.string }
      #expect(order.prefix(4) == ["connect.challenge", "voicewake.changed", "voicewake.routing.changed", "res"])
    }
  }

  @Test("A6: ticks come on the period that hello-ok tells, numbered with the other broadcasts")
  func ticks() async throws {
    try await withGateway {
      $0.tickInterval = .milliseconds(10)
    } _: { gateway in
      let owner = try await gateway.owner()
      #expect(await owner.hello?["policy"]?["tickIntervalMs"] == 10)
      let tick = try await owner.event("tick", nth: 2)
      #expect(try #require(tick["ts"]?.int) > 0)
      let numbers = await owner.frames.compactMap { $0["seq"]?.int }
      #expect(numbers == Array(1...Int64(numbers.count)))
    }
  }

  @Test("A6: a presence broadcast when a node goes")
  func presence() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      let node = try await gateway.admit(try Badge.node(gateway.token))
      let listed = try await owner.request("system-presence")
      #expect(listed.array?.count == 2)
      await node.close()
      let presence = try await owner.event("presence")
      #expect(presence["presence"]?.array?.count == 1)
      #expect(await owner.events("presence").first?["stateVersion"]?["presence"] != nil)
    }
  }
}
