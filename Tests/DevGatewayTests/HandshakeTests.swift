import Crypto
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@testable import DevGateway

@Suite("Appendix A, 1 to 3: challenge, first frame, versions, device proof")
struct HandshakeTests {
  @Test("A1: a socket is greeted with a challenge of a UUID and the gateway's time")
  func challenge() async throws {
    try await withGateway { gateway in
      let peer = try await Peer.open(gateway)
      let payload = try await peer.event("connect.challenge")
      #expect(payload["nonce"]?.string?.split(separator: "-").map(\.count) == [8, 4, 4, 4, 12])
      #expect(abs(try #require(payload["ts"]?.int) - WallClock.milliseconds()) < 60_000)
      #expect(await peer.events("connect.challenge").first?["seq"] == nil)
    }
  }

  @Test("A1: who does not connect in time is closed with 1000 and no reason")
  func silence() async throws {
    try await withGateway {
      $0.handshakeTimeout = .milliseconds(20)
    } _: { gateway in
      let closure = try await Peer.open(gateway).end()
      #expect(closure == Closure(code: 1000, reason: "", isClean: true))
    }
  }

  @Test("A1: with hello-ok or a refusal the handshake's timer is gone")
  func timerEnds() async throws {
    try await withGateway { gateway in
      let peer = try await Peer.open(gateway)
      try await peer.event("connect.challenge")
      #expect(await gateway.handshakeTimers == 1)
      _ = try await gateway.owner()
      _ = try await gateway.refusal(of: try Badge.node("wrong"))
      #expect(await gateway.handshakeTimers == 1)
    }
  }

