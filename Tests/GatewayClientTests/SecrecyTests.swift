import Crypto
import DevGateway
import GatewayProtocol
import LinkTestSupport
import System
import TestSupport
import Testing
import Transport

@testable import GatewayClient

@Suite("Secrets")
struct SecrecyTests {
  /// Every secret of a life with refusals, rotations and garbage, looked for in every line that is logged, down to debug, and in every
  /// status.
  @Test("are in no log line and in no status")
  func neverTold() async throws {
    let lines = Lock<[String]>([])
    Log.configure(threshold: .debug, journal: false)
    Log.redirect { _, line in lines.withLock { $0.append(line) } }
    defer {
      Log.redirect(nil)
      Log.configure(threshold: .info, journal: false)
    }
    var secrets: Set<String> = []
    let statuses = Lock<[String]>([])
    try await withHouse {
      $0.autoApprove = false
    } _: { gateway, desk in
      secrets.insert(gateway.token)
      secrets.insert(Base64.encodeURL(try #require(try? secretSeed(desk))))
      func live(_ offer: GatewayOffer) async throws {
        for secret in [offer.token, offer.password, offer.bootstrapToken] { if let secret { secrets.insert(secret) } }
        let link = try await desk.connect(offer)
        let listener = Task {
          for await status in link.statuses() { statuses.withLock { $0.append(status.json.text) } }
        }
        #expect(await gateway.approveAll(link))
        for token in await desk.credentials.deviceTokens.values { secrets.insert(token.token) }
        await gateway.sendText("garbage \(gateway.token)", to: desk.id)
        await gateway.sendText(#"{"type":"event","event":7,"payload":"\#(gateway.token)"}"#, to: desk.id)
        try await gateway.rotateToken(of: desk.id, role: .node)
        try await gateway.rotateToken(of: desk.id, role: .operator)
        try await gateway.restart()
        try await eventually("it is back or has stopped") {
          let status = await link.status()
          return status.isComplete || status.node.stopCode != nil
        }
        for token in await desk.credentials.deviceTokens.values { secrets.insert(token.token) }
        await link.stop()
        _ = await listener.value
      }
      try await live(gateway.offer(.full))
      try await live(gateway.offer())
      try await desk.registry.forget(GatewayRecord.id(of: gateway.offer().primary))
      let wrong = "wrong-" + Random.token()
      secrets.insert(wrong)
      let link = try await desk.connect(gateway.offer(token: wrong))
      try await eventually("it has stopped") { await link.status().node.stopCode != nil }
      statuses.withLock { $0.append("\(link.gateway)") }
    }
    #expect(secrets.count >= 6)
    let told = lines.withLock { $0 } + statuses.withLock { $0 }
    #expect(told.count > 20, "the test heard nothing")
    for secret in secrets {
      #expect(!told.contains { $0.contains(secret) }, "a secret was told: \(told.first { $0.contains(secret) } ?? "")")
    }
  }

  private func secretSeed(_ desk: Desk) throws -> [UInt8]? {
    try JSON(parsing: Files.read(desk.state.identity))["seed"]?.string.flatMap { Base64.decode($0) }
  }
}
