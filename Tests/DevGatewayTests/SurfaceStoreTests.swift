import GatewayProtocol
import Testing

@testable import DevGateway

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