  @Test(
    "A2: a first frame that is no connect ends the socket, in the words a gateway was seen to use",
    arguments: [
      ("garbage", UInt16(1000), nil),
      (#"{"hello":1}"#, 1008, nil),
      (#"{"type":"event","event":"x"}"#, 1008, nil),
      (
        #"{"type":"req","id":"1","method":"health","params":{}}"#, 1008,
        "invalid handshake: first request must be connect"
      ),
      (#"{"type":"req","id":"1","method":"connect","params":{},"extra":1}"#, 1008, nil),
    ] as [(String, UInt16, String?)])
  func firstFrame(text: String, code: UInt16, message: String?) async throws {
    try await withGateway { gateway in
      let peer = try await Peer.open(gateway)
      try await peer.send(text)
      #expect(try await peer.end().code == code)
      let answer = await peer.frames.first { $0["type"] == "res" }
      #expect(answer?["error"]?["message"]?.string == message)
    }
  }

  @Test("A2: more than 64 KiB before hello-ok is too much, and is allowed after it")
  func preAuthLimit() async throws {
    try await withGateway { gateway in
      let peer = try await Peer.open(gateway)
      try await peer.send(
        #"{"type":"req","id":"1","method":"connect","params":""# + String(repeating: "x", count: 65_536) + "\"}")
      #expect(try await peer.end().code == 1009)

      let owner = try await gateway.owner()
      let text = String(repeating: "x", count: 100_000)
      let error = try await owner.error("health", ["x": .string(text)])
      #expect(error == nil)
    }
  }

  @Test("A2: connect params are a closed object")
  func closedParams() async throws {
    try await withGateway { gateway in
      var badge = try Badge.node(gateway.token)
      badge.tamper = { $0["bogus"] = 1 }
      let (error, closure) = try await gateway.refusal(of: badge)
      #expect(error.code == "INVALID_REQUEST")
      #expect(error.message == "invalid connect params: at root: unexpected property 'bogus'")
      #expect(closure == Closure(code: 1008, reason: error.message, isClean: true))
    }
  }

  @Test("A2: a role that is none")
  func badRole() async throws {
    try await withGateway { gateway in
      var badge = try Badge.node(gateway.token)
      badge.tamper = { $0["role"] = "boss" }
      let (error, closure) = try await gateway.refusal(of: badge)
      #expect(error.message == "invalid role")
      #expect(closure == Closure(code: 1008, reason: "invalid role", isClean: true))
    }
  }

  @Test("A2: versions that do not meet are told what is expected, and closed with 1002")
  func protocolMismatch() async throws {
    try await withGateway { gateway in
      var badge = try Badge.owner(gateway.token)
      badge.minProtocol = 3
      badge.maxProtocol = 3
      let (error, closure) = try await gateway.refusal(of: badge)
      #expect(error.message == "protocol mismatch")
      #expect(error.detailsCode == "PROTOCOL_MISMATCH")
      #expect(error.details?["expectedProtocol"] == 4)
      #expect(error.details?["clientMinProtocol"] == 3)
      #expect(closure == Closure(code: 1002, reason: "protocol mismatch", isClean: true))
    }
  }

  @Test("A2: the window of protocol 3 is open to nodes, which then get no plugin surface")
  func legacyNode() async throws {
    try await withGateway { gateway in
      var badge = try Badge.node(gateway.token)
      badge.caps = ["canvas", "device"]
      badge.commands = ["canvas.present", "device.info"]
      #expect(
        try await gateway.admit(badge).hello?["pluginSurfaceUrls"]?["canvas"]?.string?.contains("/__openclaw__/cap/")
          == true)
      badge.maxProtocol = 3
      let peer = try await gateway.admit(badge)
      #expect(await peer.hello?["protocol"] == 4)
      #expect(await peer.hello?["pluginSurfaceUrls"] == nil)
      #expect(await gateway.sessions().last?.declared == NodeSurface(caps: ["device"], commands: ["device.info"]))
    }
  }

  @Test("A2: a second connect is an error, and the socket stays")
  func secondConnect() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      #expect(try await owner.error("connect", [:])?.code == "INVALID_REQUEST")
      _ = try await owner.request("health")
    }
  }

  @Test(
    "A3: a proof that fails is refused at its own step",
    arguments: [
      ("id", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch", "device identity mismatch"),
      ("late", "DEVICE_AUTH_SIGNATURE_EXPIRED", "device-signature-stale", "device signature expired"),
      ("no nonce", "DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing", "device nonce required"),
      ("nonce", "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch", "device nonce mismatch"),
      ("signature", "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature", "device signature invalid"),
      ("everything", "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch", "device identity mismatch"),
    ])
  func proof(fault: String, code: String, reason: String, message: String) async throws {
    try await withGateway { gateway in
      var badge = try Badge.node(gateway.token)
      if fault == "late" { badge.lateMs = -130_000 }
      badge.tamper = { params in
        guard var device = params["device"]?.object else { return }
        switch fault {
        case "id": device["id"] = .string(String(repeating: "0", count: 64))
        case "no nonce": device["nonce"] = " "
        case "nonce": device["nonce"] = "x"
        case "signature": device["signature"] = .string(Base64.encodeURL([UInt8](repeating: 7, count: 64)))
        case "everything": device = ["id": "x", "publicKey": "x", "signature": "x", "signedAt": 0, "nonce": ""]
        default: break
        }
        params["device"] = .object(device)
      }
      let (error, closure) = try await gateway.refusal(of: badge)
      #expect(error.code == "INVALID_REQUEST")
      #expect(error.message == message)
      #expect(error.details == ["code": .string(code), "reason": .string(reason)])
      #expect(closure == Closure(code: 1008, reason: message, isClean: true))
    }
  }

  @Test("A3: version 2 of the signature counts too, and keys may come in base64 or PEM")
  func proofForms() async throws {
    try await withGateway { gateway in
      var badge = try Badge.node(gateway.token)
      badge.version = .v2
      _ = try await gateway.admit(badge)
      let key = badge.key.publicKey
      let pem = Base64.encode([0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00] + key)
      for form in [Base64.encode(key), "-----BEGIN PUBLIC KEY-----\n\(pem)\n-----END PUBLIC KEY-----\n"] {
        badge.tamper = { params in
          guard var device = params["device"]?.object, let signature = device["signature"]?.string else { return }
          device["publicKey"] = .string(form)
          device["signature"] = Base64.decode(signature).map { .string(Base64.encode($0)) }
          params["device"] = .object(device)
        }
        _ = try await gateway.admit(badge)
      }
    }
  }

  @Test("A3: a node has a device; so has an operator who shows no secret")
  func deviceRequired() async throws {
    try await withGateway { gateway in
      var badge = try Badge.node(gateway.token)
      badge.sendsDevice = false
      let (error, closure) = try await gateway.refusal(of: badge)
      #expect(error.code == "NOT_PAIRED")
      #expect(error.detailsCode == "DEVICE_IDENTITY_REQUIRED")
      #expect(closure.reason == "device identity required")
      var owner = try Badge.owner(gateway.token)
      owner.auth = [:]
      #expect(try await gateway.refusal(of: owner).error.detailsCode == "DEVICE_IDENTITY_REQUIRED")
    }
  }
}

extension DevGateway {
  fileprivate var handshakeTimers: Int { connections.values.count { $0.handshakeTimer != nil } }
}
