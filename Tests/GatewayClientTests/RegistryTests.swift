import Crypto
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing
import Transport

@testable import GatewayClient

@Suite("The registry of gateways")
struct RegistryTests {
  let folder = TemporaryFolder()

  func offer(_ url: String, token: String? = nil) throws -> GatewayOffer {
    try GatewayOffer(endpoint: try #require(Endpoint(url: url)), token: token)
  }

  @Test("keeps what belongs to one gateway from every other, and forgets all of one")
  func separate() async throws {
    let state = try folder.state()
    let registry = GatewayRegistry(state: state)
    let home = try await registry.add(offer("ws://10.0.0.5:18789", token: "home-secret"), nowMs: 1)
    let work = try await registry.add(offer("wss://gw.example.com", token: "work-secret"), nowMs: 2)
    try await registry.updateCredentials(of: home.id) {
      $0.deviceTokens[.node] = Credentials.DeviceToken(token: "home-node", scopes: [], updatedAtMs: 5)
    }
    try await registry.setPin(sha256([1]), for: work.endpoint, of: work.id)
    #expect(home.id == "manual|10.0.0.5|18789" && work.id == "manual|gw.example.com|443")
    #expect(await registry.list().map(\.id) == [home.id, work.id])
    #expect(await registry.active()?.id == work.id)
    #expect(await registry.credentials(for: work.id).deviceTokens.isEmpty)
    #expect(await registry.gateway(work.id)?.pin == sha256([1]))
    #expect(await registry.gateway(home.id)?.pin == nil)

    try await registry.forget(work.id)
    #expect(await registry.list().map(\.id) == [home.id])
    #expect(await registry.active() == nil)
    #expect(await registry.credentials(for: work.id) == Credentials())
    #expect(await registry.credentials(for: home.id).deviceTokens[.node]?.token == "home-node")
    try await registry.use(home.id)
    #expect(await registry.active()?.id == home.id)
    await #expect(throws: LinkError.self) { try await registry.forget(work.id) }
    await #expect(throws: LinkError.self) { try await registry.use(work.id) }
    // A session that ends after the forgetting writes nothing back.
    try await registry.updateCredentials(of: work.id) { $0.sharedToken = "late" }
    #expect(Files.list(state.gateways).count == 1)
  }

  @Test("writes only files that their owner alone can read")
  func modes() async throws {
    let state = try folder.state()
    let registry = GatewayRegistry(state: state)
    let record = try await registry.add(offer("ws://localhost:1", token: "t"))
    try await registry.setApprovedSurface("digest", of: record.id)
    func check(_ path: String) {
      var status = stat()
      #expect(lstat(path, &status) == 0)
      if status.st_mode & S_IFMT == S_IFDIR {
        #expect(status.st_mode & 0o077 == 0, "\(path)")
        for name in Files.list(path) { check(path + "/" + name) }
      } else {
        #expect(status.st_mode & 0o777 == 0o600, "\(path)")
      }
    }
    check(state.path)
  }

  @Test("sets a damaged file aside and goes on with the others")
  func damaged() async throws {
    let state = try folder.state()
    let registry = GatewayRegistry(state: state)
    let home = try await registry.add(offer("ws://10.0.0.5:18789", token: "t"), nowMs: 1)
    let other = try await registry.add(offer("ws://10.0.0.6:18789", token: "u"), nowMs: 2)
    let files = ["credentials.json", "gateway.json"].map { state.gateway(home.id) + "/" + $0 }
    for file in files { try Files.writeAtomically(Array("{\"version\":1,".utf8), to: file) }
    #expect(await registry.credentials(for: home.id) == Credentials())
    #expect(await registry.list().map(\.id) == [other.id])
    let kept = Files.list(state.gateway(home.id))
    #expect(kept.contains { $0.hasPrefix("credentials.json.damaged-") })
    #expect(kept.contains { $0.hasPrefix("gateway.json.damaged-") })
    // Paired again, it is whole again.
    try await registry.add(offer("ws://10.0.0.5:18789", token: "t"), nowMs: 3)
    #expect(await registry.list().count == 2)
  }

  @Test("never takes a pin that can't be read for no pin")
  func damagedPin() async throws {
    let state = try folder.state()
    let registry = GatewayRegistry(state: state)
    let record = try await registry.add(offer("wss://gw.example.com"))
    try await registry.setPin(sha256([7]), for: record.endpoint, of: record.id)
    let file = state.gateway(record.id) + "/gateway.json"
    let text = String(decoding: try Files.read(file), as: UTF8.self)
    try Files.writeAtomically(Array(text.replacing(hexadecimal(sha256([7])), with: "beef").utf8), to: file)
    #expect(await registry.gateway(record.id) == nil)
  }

  @Test("keeps device tokens and pins when a gateway is paired again, and replaces what was given")
  func again() async throws {
    let registry = GatewayRegistry(state: try folder.state())
    let record = try await registry.add(offer("wss://gw.example.com", token: "old"), nowMs: 1)
    try await registry.setPin(sha256([1]), for: record.endpoint, of: record.id)
    try await registry.updateCredentials(of: record.id) {
      $0.deviceTokens[.operator] = Credentials.DeviceToken(token: "op", scopes: ["b", " a", "b"], updatedAtMs: 5)
      $0.removedAtMs = 9
    }
    var code = try offer("wss://gw.example.com")
    code.bootstrapToken = "once"
    let again = try await registry.add(code, nowMs: 2)
    let credentials = await registry.credentials(for: record.id)
    #expect(again.addedAtMs == 1 && again.pin == sha256([1]))
    #expect(credentials.sharedToken == nil && credentials.bootstrapToken == "once")
    #expect(credentials.deviceTokens[.operator]?.scopes == ["a", "b"])
    #expect(credentials.removedAtMs == nil)
  }

  @Test("does not clear a removal for a start that is no person's act")
  func removalStays() async throws {
    let registry = GatewayRegistry(state: try folder.state())
    let record = try await registry.add(offer("ws://localhost:1", token: "t"))
    try await registry.updateCredentials(of: record.id) { $0.removedAtMs = 9 }
    try await registry.add(offer("ws://localhost:1", token: "t"), clearingRemoval: false)
    #expect(await registry.credentials(for: record.id).removedAtMs == 9)
    try await registry.add(offer("ws://localhost:1", token: "t"))
    #expect(await registry.credentials(for: record.id).removedAtMs == nil)
  }

  @Test(
    "gives every id a folder of its own that stays inside",
    arguments: ["../../etc", "a/b", "", ".", "manual|h|1", "ä|ö"])
  func folderNames(id: String) throws {
    let state = try folder.state()
    let path = state.gateway(id)
    #expect(path.hasPrefix(state.gateways + "/"))
    let name = path.dropFirst(state.gateways.count + 1)
    #expect(!name.contains("/") && !name.hasPrefix("."))
    #expect(state.gateway(id + "x") != path)
  }

  @Test("records and credentials survive being written down")
  func roundTrip() throws {
    let primary = try #require(Endpoint(url: "wss://gw.example.com/prefix"))
    let other = try #require(Endpoint(url: "ws://[fe80::1]:18789"))
    let record = GatewayRecord(
      name: "Home", primary: primary, endpoint: other, routes: [other, primary],
      pins: [primary.authority: sha256([1]), other.authority: sha256([2])], addedAtMs: 7)
    #expect(GatewayRecord(json: record.json) == record)
    #expect(record.id == "manual|gw.example.com|443|/prefix")
    var credentials = Credentials(sharedToken: "a", password: "b", bootstrapToken: "c")
    credentials.bootstrappedRoles = [.node]
    credentials.deviceTokens = [
      .node: Credentials.DeviceToken(token: "n", scopes: [], updatedAtMs: 1),
      .operator: Credentials.DeviceToken(token: "o", scopes: ["operator.read"], updatedAtMs: 2),
    ]
    credentials.signature = .v2
    credentials.removedAtMs = 3
    credentials.revokedRoles = [.operator]
    #expect(Credentials(json: credentials.json) == credentials)
    #expect(Credentials(json: Credentials().json) == Credentials())
    #expect(Credentials(json: ["version": 2]) == nil)
  }
}
