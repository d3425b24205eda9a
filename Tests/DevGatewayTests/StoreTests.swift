import GatewayProtocol
import Synchronization
import TestSupport
import Testing

@testable import DevGateway

/// Ids in order: r1, r2, …
private func counted() -> @Sendable () -> String {
  let next = Atomic<Int>(0)
  let box = Box(next)
  return { "r\(box.value.add(1, ordering: .relaxed).newValue)" }
}

/// A value that macros may call mutating methods of.
private final class Held<Value> {
  var it: Value
  init(_ value: Value) { it = value }
  func with<Result>(_ act: (inout Value) -> Result) -> Result { act(&it) }
}

private final class Box: Sendable {
  let value: Atomic<Int>
  init(_ value: consuming Atomic<Int>) { self.value = value }
}

@Suite("Device requests (protocol §6.3)")
struct DeviceStoreTests {
  private func claim(
    _ role: String = "node", scopes: [String] = [], key: String = "key", name: String? = nil, roles: [String]? = nil
  ) -> DeviceStore.Claim {
    DeviceStore.Claim(
      deviceID: "d", publicKey: key, displayName: name, platform: "linux", deviceFamily: "Linux", clientID: "node-host",
      clientMode: "node", role: role, roles: roles ?? [role], scopes: scopes)
  }

  private var store: DeviceStore { DeviceStore(makeID: counted()) }

  @Test("the same wish keeps its id and its time, takes newer names, and is silent only while both are")
  func refresh() {
    let store = Held(store)
    let first = store.it.request(claim(name: "old"), isSilent: true, nowMs: 10)
    let again = store.it.request(claim(name: "new"), isSilent: false, nowMs: 20)
    #expect(first.isNew && !again.isNew)
    #expect(again.request.requestID == "r1")
    #expect(again.request.tsMs == 10)
    #expect(again.request.claim.displayName == "new")
    #expect(!again.request.isSilent)
    #expect(again.putAside.isEmpty)
  }

  @Test("a wish for fewer scopes is covered by the pending one")
  func narrower() {
    let store = Held(store)
    _ = store.it.request(claim("operator", scopes: [Scope.write]), isSilent: false, nowMs: 0)
    #expect(!store.with { $0.request(claim("operator", scopes: [Scope.read]), isSilent: false, nowMs: 1) }.isNew)
  }

  @Test(
    "more scopes, another role or another key make a new request of the union, and put the old one aside",
    arguments: [
      ("operator", ["operator.read", "operator.write"], "key", ["operator"], ["operator.read", "operator.write"]),
      ("node", [], "key", ["operator", "node"], ["operator.read"]),
      ("operator", ["operator.read"], "other", ["operator"], ["operator.read"]),
    ] as [(String, [String], String, [String], [String])])
  func supersede(role: String, scopes: [String], key: String, roles: [String], union: [String]) {
    let store = Held(store)
    _ = store.it.request(claim("operator", scopes: ["operator.read"]), isSilent: false, nowMs: 0)
    let (request, isNew, putAside) = store.it.request(claim(role, scopes: scopes, key: key), isSilent: false, nowMs: 5)
    #expect(isNew)
    #expect(request.requestID == "r2")
    #expect(request.claim.roles == roles)
    #expect(request.claim.scopes == union)
    #expect(putAside == [DeviceStore.Resolved(requestID: "r1", deviceID: "d", isApproved: false)])
    #expect(store.it.pending.count == 1)
  }

  @Test("a request lives five minutes from the last time it was asked, and is listed by when it was first")
  func life() {
    let store = Held(store)
    let five = DeviceStore.requestLifeMs
    _ = store.it.request(claim(), isSilent: false, nowMs: 0)
    _ = store.it.request(claim(), isSilent: false, nowMs: five)
    #expect(store.with { $0.pendingNow(five * 2) }.map(\.tsMs) == [0])
    #expect(store.with { $0.pendingNow(five * 2 + 1) }.isEmpty)
    #expect(store.with { $0.approve("r1", as: .owner, nowMs: five * 3) } == nil)
  }

  @Test("approvals add up; a second one is a repair; another key starts from nothing")
  func approve() throws {
    let store = Held(store)
    let node = store.it.request(claim(), isSilent: false, nowMs: 0).request
    #expect(!node.isRepair)
    let first = try #require(store.with { $0.approve("r1", as: .owner, nowMs: 1) })
    let token = try #require(first.tokens["node"])
    #expect(store.with { $0.need(of: claim()) } == nil)
    #expect(store.with { $0.need(of: claim("operator")) } == .roleUpgrade)
    #expect(
      store.with { $0.request(claim("operator", scopes: [Scope.write]), isSilent: false, nowMs: 2) }.request.isRepair)
    let both = try #require(store.with { $0.approve("r2", as: .owner, nowMs: 3) })
    #expect(both.claim.roles == ["node", "operator"])
    #expect(both.claim.role == "node")
    #expect(both.createdAtMs == 1 && both.approvedAtMs == 3)
    #expect(both.tokens["node"] == token)
    #expect(both.tokens["operator"]?.scopes == [Scope.read, Scope.write])
    #expect(store.with { $0.need(of: claim("operator", scopes: [Scope.read])) } == nil)
    #expect(store.with { $0.need(of: claim("operator", scopes: [Scope.admin])) } == .scopeUpgrade)
    #expect(store.with { $0.need(of: claim(key: "other")) } == .notPaired)

