import DevGateway
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing

/// What is on disk survives the daemon being killed at any moment.
@Suite struct CrashTests {
  @Test("killed at random moments, the daemon comes back as the same device, without a new approval")
  func killed() async throws {
    var random = SeededRandom()
    print("seed \(random.seed)")
    try await Bed.with { bed in
      let words = ["run", "--gateway", await bed.gateway.url, "--token-file", try bed.tokenFile()]
      var identity: JSON?
      for _ in 0..<12 {
        let daemon = try await bed.start(words)
        try await Task.sleep(for: .milliseconds(Int.random(in: 0...150, using: &random)))
        await daemon.signal(SIGKILL)
        _ = await daemon.waitForExit()
        let now = try await bed.run(["identity", "--json"])
        #expect(now.exit == .code(0), "\(now.errors)")
        if identity != nil { #expect(now.json == identity) }
        identity = now.json
      }
      try await bed.withDaemon { (_: Subprocess) async throws in
        #expect(try await bed.becomesReady())
        #expect(try await bed.status()["deviceId"] == identity?["deviceId"])
      }
      #expect(await bed.gateway.nodes().count == 1)
      let files = Files.list(bed.state())
      #expect(!files.contains { $0.contains("damaged") }, "\(files)")
    }
  }
}
