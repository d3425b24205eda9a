import Crypto
import GatewayClient
import GatewayProtocol
import NodeKit
import System

/// A node of our own parts with one command, which answers 10 MB: no command of the ground floor is as large, a camera's is.
enum BlobNode {
  static let command = "bench.blob"
  static let size = 10_000_000

  static func run(url: String, token: String, state path: String) async throws {
    let loop = EventLoop(name: "io")
    let state = try StateFolder(path: path)
    let registry = GatewayRegistry(state: state)
    let nowMs = WallClock.milliseconds()
    var offer = try GatewayOffer(parsing: url, nowMs: nowMs)
    offer.token = token
    let gateway = try await registry.add(offer)
    let router = CommandRouter(
      modules: [BlobModule()], switches: SwitchStore(path: path + "/switches.json"),
      audit: AuditLog(path: path + "/audit.jsonl"),
      loop: loop)
    await router.start()
    let link = GatewayLink(
      gateway: gateway, identity: try DeviceIdentity.loadOrCreate(in: state), registry: registry,
      client: ClientInfo(
        displayName: "bench", version: "0", modelIdentifier: "bench", instanceID: Random.uuid(), locale: nil,
        userAgent: "bench"),
      loop: loop, surface: { await router.surface() },
      answer: { await router.handle($0, from: .gateway(gateway.id), payloadLimit: $1, answer: $2) },
      cancelInvoke: { await router.cancel($0) })
    await link.start()
    while true { try await Task.sleep(for: .seconds(3600)) }
  }
}

private struct BlobModule: CapabilityModule {
  let capability: Capability = "bench"
  let commands = [Command(BlobNode.command, summary: "Ten megabytes.", gatewayDefault: .needsAllow)]
  private let text =
    Array("{\"format\":\"mp4\",\"base64\":\"".utf8) + [UInt8](repeating: 0x41, count: BlobNode.size) + Array("\"}".utf8)

  func availability() async -> Availability { .ready }
  func handle(_ invocation: Invocation) async throws(CommandError) -> Payload { .encoded(text) }
}