    _ = store.it.request(claim(key: "other"), isSilent: false, nowMs: 4)
    let replaced = try #require(store.with { $0.approve("r3", as: .owner, nowMs: 5) })
    #expect(replaced.claim.roles == ["node"])
    #expect(replaced.tokens["node"]?.secret != token.secret)
    #expect(replaced.tokens["operator"] == nil)
  }

  @Test("a token counts for its device, key and role until it is rotated or revoked")
  func tokens() throws {
    let store = Held(store)
    _ = store.it.request(claim("operator", scopes: [Scope.read, Scope.pairing]), isSilent: false, nowMs: 0)
    _ = store.it.approve("r1", as: .owner, nowMs: 0)
    let first = try #require(store.with { $0.token(for: "d", role: "operator", nowMs: 1) })
    #expect(store.with { $0.token(for: "d", role: "operator", nowMs: 2) } == first)
    #expect(store.with { $0.token(for: "d", role: "node", nowMs: 2) } == nil)
    func verify(_ secret: String, role: String = "operator", key: String = "key", scopes: [String] = [Scope.read])
      -> DeviceStore.TokenVerdict
    {
      store.it.verify(secret, deviceID: "d", publicKey: key, role: role, scopes: scopes, nowMs: 3)
    }
    #expect(verify(first.secret) == .good)
    #expect(verify(first.secret + "x") == .wrong)
    #expect(verify(first.secret, role: "node") == .wrong)
    #expect(verify(first.secret, key: "other") == .wrong)
    #expect(verify(first.secret, scopes: [Scope.admin]) == .good, "more than approved is a question of pairing")
    let second = try #require(store.with { $0.rotate("d", role: "operator", scopes: [Scope.read], nowMs: 4) })
    #expect(verify(first.secret) == .wrong)
    #expect(verify(second.secret, scopes: [Scope.pairing]) == .narrow)
    #expect(store.with { $0.revoke("d", role: "operator", nowMs: 5) }?.revokedAtMs == 5)
    #expect(verify(second.secret) == .wrong)
    #expect(store.with { $0.token(for: "d", role: "operator", nowMs: 6) }?.secret != second.secret)
    #expect(store.with { $0.rotate("x", role: "operator", scopes: nil, nowMs: 7) } == nil)
  }

  @Test("removing takes the pending requests along")
  func remove() {
    let store = Held(store)
    _ = store.it.request(claim(), isSilent: false, nowMs: 0)
    _ = store.it.approve("r1", as: .silent, nowMs: 0)
    _ = store.it.request(claim("operator"), isSilent: false, nowMs: 0)
    #expect(store.with { $0.remove("d") }?.putAside.map(\.requestID) == ["r2"])
    #expect(store.it.pending.isEmpty)
    #expect(store.with { $0.remove("d") } == nil)
  }

  @Test("random walks: at most one live request a device, and never a token for a role that is not approved")
  func walk() {
    var random = SeededRandom()
    for _ in 0..<50 {
      let store = Held(store)
      var nowMs: Int64 = 0
      for _ in 0..<60 {
        nowMs += Int64.random(in: 0...100_000, using: &random)
        let role = Bool.random(using: &random) ? "node" : "operator"
        let scopes = role == "node" ? [] : [[Scope.read], [Scope.write], [Scope.admin]].randomElement(using: &random)!
        let key = Int.random(in: 0..<10, using: &random) == 0 ? "other" : "key"
        let wish = claim(role, scopes: scopes, key: key)
        switch Int.random(in: 0..<6, using: &random) {
        case 0...2: _ = store.it.request(wish, isSilent: false, nowMs: nowMs)
        case 3:
          if let id = store.it.pendingNow(nowMs).first?.requestID { _ = store.it.approve(id, as: .owner, nowMs: nowMs) }
        case 4: if let id = store.it.pendingNow(nowMs).first?.requestID { _ = store.it.reject(id, nowMs: nowMs) }
        default: if Bool.random(using: &random) { _ = store.it.remove("d") }
        }
        #expect(store.it.pending.count <= 1, "seed \(random.seed)")
        if let device = store.it.paired["d"] {
          #expect(Set(device.tokens.keys).isSubset(of: device.claim.roles), "seed \(random.seed)")
        }
      }
    }
  }
}

