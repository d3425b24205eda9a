import System
import TestSupport
import Testing

@testable import Triggers

/// What a desktop does behind its portal: a back end of ours for the real xdg-desktop-portal.
private final class Desktop: Sendable {
  static let name = "org.freedesktop.impl.portal.desktop.talknodetest"
  private static let interface = "org.freedesktop.impl.portal.GlobalShortcuts"
  private static let path = "/org/freedesktop/portal/desktop"

  struct Bound: Sendable, Equatable {
    var session: String
    var description: String?
    var preferred: String?
  }
  private struct State {
    var bound: [Bound] = []
    var closed: [String] = []
    var answer: UInt32 = 0
  }
  private let state = Lock(State())
  private let bus: Bus

  init(on bus: Bus) async throws {
    self.bus = bus
    _ = try await bus.export(Self.path, subtree: true) { [state] call throws(DBusError) in
      switch call.member {
      case "CreateSession": return [.uint32(0), .options()]
      case "BindShortcuts":
        let (session, shortcuts) = (call.arguments[1].text ?? "", call.arguments[2])
        let details = shortcuts.array?.first?.fields?.dropFirst().first?.members
        let bound = Bound(
          session: session, description: details?["description"]?.text, preferred: details?["preferred_trigger"]?.text)
        let answer = state.withLock { state in
          state.bound.append(bound)
          return state.answer
        }
        return [.uint32(answer), .options(["shortcuts": Self.shortcuts("Press F9")])]
      case "ListShortcuts": return [.uint32(0), .options(["shortcuts": Self.shortcuts("Press F9")])]
      case "Close":
        state.withLock { $0.closed.append(call.path) }
        return []
      case "Get": return [.variant(.uint32(1))]
      case "GetAll": return [.options(["version": .uint32(1)])]
      default: throw DBusError("org.freedesktop.DBus.Error.UnknownMethod", call.member)
      }
    }
    try await bus.requestName(Self.name)
  }

  private static func shortcuts(_ trigger: String) -> DBusValue {
    .array(
      [
        .structure([
          .string("talk"), .options(["description": .string("Talk"), "trigger_description": .string(trigger)]),
        ])
      ], of: "(sa{sv})")
  }

  var bound: [Bound] { state.withLock { $0.bound } }
  var closed: [String] { state.withLock { $0.closed } }
  /// The person says no from now on, or yes.
  func decline(_ isDeclined: Bool) { state.withLock { $0.answer = isDeclined ? 1 : 0 } }

  func emit(_ member: String, session: String, id: String = "talk") async throws {
    try await bus.emit(
      Self.path, Self.interface, member, [.objectPath(session), .string(id), .uint64(1), .options()])
  }
  func change(_ session: String, to trigger: String) async throws {
    try await bus.emit(
      Self.path, Self.interface, "ShortcutsChanged", [.objectPath(session), Self.shortcuts(trigger)])
  }
}

/// The real xdg-desktop-portal on a test's own bus.
private struct PortalProcess {
  let process: Subprocess

  static func start(
    _ bus: PrivateBus, _ folder: TemporaryFolder, offering interface: String = "GlobalShortcuts"
  ) async throws -> PortalProcess {
    try folder.write(
      "portals/test.portal",
      """
      [portal]
      DBusName=\(Desktop.name)
      Interfaces=org.freedesktop.impl.portal.\(interface);
      UseIn=talknodetest
      """)
    // Newer ones ask this file which back end is whose.
    try folder.write("config/xdg-desktop-portal/portals.conf", "[preferred]\ndefault=test\n")
    let environment = [
      "DBUS_SESSION_BUS_ADDRESS": bus.addressText, "XDG_DESKTOP_PORTAL_DIR": folder("portals"),
      "XDG_CURRENT_DESKTOP": "talknodetest", "HOME": folder("home"), "XDG_RUNTIME_DIR": folder.path,
      "XDG_CONFIG_HOME": folder("config"), "XDG_DATA_HOME": folder("data"), "PATH": "/usr/bin:/bin",
    ]
    let process = try await Subprocess.start(
      .init("/usr/libexec/xdg-desktop-portal", ["--replace"], environment: environment), loop: bus.loop)
    return PortalProcess(process: process)
  }

  func end() async { await process.end(grace: .zero) }
}

private final class Signals: Sendable {
  private let list = Lock<[TriggerSignal]>([])
  func add(_ signal: TriggerSignal) { list.withLock { $0.append(signal) } }
  var all: [TriggerSignal] { list.withLock { $0 } }
}

@Suite("The talk shortcut through the desktop's portal")
struct PortalTests {
  /// What the real portal asks of a session's bus beside the desktop.
  private static let services = ["org.freedesktop.impl.portal.PermissionStore": "/usr/libexec/xdg-permission-store"]

