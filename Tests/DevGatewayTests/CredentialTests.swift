import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@Suite("Appendix A, 4: credentials")
struct CredentialTests {
  @Test("A4: a wrong token, in the words a gateway was seen to use")
  func wrongToken() async throws {
    try await withGateway { gateway in
      let (error, closure) = try await gateway.refusal(of: try Badge.node("wrong"))
      #expect(error.code == "INVALID_REQUEST")
      #expect(error.message == "unauthorized: gateway token mismatch (provide gateway auth token)")
      #expect(
        error.details == [
          "code": "AUTH_TOKEN_MISMATCH", "authReason": "token_mismatch", "canRetryWithDeviceToken": true,
          "recommendedNextStep": "retry_with_device_token",
        ])
      #expect(closure == Closure(code: 1008, reason: error.message, isClean: true))
    }
  }

  @Test(
    "A4: each way of failing has its own code",
    arguments: [
      ([:], nil, "AUTH_TOKEN_MISSING", "update_auth_configuration"),
      ([:], "pw", "AUTH_PASSWORD_MISSING", "update_auth_configuration"),
      (["password": "x"], "pw", "AUTH_PASSWORD_MISMATCH", "update_auth_credentials"),
      (["bootstrapToken": "x"], nil, "AUTH_BOOTSTRAP_TOKEN_INVALID", "update_auth_credentials"),
      (["token": "x", "deviceToken": "y"], nil, "AUTH_DEVICE_TOKEN_MISMATCH", "update_auth_credentials"),
    ] as [([String: JSON], String?, String, String)])
  func failures(auth: [String: JSON], password: String?, code: String, next: String) async throws {
    try await withGateway {
      $0.password = password
    } _: { gateway in
      var badge = try Badge.node("")
      badge.auth = auth
      let (error, _) = try await gateway.refusal(of: badge)
      #expect(error.detailsCode == code)
      #expect(error.details?["recommendedNextStep"]?.string == next)
      #expect(error.details?["canRetryWithDeviceToken"] == false)
    }
  }

  @Test("A4: the shared secret counts in either member, and so does the password")
  func eitherMember() async throws {
    try await withGateway {
      $0.password = "open sesame"
    } _: { gateway in
      for auth in [
        ["token": .string(gateway.token)], ["password": .string(gateway.token)], ["token": "open sesame"],
        ["password": "open sesame"],
      ] as [[String: JSON]] {
        var badge = try Badge.node("")
        badge.auth = auth
        await (try gateway.admit(badge)).close()
      }
    }
  }

  @Test("A4: a device token lets its device in, in either member, for its role only")
  func deviceToken() async throws {
    try await withGateway { gateway in
      let badge = try Badge.node(gateway.token)
      let hello = await (try gateway.admit(badge)).hello
      let token = try #require(hello?["auth"]?["deviceToken"]?.string)
      #expect(token.utf8.count == 43)

      var again = badge
      again.auth = ["token": .string(token)]
      let second = await (try gateway.admit(again)).hello
      #expect(second?["auth"]?["deviceToken"]?.string == token, "the token stays while it suffices")
      #expect(second?["auth"]?["issuedAtMs"] == hello?["auth"]?["issuedAtMs"])
      again.auth = ["deviceToken": .string(token)]
      _ = try await gateway.admit(again)
      again.auth = ["token": "old shared secret", "deviceToken": .string(token)]
      _ = try await gateway.admit(again)

      var talker = Badge.talker("", key: badge.key)
      talker.auth = ["token": .string(token)]
      #expect(try await gateway.refusal(of: talker).error.detailsCode == "AUTH_TOKEN_MISMATCH")
      var other = try Badge.node("")
      other.auth = ["token": .string(token)]
      #expect(try await gateway.refusal(of: other).error.detailsCode == "AUTH_TOKEN_MISMATCH")
    }
  }

  @Test("A4: a token with fewer scopes than are asked for and approved is a scope mismatch")
  func scopeMismatch() async throws {
    try await withGateway { gateway in
      var badge = Badge.talker(gateway.token, key: try SigningKey())
      badge.scopes.append("operator.pairing")
      let peer = try await gateway.admit(badge)
      let own = try await peer.request(
        "device.token.rotate",
        ["deviceId": .string(badge.deviceID), "role": "operator", "scopes": ["operator.read"]])
      #expect(own["scopes"]?.strings == ["operator.read"])
      badge.auth = ["token": try #require(own["token"], "a device is told its own secret")]
      #expect(try await peer.end().code == 4001)
      #expect(try await gateway.refusal(of: badge).error.detailsCode == "AUTH_SCOPE_MISMATCH")
      badge.scopes = ["operator.read"]
      _ = try await gateway.admit(badge)
    }
  }

  @Test("A4: ten failures from a remote address lock it out; from this machine they don't, unless told to")
  func rateLimit() async throws {
    try await withGateway {
      $0.limitsLoopback = true
    } _: { gateway in
      let wrong = try Badge.node("wrong")
      for _ in 0..<10 {
        #expect(try await gateway.refusal(of: wrong).error.detailsCode == "AUTH_TOKEN_MISMATCH")
      }
      let (error, _) = try await gateway.refusal(of: try Badge.node(gateway.token))
      #expect(error.detailsCode == "AUTH_RATE_LIMITED")
      #expect(error.retryable == true)
      #expect(try #require(error.retryAfterMs) > 290_000)
      #expect(error.details?["recommendedNextStep"] == "wait_then_retry")
    }
    try await withGateway { gateway in
      let wrong = try Badge.node("wrong")
      for _ in 0..<12 {
        #expect(try await gateway.refusal(of: wrong).error.detailsCode == "AUTH_TOKEN_MISMATCH")
      }
    }
  }

  @Test("A4: an operator without a device keeps its scopes on this machine, and loses them behind a proxy")
  func deviceless() async throws {
    try await withGateway {
      $0.tls = try ServerIdentity.selfSigned(names: ["localhost"])
    } _: { gateway in
      let badge = try Badge.owner(gateway.token)
      #expect(await (try gateway.admit(badge)).hello?["auth"]?["scopes"]?.strings == badge.scopes)
      let remote = try await gateway.admit(badge, forwarded: true)
      #expect(await remote.hello?["auth"]?["scopes"]?.strings == [])
      let error = try await remote.error("node.list", [:])
      #expect(error?.detailsCode == "MISSING_SCOPE")
    }
  }
}

