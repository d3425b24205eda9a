import GatewayProtocol
import TestSupport
import Testing

@testable import DevGateway

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
