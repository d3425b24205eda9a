import Configuration
import NodeKit
import System
import TestSupport
import Testing

@testable import talknode

/// The sign that something of a person is used.
@Suite struct SignTests {
  private let notice = UseNotice(
    consent: Consent(name: "camera", allows: "Agents may take pictures.", refusalCode: "CAMERA_DISABLED"),
    command: "camera.snap", origin: .gateway("manual|home|18789"))

  private func settings(_ toml: String) -> SignSettings {
    LayeredSettings(text: Array(toml.utf8), named: "test").settings.signs
  }

  @Test("a command of the person's own is told what is used and by whom")
  func command() async throws {
    let folder = TemporaryFolder()
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let script = #"echo $TALKNODE_COMMAND $TALKNODE_ORIGIN > $1"#
    let signs = UseSigns(
      settings("[signs]\nuse = \"command\"\ncommand = ['sh', '-c', '\(script)', 'sh', '\(folder("said"))']"),
      notifier: Notifier(session: SharedBus(.session, loop: loop)), environment: Environment(["PATH": "/usr/bin:/bin"]),
      loop: loop)
    await signs.show(notice)
    #expect(Files.text(folder("said")) == "camera.snap manual|home|18789\n")
  }

  @Test("a notification says what is used; with no sign chosen, nothing is shown")
  func notification() async throws {
    try await PrivateBus.with { bus in
      let server = try await NotificationServer(bus)
      let notifier = Notifier(session: SharedBus(bus.address, loop: bus.loop))
      let signs = UseSigns(SignSettings(), notifier: notifier, environment: Environment([:]), loop: bus.loop)
      await signs.show(notice)
      #expect(await server.titles == ["camera is used"])
      signs.choose(settings("[signs]\nuse = \"none\""))
      await signs.show(notice)
      #expect(await server.titles.count == 1)
    }
  }

  @Test("a sign that can't be given is said once, and once when it can again")
  func failing() async throws {
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let said = Lock<[String]>([])
    Log.redirect { _, text in if text.contains("ign") { said.withLock { $0.append(text) } } }
    defer { Log.redirect(nil) }
    let signs = UseSigns(
      settings("[signs]\nuse = \"command\"\ncommand = [\"/no/such/lamp\"]"),
      notifier: Notifier(session: SharedBus(.session, loop: loop)), environment: Environment(["PATH": "/usr/bin:/bin"]),
      loop: loop)
    await signs.show(notice)
    await signs.show(notice)
    signs.choose(settings("[signs]\nuse = \"command\"\ncommand = [\"true\"]"))
    await signs.show(notice)
    #expect(said.withLock { $0.count } == 2)
    #expect(said.withLock { $0.first }?.contains("/no/such/lamp") == true)
  }
}
