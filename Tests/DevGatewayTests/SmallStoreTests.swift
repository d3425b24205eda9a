import GatewayProtocol
import TestSupport
import Testing

@testable import DevGateway

@Suite("Setup codes, the lock-out, the queues and the registry, as values")
struct SmallStoreTests {
  @Test("a code belongs to the first device that shows it, for its roles, until it is used, refused or old")
  func codes() {
    let codes = Held(SetupCodes())
    let full = codes.it.issue(.full, nowMs: 0)
    let node = codes.it.issue(.node, nowMs: 0)
    func show(_ token: String, _ device: String = "d", _ role: String = "node", at nowMs: Int64 = 1) -> Bool {
      codes.it.present(token, deviceID: device, publicKey: "k", role: role, nowMs: nowMs) != nil
    }
    #expect(!show("x"))
    #expect(show(full.token))
    #expect(!show(full.token, "other"))
    #expect(show(full.token, "d", "operator"))
    #expect(!show(node.token, "d", "operator"))
    #expect(!show(full.token, at: SetupCodes.lifeMs + 1))
    #expect(codes.with { $0.complete(full.token) } != nil)
    #expect(codes.with { $0.complete(full.token) } == nil)
    #expect(!show(full.token))
    #expect(show(node.token, "e"))
    codes.it.revoke(boundTo: "e", publicKey: "k")
    #expect(!show(node.token, "e"))
    #expect(codes.with { $0.status(node.setupID, nowMs: 2) }?.status == .revoked)
  }

  @Test("who is approved by a code alone")
  func autoApproval() {
    func client(_ id: String, _ platform: String, _ family: String?) -> ConnectParams.Client {
      ConnectParams.Client(id: id, mode: "node", version: "1", platform: platform, deviceFamily: family)
    }
    #expect(SetupProfile.node.approves(client("node-host", "linux", "Linux")))
    #expect(!SetupProfile.node.approves(client("openclaw-ios", "ios", "iPhone")))
    #expect(SetupProfile.full.approves(client("openclaw-ios", "iOS 26.1", "iPhone")))
    #expect(!SetupProfile.full.approves(client("openclaw-ios", "linux", "Linux")))
    #expect(SetupProfile.limited.approves(client("openclaw-android", "android", nil)))
    #expect(!SetupProfile.full.approves(client("node-host", "linux", "Linux")))
  }

  @Test("ten failures in a minute lock for five; older ones are forgotten; kinds and addresses are apart")
  func rateLimit() {
    let limit = Held(RateLimit())
    let key = RateLimit.Key(address: "a", credential: "shared")
    for second in 0..<9 { limit.it.failed(key, nowMs: Int64(second) * 1000) }
    limit.it.failed(key, nowMs: 61_000)
    #expect(limit.with { $0.wait(key, nowMs: 61_000) } == nil, "the first two are over a minute old")
    limit.it.failed(key, nowMs: 61_001)
    limit.it.failed(key, nowMs: 61_002)
    #expect(limit.with { $0.wait(key, nowMs: 61_002) } == 300_000)
    #expect(limit.with { $0.wait(RateLimit.Key(address: "b", credential: "shared"), nowMs: 61_003) } == nil)
    #expect(limit.with { $0.wait(RateLimit.Key(address: "a", credential: "device-token"), nowMs: 61_003) } == nil)
    #expect(limit.with { $0.wait(key, nowMs: 361_002) } == nil)
  }

  private func entry(_ id: String, on connection: Int) -> InvokeRegistry.Entry {
    InvokeRegistry.Entry(
      id: id, nodeID: "n", connection: connection, command: "c", sendsCancel: false, caller: .agent,
      asked: DevGateway.Asked(nodeID: "n", command: "c", idempotencyKey: "k"))
  }

  @Test("an invoke ends once, from its own connection; a lost connection ends all of its own")
  func registry() {
    let registry = Held(InvokeRegistry())
    for (id, connection) in [("a", 1), ("b", 1), ("c", 2)] { registry.it.begin(entry(id, on: connection)) }
    #expect(registry.with { $0.end("a", from: 2) } == nil)
    #expect(registry.with { $0.end("a", from: 1) }?.id == "a")
    #expect(registry.with { $0.end("a", from: 1) } == nil)
    #expect(registry.with { $0.lose(1) }.map(\.id) == ["b"])
    #expect(registry.with { $0.giveUp("b") } == nil)
    #expect(registry.with { $0.giveUp("c") }?.id == "c")
    #expect(registry.it.entries.isEmpty)
  }