@Suite("Surfaces (protocol §6.6)")
struct SurfaceStoreTests {
  private let node = SurfaceStore.Node(nodeID: "n", platform: "linux", version: "1")
  private func surface(_ commands: [String], caps: [String] = ["device"], _ permissions: [String: Bool] = [:])
    -> NodeSurface
  {
    NodeSurface(caps: caps, commands: commands, permissions: permissions)
  }
  private var approved: SurfaceStore {
    var store = SurfaceStore(makeID: counted())
    _ = store.reconcile(node, declares: surface(["a", "b"], ["p": true]), trusted: true, nowMs: 0)
    return store
  }

  @Test("the first surface waits for the owner; until then nothing of it is usable")
  func first() {
    let store = Held(SurfaceStore(makeID: counted()))
    let wish = surface(["a"])
    #expect(store.with { $0.reconcile(node, declares: wish, trusted: false, nowMs: 0) }.opened?.requestID == "r1")
    #expect(store.with { $0.usable(wish, of: "n") } == NodeSurface())
    #expect(store.with { $0.state(of: "n", nowMs: 1) } == .pendingApproval)
    #expect(
      store.with { $0.reconcile(node, declares: wish, trusted: false, nowMs: 2) }.opened == nil, "the same wish again")
    #expect(store.with { $0.approve("r1", nowMs: 3) }?.surface == wish)
    #expect(store.with { $0.usable(wish, of: "n") } == wish)
    #expect(store.with { $0.state(of: "n", nowMs: 4) } == .approved)
  }

  @Test(
    "what needs a new approval, and what does not",
    arguments: [
      (["a", "b"], ["device"], ["p": true], false), (["a"], ["device"], ["p": true], false),
      (["b", "a"], ["device"], ["p": true], false), (["a", "b", "c"], ["device"], ["p": true], true),
      (["a", "b"], ["device", "talk"], ["p": true], true), (["a", "b"], [], ["p": true], true),
      (["a", "b"], ["device"], ["p": false], true), (["a", "b"], ["device"], [:], true),
    ] as [([String], [String], [String: Bool], Bool)])
  func again(commands: [String], caps: [String], permissions: [String: Bool], needs: Bool) {
    let store = Held(approved)
    let wish = NodeSurface(caps: caps, commands: commands, permissions: permissions)
    let (opened, _) = store.it.reconcile(node, declares: wish, trusted: true, nowMs: 1)
    #expect((opened != nil) == needs)
    #expect(store.with { $0.state(of: "n", nowMs: 1) } == (needs ? .pendingReapproval : .approved))
    #expect(Set(store.with { $0.usable(wish, of: "n") }.commands).isSubset(of: ["a", "b"]))
  }

  @Test("another wish takes the place of the pending one; giving the wish up clears it")
  func supersede() {
    let store = Held(approved)
    _ = store.it.reconcile(node, declares: surface(["a", "b", "c"], ["p": true]), trusted: false, nowMs: 1)
    let (opened, resolved) = store.it.reconcile(
      node, declares: surface(["a", "b", "d"], ["p": true]), trusted: false, nowMs: 2)
    #expect(opened?.requestID == "r2")
    #expect(resolved == [SurfaceStore.Resolved(requestID: "r1", nodeID: "n", decision: "rejected")])
    let cleared = store.it.reconcile(node, declares: surface(["a"], ["p": true]), trusted: false, nowMs: 3)
    #expect(cleared.opened == nil)
    #expect(cleared.resolved.map(\.requestID) == ["r2"])
  }

  @Test("a surface that was taken away is not let in by itself again, unless its device is new")
  func removed() {
    let store = Held(approved)
    #expect(store.with { $0.remove("n") } == [])
    #expect(store.with { $0.remove("n") } == nil)
    #expect(store.with { $0.reconcile(node, declares: surface(["a"]), trusted: true, nowMs: 1) }.opened != nil)
    _ = store.it.forget("n")
    #expect(store.with { $0.reconcile(node, declares: surface(["a"]), trusted: true, nowMs: 1) }.opened == nil)
  }

  @Test("a rejected or forgotten request leaves the node unapproved")
  func rejected() {
    let store = Held(SurfaceStore(makeID: counted()))
    _ = store.it.reconcile(node, declares: surface(["a"]), trusted: false, nowMs: 0)
    #expect(store.with { $0.reject("r1", nowMs: 1) } != nil)
    #expect(store.with { $0.state(of: "n", nowMs: 1) } == .unapproved)
    _ = store.it.reconcile(node, declares: surface(["a"]), trusted: false, nowMs: 2)
    #expect(store.with { $0.state(of: "n", nowMs: 3 + DeviceStore.requestLifeMs) } == .unapproved)
  }
}

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
