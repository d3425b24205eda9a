import Conversation
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing

@testable import talknode

/// What the program says about talking, on the built program.
@Suite struct TalkCommandTests {
  @Test("without the operator role status says that talking is reduced, and which approval is missing")
  func reduced() async throws {
    try await Bed.with(autoApprove: false) { bed in
      try await bed.withDaemon { _ in
        let isIn = try await eventually(within: .seconds(20)) {
          for device in await bed.gateway.pendingDevices() where device.role == "node" {
            try await bed.gateway.approveDevice(device.requestID)
          }
          return try await bed.status()["talkPath"] == "reduced"
        }
        #expect(isIn)
        #expect(
          try await eventually {
            let line = try await bed.run(["status"]).output.split(separator: "\n").first { $0.hasPrefix("talking") }
            return line?.contains("it lacks") == true
          })
      }
    }
  }

  @Test("doctor names the transcriber that is used, and what it is good for; the others say what they lack")
  func doctor() async throws {
    try await Bed.with { bed in
      try bed.folder.write("settings.toml", "[talk]\nphrases = [\"turn on the light\"]\n")
      let findings = try await bed.run(["doctor", "--json", "--config", bed.folder("settings.toml")]).json["findings"]
      let transcribers = (findings?.array ?? []).filter { $0["name"]?.string?.hasPrefix("transcriber ") == true }
      #expect(
        transcribers.map { $0["name"]?.string } == [
          "transcriber gateway", "transcriber command", "transcriber pocketsphinx",
        ])
      let used = transcribers.filter { $0["detail"]?.string?.hasPrefix("is used: ") == true }
      #expect(used.count == 1 && used.first?["detail"]?.string?.contains("exactly those sentences") == true)
      #expect(transcribers.first?["remedy"]?.string?.contains("talknode pair") == true)
    }
  }

  @Test("listen looks a message up by its id, and says when there is none")
  func message() async throws {
    try await Bed.with { bed in
      try bed.folder.write("settings.toml", "[audio]\nbackend = \"pulse\"\nserver = \"unix:/nonexistent\"\n")
      try await bed.withDaemon(settings: bed.folder("settings.toml")) { _ in
        #expect(try await bed.becomesReady())
        let none = try await bed.run(["listen", "--message", "x", "--json"])
        #expect(none.json["error"]?["code"] == "NO_MESSAGE" && none.exit == .code(65))
        var offer = TalkOffer()
        offer.voice = TalkOffer.Voice(Subprocess.Command("cat"))
        await bed.gateway.setTalk(offer)
        let id = await bed.gateway.say("Tea is ready.")
        // There is no speaker here: what the gateway was asked to speak is what counts.
        _ = try await bed.run(["listen", "--message", id, "--json"])
        #expect(await bed.gateway.spokenTexts == ["Tea is ready."])
      }
    }
  }

  @Test("what is understood is shown in one notification that changes, and the next capture has another")
  func transcriptSign() async throws {
    try await PrivateBus.with { bus in
      let server = try await NotificationServer(bus)
      let sign = TranscriptSign(notifier: Notifier(session: SharedBus(bus.address, loop: bus.loop)))
      for round in 1...2 {
        await sign.took(.phase(.listening))
        for text in ["turn", "turn on", "turn on the light"] { await sign.took(.partial(text)) }
        #expect(await eventually { await server.bodies.count { $0 == "turn on the light" } == round })
        await sign.took(.phase(.recognising))
        await sign.took(.phase(.idle))
      }
      #expect(await server.titles.allSatisfy { $0 == "Listening" })
      let fresh = await server.replaced.count { $0 == 0 }
      #expect(fresh == 2)
    }
  }
}