  @Test("chunks in any order come out in order; strangers, repeats, large ones and too many are not taken")
  func progress() {
    var random = SeededRandom()
    let stream = Held(InvokeRegistry.Stream())
    for seq in (0..<100).shuffled(using: &random) { #expect(stream.with { $0.add("\(seq)", seq: Int64(seq)) }) }
    #expect(stream.it.chunks == (0..<100).map(String.init), "seed \(random.seed)")
    #expect(!stream.with { $0.add("again", seq: 5) })
    #expect(!stream.with { $0.add(String(repeating: "x", count: 16_385), seq: 100) })
    for seq in 0..<128 { #expect(stream.with { $0.add("x", seq: Int64(200 + seq)) }) }
    #expect(!stream.with { $0.add("x", seq: 500) })
    // The one that they wait for is taken all the same.
    #expect(stream.with { $0.add("x", seq: 100) })
    let registry = Held(InvokeRegistry())
    registry.it.begin(entry("a", on: 1))
    #expect(registry.with { $0.progress("a", from: 2, seq: 0, chunk: "") } == nil)
    #expect(registry.with { $0.progress("a", from: 1, seq: 0, chunk: "") } == true)
    #expect(registry.with { $0.nextInput("a") }?.seq == 0)
    #expect(registry.with { $0.nextInput("a") }?.seq == 1)
    #expect(registry.with { $0.nextInput("b") } == nil)
  }

  @Test("parked actions: once a key, 64 at most, ten minutes")
  func parked() {
    let queues = Held(PendingQueues())
    func action(_ key: String, _ nowMs: Int64) -> PendingQueues.Action {
      PendingQueues.Action(id: key, command: "camera.snap", paramsText: nil, idempotencyKey: key, enqueuedAtMs: nowMs)
    }
    for number in 0..<70 { queues.it.park(action("k\(number)", 0), for: "n") }
    queues.it.park(action("k69", 1), for: "n")
    let pulled = queues.it.pull("n", nowMs: 2)
    #expect(pulled.count == 64)
    #expect(pulled.first?.id == "k6")
    let (known, left) = queues.it.acknowledge(["k6", "zz"], of: "n", nowMs: 3)
    #expect(known == ["k6"])
    #expect(left == 63)
    #expect(queues.with { $0.pull("n", nowMs: PendingQueues.actionLifeMs) }.isEmpty)
  }

  @Test("closed objects name what is wrong and where")
  func closedObject() throws {
    func problem(_ json: JSON) -> String? {
      do throws(SchemaError) {
        _ = try ConnectParams(validating: json)
        return nil
      } catch {
        return error.text
      }
    }
    var good: [String: JSON] = [
      "minProtocol": 3, "maxProtocol": 4,
      "client": ["id": "test", "mode": "node", "version": "1", "platform": "linux"],
    ]
    #expect(problem(.object(good)) == nil)
    #expect(problem(nil) == "at root: must be object")
    #expect(problem([:]) == "at root: must have required property 'minProtocol'")
    let wrong: [(String, JSON, String)] = [
      ("minProtocol", 0, "at /minProtocol: must be >= 1"), ("minProtocol", "3", "at /minProtocol: must be integer"),
      ("scopes", "x", "at /scopes: must be array"), ("caps", [""], "at /caps/0: must NOT have fewer than 1 characters"),
      ("permissions", ["a": 1], "at /permissions/a: must be boolean"), ("locale", nil, "at /locale: must be string"),
      ("device", ["id": "x"], "at /device: must have required property 'publicKey'"),
      ("auth", ["secret": "x"], "at /auth: unexpected property 'secret'"),
      ("client", ["id": "toaster"], "at /client/id: must be equal to one of the allowed values"),
      ("client", [:], "at /client: must have required property 'id'"),
      ("timeZone", "UTC", "at root: unexpected property 'timeZone'"),
    ]
    for (key, value, text) in wrong {
      let old = good[key]
      good[key] = .some(value)
      #expect(problem(.object(good)) == text)
      good[key] = old
    }
  }

  @Test("a close reason is cut between characters to what fits")
  func closeReason() {
    let long = String(repeating: "é", count: 100)
    let refusal = Refusal(WireError(code: "X", message: long))
    #expect(refusal.closeReason == String(repeating: "é", count: 61))
  }
}