  private func trigger(
    _ bus: PrivateBus, _ signals: Signals, keys: String? = nil, tap: Duration = .zero
  ) -> ShortcutTrigger {
    ShortcutTrigger(
      options: .init(keys: keys, tapThreshold: tap), address: bus.address, loop: bus.loop
    ) { signals.add($0) }
  }

  private func isBound(_ trigger: ShortcutTrigger) async -> Bool {
    if case .bound = await trigger.phase { return true }
    return false
  }

  @Test("asked of the real portal, bound at the desktop, pressed and let go; and given back in the end")
  func story() async throws {
    try await PrivateBus.with(services: Self.services) { bus in
      let folder = TemporaryFolder()
      let desktop = try await Desktop(on: bus.connect())
      let portal = try await PortalProcess.start(bus, folder)
      let signals = Signals()
      let trigger = trigger(bus, signals, keys: "LOGO+F9")
      await trigger.start()
      let isUp = await eventually(within: .seconds(60)) { await isBound(trigger) }
      let (said, stand) = (await portal.process.errorOutput, await trigger.state)
      try #require(isUp, "\(stand) \(said)")
      #expect(desktop.bound.map(\.preferred) == ["LOGO+F9"])
      #expect(desktop.bound.map(\.description) == ["Talk to the agent"])
      #expect(await trigger.state.isReady)
      #expect(await trigger.state.detail.contains("Press F9"))

      let session = desktop.bound[0].session
      try await desktop.emit("Activated", session: session)
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start] })
      // Another shortcut of the same session, and a repeat, are nothing.
      try await desktop.emit("Deactivated", session: session, id: "other")
      try await desktop.emit("Activated", session: session)
      try await desktop.emit("Deactivated", session: session)
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start, .stop] })

      try await desktop.change(session, to: "Press Meta+Z")
      #expect(await eventually(within: .seconds(60)) { await trigger.state.detail.contains("Press Meta+Z") })

      try await desktop.emit("Activated", session: session)
      #expect(await eventually(within: .seconds(60)) { signals.all.count == 3 })
      await trigger.stop()
      // The person still held it: the capture does not stay open.
      #expect(signals.all == [.start, .stop, .start, .stop])
      #expect(await eventually(within: .seconds(60)) { desktop.closed.contains(session) })
      await portal.end()
    }
  }

  @Test("a portal that is restarted while the key is held: the capture ends, and the shortcut is bound again")
  func restart() async throws {
    try await PrivateBus.with(services: Self.services) { bus in
      let folder = TemporaryFolder()
      let desktop = try await Desktop(on: bus.connect())
      let signals = Signals()
      let trigger = trigger(bus, signals)
      await trigger.start()
      // Nobody is there yet, and nothing can be started.
      #expect(await eventually(within: .seconds(60)) { await trigger.state.detail.contains("no desktop portal") })
      #expect(await trigger.state.remedy?.contains("xdg-desktop-portal") == true)

      let portal = try await PortalProcess.start(bus, folder)
      #expect(await eventually(within: .seconds(60)) { await isBound(trigger) })
      try await desktop.emit("Activated", session: desktop.bound[0].session)
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start] })
      await portal.end()
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start, .stop] })
      #expect(await eventually(within: .seconds(60)) { await trigger.phase == .absent })

      let second = try await PortalProcess.start(bus, folder)
      #expect(await eventually(within: .seconds(60)) { await isBound(trigger) })
      #expect(desktop.bound.count == 2)
      try await desktop.emit("Activated", session: desktop.bound[1].session)
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start, .stop, .start] })
      await trigger.stop()
      await second.end()
    }
  }

  @Test("declined by the person: said so, and not asked again")
  func declined() async throws {
    try await PrivateBus.with(services: Self.services) { bus in
      let folder = TemporaryFolder()
      let desktop = try await Desktop(on: bus.connect())
      desktop.decline(true)
      let portal = try await PortalProcess.start(bus, folder)
      let trigger = trigger(bus, Signals())
      await trigger.start()
      #expect(await eventually(within: .seconds(60)) { await trigger.state.detail.contains("declined") })
      guard case .refused(_, isFinal: true) = await trigger.phase else {
        Issue.record("\(await trigger.phase)")
        return
      }
      #expect(desktop.bound.count == 1)
      // Its session is not left behind.
      #expect(await eventually(within: .seconds(60)) { desktop.closed.contains(desktop.bound[0].session) })
      await trigger.stop()
      await portal.end()
    }
  }

  @Test("a portal without shortcuts: said so, with the other way")
  func without() async throws {
    try await PrivateBus.with(services: Self.services) { bus in
      let folder = TemporaryFolder()
      let portal = try await PortalProcess.start(bus, folder, offering: "Wallpaper")
      let trigger = trigger(bus, Signals())
      await trigger.start()
      #expect(await eventually(within: .seconds(60)) { await trigger.state.detail.contains("no global shortcuts") })
      #expect(await trigger.state.remedy == "Bind a key by hand: talknode ptt bind")
      await trigger.stop()
      await portal.end()
    }
  }

  @Test("a bus that goes ends what was begun, and is said")
  func busGoes() async throws {
    try await PrivateBus.with { bus in
      let portal = try await NewPortal(on: bus.connect())
      let signals = Signals()
      let trigger = trigger(bus, signals)
      await trigger.start()
      #expect(await eventually(within: .seconds(60)) { await isBound(trigger) })
      try await portal.press()
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start] })
      await bus.kill()
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start, .stop] })
      #expect(await eventually(within: .seconds(60)) { await trigger.state.detail.contains("bus can't be reached") })
      await trigger.stop()
      #expect(await trigger.phase == .stopped)
    }
  }

  // MARK: A portal of the newest kind, of ours

  /// A D-Bus peer that answers as a portal with the Registry does.
  private final class NewPortal: Sendable {
    private struct State {
      var calls: [String] = []
      var application: String?
    }
    private let state = Lock(State())
    let bus: Bus

    init(on bus: Bus) async throws {
      self.bus = bus
      _ = try await bus.export(Portal.path, subtree: true) { [state] call throws(DBusError) in
        state.withLock { $0.calls.append(call.member) }
        let sender = (call.sender ?? "").dropFirst().replacing(".", with: "_")
        func answer(_ token: String?, _ results: DBusValue) {
          let path = "\(Portal.path)/request/\(sender)/\(token ?? "")"
          // After the call's own answer.
          Task { [bus] in
            try await bus.emit(path, "org.freedesktop.portal.Request", "Response", [.uint32(0), results])
          }
        }
        func path(_ options: DBusValue?) -> String {
          "\(Portal.path)/request/\(sender)/\(options?.members?["handle_token"]?.text ?? "")"
        }
        switch (call.interface, call.member) {
        case ("org.freedesktop.host.portal.Registry", "Register"):
          state.withLock { $0.application = call.arguments.first?.text }
          return []
        case (Portal.shortcuts, "CreateSession"):
          let options = call.arguments.first
          answer(options?.members?["handle_token"]?.text, .options(["session_handle": .string("/session/1")]))
          return [.objectPath(path(options))]
        case (Portal.shortcuts, "BindShortcuts"):
          let options = call.arguments.last
          answer(options?.members?["handle_token"]?.text, .options())
          return [.objectPath(path(options))]
        case (Portal.session, "Close"): return []
        default: throw DBusError("org.freedesktop.DBus.Error.UnknownMethod", call.member)
        }
      }
      try await bus.requestName(Portal.name)
    }

    static let press: [DBusValue] = [.objectPath("/session/1"), .string("talk"), .uint64(1), .options()]
    func press() async throws { try await bus.emit(Portal.path, Portal.shortcuts, "Activated", Self.press) }
    var calls: [String] { state.withLock { $0.calls } }
    var application: String? { state.withLock { $0.application } }
  }

  @Test(
    "a portal with a registry is told first who asks; a forged press of somebody else is nothing; a closed session is opened again"
  )
  func registry() async throws {
    try await PrivateBus.with { bus in
      let portal = try await NewPortal(on: bus.connect())
      let signals = Signals()
      let trigger = trigger(bus, signals)
      await trigger.start()
      #expect(await eventually(within: .seconds(60)) { await isBound(trigger) })
      #expect(portal.calls == ["Register", "CreateSession", "BindShortcuts"])
      #expect(portal.application == "org.talknode.TalkNode")
      // No keys are set yet.
      #expect(await trigger.state.isReady == false)
      #expect(await trigger.state.remedy == "Choose keys in the desktop's settings.")

      let stranger = try await bus.connect()
      try await stranger.emit(Portal.path, Portal.shortcuts, "Activated", NewPortal.press)
      _ = try await stranger.uniqueName()
      #expect(signals.all.isEmpty)
      try await portal.press()
      #expect(await eventually(within: .seconds(60)) { signals.all.count == 1 })
      try await portal.bus.emit("/session/1", Portal.session, "Closed", [.options()])
      #expect(await eventually(within: .seconds(60)) { signals.all == [.start, .stop] })
      guard case .refused(_, isFinal: false) = await trigger.phase else {
        Issue.record("\(await trigger.phase)")
        return
      }
      await trigger.stop()
    }
  }
}
