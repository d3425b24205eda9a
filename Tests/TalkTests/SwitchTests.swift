import Audio
import Configuration
import Conversation
import NodeKit
import System
import TestSupport
import Testing

@testable import talknode

/// What becomes of an agent's capture when a person switches it off.
@Suite("Talk switched off") struct SwitchTests {
  enum Way: CaseIterable {
    /// `talknode capabilities disable talk`.
    case here
    /// Another process turned it; SIGHUP says so.
    case elsewhere
  }

  @Test("an agent's open capture ends, however it was switched off; a person's goes on", arguments: Way.allCases)
  func switchedOff(_ way: Way) async throws {
    let folder = TemporaryFolder()
    let loop = EventLoop(name: "test node")
    defer { loop.stop() }
    let server = try PrivateSoundServer(folder: folder("sound"))
    try await server.start()
    var settings = Settings()
    settings.audio.backend = .pulse
    settings.audio.server = server.address
    settings.talk.cues = false
    let environment = Environment(["HOME": folder.path, "XDG_RUNTIME_DIR": folder.path])
    let instance = Instance(state: folder("state"), environment: environment)
    try instance.makeFolder()
    let node = try Node(instance, settings: settings, environment: environment, loop: loop)
    await node.start()
    _ = try await node.turn("talk", on: true)
    for owner in [PushToTalk.Owner.gateway("g"), .person] {
      _ = try await node.turn("talk", on: true)
      guard case .capturing = await node.services.talk.start(owner) else {
        Issue.record("\(owner) has no microphone")
        continue
      }
      switch way {
      case .here: _ = try await node.turn("talk", on: false)
      case .elsewhere:
        try SwitchStore(path: instance.switches).set("talk", enabled: false)
        _ = await node.apply(settings)
      }
      #expect(await node.services.talk.phase == (owner == .person ? .listening : .idle))
    }
    await node.stop()
    await server.stop()
  }
}
