import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

/// A run recorded from a real gateway (Tests/Conformance/lifecycle-v4.jsonl).
struct Recording: Sendable {
  struct Line: Sendable {
    let connection: Int64
    /// `open`, `c2s`, `s2c`, `c2s-close` or `s2c-close`.
    let direction: String
    let frame: JSON
  }
  let lines: [Line]

  static func file(_ name: String) throws -> [UInt8] {
    let folder = #filePath.split(separator: "/").dropLast(2).joined(separator: "/")
    return try Files.read("/\(folder)/Conformance/\(name)")
  }

  init() throws {
    lines = try Self.file("lifecycle-v4.jsonl").split(separator: UInt8(ascii: "\n")).map { text in
      let json = try JSON(parsing: text)
      return Line(
        connection: try #require(json["conn"]?.int), direction: try #require(json["dir"]?.string),
        frame: try #require(json["frame"]))
    }
  }

  func frames(_ direction: String) -> [Line] { lines.filter { $0.direction == direction } }

  /// The recorded answer to a request.
  func answer(to request: Line) throws -> JSON {
    try #require(
      lines.first {
        $0.connection == request.connection && $0.direction == "s2c" && $0.frame["id"] == request.frame["id"]
      }
    ).frame
  }
}

/// What differs from run to run and is only compared by its kind.
private let volatile: Set<String> = [
  "requestId", "connId", "ts", "deviceId", "nodeId", "publicKey", "token", "deviceToken", "issuedAtMs", "createdAtMs",
  "approvedAtMs", "connectedAtMs", "lastSeenAtMs", "lastConnectedAtMs", "uptimeMs", "version", "nonce", "id", "seq",
  "presence",
  "health", "displayName", "methods", "events", "stateVersion", "updatedAtMs", "tokens", "configPath", "stateDir",
  "minimumProbeProtocol", "payload", "pending", "paired", "nodes", "idempotencyKey", "paramsJSON", "payloadJSON",
  "reason",
  "lastSeenReason", "clientMinProtocol", "clientMaxProtocol",
]

/// Whether `ours` has every member of `theirs`, with the same value where it does not differ from run to run.
private func compare(_ ours: JSON?, _ theirs: JSON, _ path: String) {
  switch theirs {
  case .object(let members):
    guard let object = ours?.object else {
      Issue.record("\(path) is no object: \(String(describing: ours))")
      return
    }
    // Where the recorder has trimmed, there is nothing to compare; paths of the recorded machine are its own.
    if members["trimmed"] != nil { return }
    for (key, value) in members where !["configPath", "stateDir"].contains(key) {
      guard let own = object[key] else {
        Issue.record("\(path).\(key) is missing")
        continue
      }
      if volatile.contains(key) {
        #expect(kind(own) == kind(value), "\(path).\(key)")
      } else {
        compare(own, value, "\(path).\(key)")
      }
    }
  default: #expect(ours == theirs, "\(path)")
  }
}

private func kind(_ json: JSON) -> String {
  switch json {
  case .null: "null"
  case .bool: "bool"
  case .int, .double: "number"
  case .string: "string"
  case .array: "array"
  case .object: "object"
  }
}

@Suite("The recorded life of a node, replayed")
struct LifecycleTests {
  /// The identity of the recording, played by a key of ours; its secrets are redacted anyway.
  private func badge(_ connect: Recording.Line, key: SigningKey, token: String) throws -> Badge {
    let params = try #require(connect.frame["params"])
    var badge = Badge(
      key: key, role: try #require(Role(rawValue: params["role"]?.string ?? "")),
      client: try #require(params["client"]?.object), scopes: params["scopes"]?.strings ?? [],
      caps: params["caps"]?.strings ?? [], commands: params["commands"]?.strings ?? [], auth: ["token": .string(token)],
      minProtocol: try #require(params["minProtocol"]?.int), maxProtocol: try #require(params["maxProtocol"]?.int),
      sendsDevice: params["device"] != nil)
    // The recorder sent no permissions.
    badge.tamper = { $0["permissions"] = nil }
    return badge
  }

  @Test("every recorded frame is read and written back unchanged")
  func coder() throws {
    var count = 0
    for line in try Recording().lines where line.direction == "c2s" || line.direction == "s2c" {
      let frame = try Frame(json: line.frame, closed: true)
      #expect(frame.json == line.frame)
      #expect(try Frame(decoding: frame.encoded(), closed: true) == frame)
      count += 1
    }
    #expect(count > 70)
  }