@Suite("Setup codes (protocol §7)")
struct SetupCodeTests {
  private func bootstrap(_ code: IssuedSetupCode, _ badge: Badge) throws -> Badge {
    let json = try JSON(parsing: try #require(Base64.decode(code.text)))
    var badge = badge
    badge.auth = ["bootstrapToken": try #require(json["bootstrapToken"])]
    return badge
  }

  private var phone: Badge {
    get throws {
      var badge = try Badge.node("")
      badge.client = [
        "id": "openclaw-ios", "mode": "node", "version": "1.0", "platform": "iOS 26.1.0", "deviceFamily": "iPhone",
      ]
      return badge
    }
  }

  @Test("a code holds its gateway's URL, a one-time token, its end, and the certificate's fingerprint")
  func form() async throws {
    try await withGateway {
      $0.tls = try ServerIdentity.selfSigned(names: ["localhost"])
    } _: { gateway in
      let code = await gateway.makeSetupCode(profile: .full)
      let json = try JSON(parsing: try #require(Base64.decode(code.text)))
      #expect(json["url"]?.string == "wss://127.0.0.1:\(gateway.port)")
      #expect(json["bootstrapToken"]?.string?.utf8.count == 43)
      let fingerprint = await gateway.fingerprint.map(hexadecimal)
      #expect(json["tlsFingerprint"]?.string == fingerprint)
      #expect(try #require(json["expiresAtMs"]?.int) - WallClock.milliseconds() <= 600_000)
      #expect(json["urls"] == nil)
      let owner = try await gateway.owner()
      let issued = try await owner.request("device.pair.setupCode", ["bootstrapProfile": "node"])
      #expect(issued["access"] == "node")
      #expect(issued["gatewayUrl"] == json["url"])
    }
  }

  @Test("full becomes limited when one of its URLs is neither TLS nor this machine")
  func downgrade() async throws {
    try await withGateway { gateway in
      let mixed = ["wss://gw.example.lan:18789", "ws://192.168.7.20:18789"]
      #expect(await gateway.makeSetupCode(profile: .full, urls: mixed).profile == .limited)
      #expect(await gateway.makeSetupCode(profile: .full, urls: ["wss://gw.example.lan"]).profile == .full)
      #expect(await gateway.makeSetupCode(profile: .full, urls: ["ws://127.0.0.1:5"]).profile == .full)
      #expect(await gateway.makeSetupCode(profile: .node, urls: mixed).profile == .node)
    }
  }

  @Test("a node code lets our kind of client in at once, surface and all, and only one device")
  func nodeCode() async throws {
    try await withGateway {
      $0.autoApprove = false
    } _: { gateway in
      let code = await gateway.makeSetupCode(profile: .node)
      #expect(await gateway.setupStatus(code.setupID) == "waiting")
      let badge = try bootstrap(code, try Badge.node(""))
      let peer = try await gateway.admit(badge)
      #expect(await peer.hello?["auth"]?["role"] == "node")
      #expect(await peer.hello?["auth"]?["deviceTokens"] == nil)
      #expect(await gateway.setupStatus(code.setupID) == "completed")
      #expect(await gateway.nodes().first?.surface.commands == ["device.info", "device.status"])

      let error = try await gateway.refusal(of: badge).error
      #expect(error.detailsCode == "AUTH_BOOTSTRAP_TOKEN_INVALID", "a code is good for one hello")
      var operatorBadge = Badge.talker("", key: try SigningKey())
      operatorBadge.auth = badge.auth
      #expect(try await gateway.refusal(of: operatorBadge).error.detailsCode == "AUTH_BOOTSTRAP_TOKEN_INVALID")
    }
  }

  @Test("a full code hands a phone its operator token with the node's hello")
  func handOff() async throws {
    try await withGateway {
      $0.autoApprove = false
    } _: { gateway in
      let code = await gateway.makeSetupCode(profile: .full)
      var badge = try bootstrap(code, try phone)
      let hello = await (try gateway.admit(badge)).hello
      let handed = try #require(hello?["auth"]?["deviceTokens"]?.array?.first)
      #expect(handed["role"] == "operator")
      #expect(
        handed["scopes"]?.strings == [
          "operator.admin", "operator.approvals", "operator.read", "operator.talk.secrets", "operator.write",
        ])
      badge.role = .operator
      badge.client["mode"] = "ui"
      badge.scopes = ["operator.read", "operator.write"]
      badge.auth = ["token": try #require(handed["deviceToken"])]
      _ = try await gateway.admit(badge)
    }
  }

  @Test("a client that a full code does not approve waits for the owner with the same code, and then has both roles")
  func waiting() async throws {
    try await withGateway {
      $0.autoApprove = false
    } _: { gateway in
      let code = await gateway.makeSetupCode(profile: .full)
      let badge = try bootstrap(code, try Badge.node(""))
      let (error, closure) = try await gateway.refusal(of: badge)
      #expect(error.detailsCode == "PAIRING_REQUIRED")
      #expect(error.details?["recommendedNextStep"] == "wait_then_retry")
      #expect(error.details?["retryable"] == true)
      #expect(error.details?["pauseReconnect"] == false)
      #expect(closure.code == 1008)
      #expect(await gateway.setupStatus(code.setupID) == "bound")

      let stranger = try bootstrap(code, try Badge.node(""))
      #expect(try await gateway.refusal(of: stranger).error.detailsCode == "AUTH_BOOTSTRAP_TOKEN_INVALID")

      let again = try await gateway.refusal(of: badge).error
      #expect(again.details?["requestId"] == error.details?["requestId"])
      try await gateway.approveDevice(try #require(again.details?["requestId"]?.string))
      let hello = await (try gateway.admit(badge)).hello
      #expect(hello?["auth"]?["deviceTokens"]?.array?.count == 1)
      #expect(await gateway.setupStatus(code.setupID) == "completed")
    }
  }

  @Test("refusing a device makes its code worthless")
  func refused() async throws {
    try await withGateway {
      $0.autoApprove = false
    } _: { gateway in
      let code = await gateway.makeSetupCode(profile: .limited)
      let badge = try bootstrap(code, try Badge.node(""))
      let error = try await gateway.refusal(of: badge).error
      try await gateway.rejectDevice(try #require(error.details?["requestId"]?.string))
      #expect(try await gateway.refusal(of: badge).error.detailsCode == "AUTH_BOOTSTRAP_TOKEN_INVALID")
      #expect(await gateway.setupStatus(code.setupID) == "revoked")
    }
  }

  @Test("a code that is too old")
  func expired() async throws {
    try await withGateway { gateway in
      let code = await gateway.makeSetupCode(profile: .node, life: .milliseconds(-1))
      let badge = try bootstrap(code, try Badge.node(""))
      #expect(try await gateway.refusal(of: badge).error.detailsCode == "AUTH_BOOTSTRAP_TOKEN_INVALID")
      #expect(await gateway.setupStatus(code.setupID) == "expired")
    }
  }
}
