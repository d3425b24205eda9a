import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing

/// The demo, as a stranger runs it.
@Suite struct DemoTests {
  @Test("the demo pairs by three approvals and calls every command; nothing fails, and nothing stays behind")
  func demo() async throws {
    try await Bed.with { bed in
      let ending = try await bed.run(["demo", "--json"])
      #expect(ending.exit == .code(0), "\(ending.errors)")
      let approvals = ending.json["gateway"]?["approvals"]?.array ?? []
      #expect(approvals.map { $0["kind"]?.string } == ["device", "surface", "operator"])
      let steps = ending.json["steps"]?.array ?? []
      #expect(steps.contains { $0["name"] == "system.notify" })
      for step in steps {
        #expect(["ok", "skipped"].contains(step["status"]?.string), "\(step.text)")
        #expect(["machine", "sample", "live"].contains(step["source"]?.string))
        #expect(step["detail"]?.string?.isEmpty == false && step["ms"]?.double != nil)
        if step["status"] == "skipped" { #expect(step["remedy"]?.string != nil, "\(step.text)") }
      }
      #expect(Files.list(bed.folder.path).filter { $0.hasPrefix("talknode-demo") } == [])
    }
  }

  @Test("Ctrl-C in the middle of the demo leaves nothing behind")
  func interrupted() async throws {
    try await Bed.with { bed in
      let demo = try await bed.start(["demo"])
      #expect(try await demo.readLine() != nil)
      #expect(Files.list(bed.folder.path).contains { $0.hasPrefix("talknode-demo") })
      await demo.signal(SIGINT)
      let ending = try await Bed.ending(of: demo)
      #expect(ending.exit == .code(130), "\(ending.errors)")
      #expect(Files.list(bed.folder.path).filter { $0.hasPrefix("talknode-demo") } == [])
    }
  }

  @Test("with a notification server on the session bus, the demo's notification is shown by it")
  func notification() async throws {
    try await PrivateBus.with { bus in
      let server = try await NotificationServer(bus)
      try await Bed.with { bed in
        let ending = try await bed.run(["demo", "--json"], environment: ["DBUS_SESSION_BUS_ADDRESS": bus.addressText])
        let step = ending.json["steps"]?.array?.first { $0["name"] == "system.notify" }
        #expect(step?["status"] == "ok", "\(ending.output) \(ending.errors)")
        #expect(await server.titles.contains("TalkNode"))
      }
    }
  }
}

/// A desktop that keeps what it is shown.
actor NotificationServer {
  private(set) var titles: [String] = []
  private(set) var bodies: [String] = []
  /// The number of the note that each was shown in place of.
  private(set) var replaced: [UInt32] = []
  private var bus: Bus?

  init(_ bus: PrivateBus) async throws {
    let connection = try await bus.connect()
    self.bus = connection
    _ = try await connection.export("/org/freedesktop/Notifications") { [weak self] call throws(DBusError) in
      switch call.member {
      case "GetCapabilities": return [.strings(["body"])]
      case "Notify":
        await self?.note(call.arguments)
        return [.uint32(1)]
      default: return []
      }
    }
    try await connection.requestName("org.freedesktop.Notifications")
  }

  private func note(_ arguments: [DBusValue]) {
    guard arguments.count > 4, case .string(let title) = arguments[3], case .string(let body) = arguments[4],
      case .uint32(let number) = arguments[1]
    else { return }
    titles.append(title)
    bodies.append(body)
    replaced.append(number)
  }
}