  @Test("the refusals before pairing have the recorded codes, words, members and closes")
  func refusals() async throws {
    let recording = try Recording()
    try await withGateway {
      $0.tls = try ServerIdentity.selfSigned(names: ["localhost"])
    } _: { gateway in
      let key = try SigningKey()
      let faults = ["token", "signature", "id", "nonce", "late", "protocol", "bogus", "unpaired"]
      for (offset, fault) in faults.enumerated() {
        let recorded = try #require(recording.frames("c2s").first { $0.connection == Int64(offset + 2) })
        var badge = try badge(recorded, key: key, token: fault == "token" ? "wrong" : gateway.token)
        let base = badge.tamper
        badge.tamper = { params in
          base(&params)
          var device = params["device"]?.object ?? [:]
          switch fault {
          case "signature": device["signature"] = .string(Base64.encodeURL([UInt8](repeating: 1, count: 64)))
          case "id": device["id"] = .string(String(repeating: "0", count: 64))
          case "nonce": device["nonce"] = "other"
          case "bogus": params["bogus"] = 1
          default: break
          }
          params["device"] = .object(device)
        }
        if fault == "late" { badge.lateMs = -3_600_000 }
        let (peer, response) = try await gateway.join(badge, forwarded: true)
        let theirs = try recording.answer(to: recorded)
        let ours = Frame.response(response).json
        compare(ours, theirs, fault)
        #expect(ours["error"]?["details"]?["reason"] == theirs["error"]?["details"]?["reason"], "\(fault)")
        let end = try await peer.end()
        let close = try #require(recording.frames("s2c-close").first { $0.connection == recorded.connection }).frame
        #expect(Int64(end.code) == close["code"]?.int, "\(fault)")
        if fault != "unpaired" { #expect(end.reason == close["reason"]?.string) }
      }
    }
  }

  @Test("pairing, approval, invokes, errors and events go as recorded")
  func life() async throws {
    let recording = try Recording()
    @Sendable func recorded(_ method: String, on connection: Int64, nth: Int = 0) throws -> Recording.Line {
      let all = recording.frames("c2s").filter { $0.connection == connection && $0.frame["method"]?.string == method }
      return try #require(all.dropFirst(nth).first)
    }
    @Sendable func recordedEvent(_ name: String, on connection: Int64, nth: Int = 0) throws -> JSON {
      let all = recording.frames("s2c").filter { $0.connection == connection && $0.frame["event"]?.string == name }
      return try #require(all.dropFirst(nth).first).frame
    }
    try await withGateway {
      $0.tls = try ServerIdentity.selfSigned(names: ["localhost"])
    } _: { gateway in
      // The owner.
      let (owner, ownerHello) = try await gateway.join(
        try badge(try recorded("connect", on: 1), key: try SigningKey(), token: gateway.token))
      compare(
        Frame.response(ownerHello).json, try recording.answer(to: try recorded("connect", on: 1)), "operator hello")
      func ask(_ line: Recording.Line, _ params: JSON) async throws -> JSON {
        let response = try await owner.call(try #require(line.frame["method"]?.string), params)
        let ours = Frame.response(response).json
        compare(ours, try recording.answer(to: line), line.frame["method"]?.string ?? "")
        return try response.result.get() ?? .null
      }

      // The device.
      let key = try SigningKey()
      let badge = try badge(try recorded("connect", on: 10), key: key, token: gateway.token)
      let pending = try await gateway.join(badge, forwarded: true).response.error
      compare(
        Frame.event(
          Frame.Event(name: "device.pair.requested", payload: try await owner.event("device.pair.requested"), seq: 1)
        ).json,
        try recordedEvent("device.pair.requested", on: 1), "device.pair.requested")
      let listed = try await ask(try recorded("device.pair.list", on: 1), [:])
      let theirList = try recording.answer(to: try recorded("device.pair.list", on: 1))
      compare(
        listed["pending"]?.array?.first, try #require(theirList["payload"]?["pending"]?.array?.first), "pending entry")
      let id = try #require(pending?.details?["requestId"])
      _ = try await ask(try recorded("device.pair.approve", on: 1), ["requestId": id])
      let theirPaired = try #require(theirList["payload"]?["paired"]?.array?.first)
      let (node, hello) = try await gateway.join(badge, forwarded: true)
      compare(Frame.response(hello).json, try recording.answer(to: try recorded("connect", on: 10)), "node hello")
      let paired = try await owner.request("device.pair.list", [:])["paired"]?.array?.first
      var shape = try #require(theirPaired.object)
      for key in ["clientMode", "platform", "deviceFamily"] { shape[key] = nil }
      compare(paired, .object(shape), "paired entry")

      // The surface.
      for name in ["health", "voicewake.changed", "voicewake.routing.changed"] {
        _ = try await node.event(name)
        compare(await node.events(name)[0], try recordedEvent(name, on: 10), name)
        #expect(
          (await node.events(name)[0]["seq"] == nil) == (try recordedEvent(name, on: 10)["seq"] == nil), "\(name)")
      }
      let surfaces = try await ask(try recorded("node.pair.list", on: 1), [:])
      let theirSurface = try recording.answer(to: try recorded("node.pair.list", on: 1))["payload"]?["pending"]?.array?
        .first
      let surface = try #require(surfaces["pending"]?.array?.first)
      compare(surface, try #require(theirSurface), "surface entry")
      #expect(surface["caps"]?.strings == ["device", "location"])
      _ = try await ask(try recorded("node.pair.approve", on: 1), ["requestId": try #require(surface["requestId"])])
      await node.close()
      _ = try await owner.event("presence")

      // The life.
      var again = badge
      again.auth = ["token": try #require(try hello.result.get()?["auth"]?["deviceToken"])]
      let second = try await gateway.admit(again, forwarded: true)
      let nodes = try await ask(try recorded("node.list", on: 1), [:])
      let theirNodes = try recording.answer(to: try recorded("node.list", on: 1))["payload"]?["nodes"]?.array
      compare(nodes["nodes"]?.array?.first, try #require(theirNodes?.first), "node entry")
      _ = try await ask(try recorded("node.describe", on: 1), ["nodeId": .string(badge.deviceID)])

      for nth in 0..<2 {
        let line = try recorded("node.invoke", on: 1, nth: nth)
        var params = try #require(line.frame["params"]?.object)
        params["nodeId"] = .string(badge.deviceID)
        async let reply = ask(line, .object(params))
        let asked = try await second.event("node.invoke.request", nth: nth)
        let theirs = try recordedEvent("node.invoke.request", on: 11, nth: nth)
        compare(asked, try #require(theirs["payload"]), "invoke request")
        let theirResult = try #require(
          try recorded("node.invoke.result", on: 11, nth: nth).frame["params"]?["payloadJSON"])
        #expect(try await second.answer(nth: nth, ["ok": true, "payloadJSON": theirResult]) == ["ok": true])
        let payload = try await reply
        #expect(payload["payloadJSON"] == theirResult)
        #expect(payload["payload"]?["echo"]?["s"] == "é😀")
      }
      for (nth, answers) in [(2, false), (3, true), (4, false)] {
        let line = try recorded("node.invoke", on: 1, nth: nth)
        var params = try #require(line.frame["params"]?.object)
        params["nodeId"] = .string(badge.deviceID)
        async let error = owner.error("node.invoke", .object(params))
        if answers {
          let failure = try #require(try recorded("node.invoke.result", on: 11, nth: 2).frame["params"]?["error"])
          _ = try await second.answer(nth: 2, ["ok": false, "error": failure])
        }
        let theirs = try #require(try recording.answer(to: line)["error"])
        #expect(try await error?.json == theirs)
      }
      let event = try recorded("node.event", on: 11)
      #expect(try await second.request("node.event", event.frame["params"]) == recording.answer(to: event)["payload"])
      let denied = try await second.error("node.list", [:])
      #expect(denied?.json == (try recording.answer(to: try recorded("node.list", on: 11))["error"]))
    }
  }
}

@Suite("Recorded signatures")
struct SignatureVectorTests {
  @Test("every recorded signature verifies, and none of another payload")
  func verify() throws {
    let vectors = try #require(try JSON(parsing: try Recording.file("signature-vectors.json"))["vectors"]?.array)
    #expect(vectors.count == 5)
    for vector in vectors {
      let payload = try #require(vector["payload"]?.string)
      let key = try #require(Base64.decode(vector["publicKey"]?.string ?? ""))
      let signature = try #require(Base64.decode(vector["signature"]?.string ?? ""))
      #expect(hexadecimal(sha256(key)) == vector["deviceId"]?.string)
      #expect(SigningKey.verify(signature, of: Array(payload.utf8), publicKey: key))
      #expect(!SigningKey.verify(signature, of: Array((payload + " ").utf8), publicKey: key))
      // The payload is what our own coder writes from its parts.
      let parts = payload.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
      let rebuilt = DeviceAuth(
        deviceID: parts[1], clientID: parts[2], clientMode: parts[3], role: parts[4],
        scopes: parts[5].split(separator: ",").map(String.init), signedAtMs: try #require(Int64(parts[6])),
        token: parts[7],
        nonce: parts[8], platform: parts[9], deviceFamily: parts[10])
      #expect(rebuilt.payload(.v3) == payload)
    }
  }
}
