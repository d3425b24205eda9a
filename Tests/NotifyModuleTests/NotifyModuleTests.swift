import GatewayProtocol
import NodeKit
import System
import TestSupport
import Testing

@testable import NotifyModule

/// A notification server as a peer on a real bus: it keeps what it was given.
final class NotificationServer: Sendable {
  let shown = Lock<[[DBusValue]]>([])
  let closed = Lock<[DBusValue]>([])

  func serve(_ bus: PrivateBus, capabilities: [String] = ["body"], failing: DBusError? = nil, hanging: Bool = false)
    async throws -> Bus
  {
    let service = try await bus.connect()
    _ = try await service.export("/org/freedesktop/Notifications") { [self] call throws(DBusError) in
      switch call.member {
      case "GetCapabilities": return [.strings(capabilities)]
      case "Notify":
        if hanging { try? await Task.sleep(for: .seconds(3600)) }
        if let failing { throw failing }
        return [
          .uint32(
            shown.withLock {
              $0.append(call.arguments)
              return UInt32($0.count)
            })
        ]
      case "CloseNotification":
        closed.withLock { $0 += call.arguments }
        return []
      default: throw DBusError("org.freedesktop.DBus.Error.UnknownMethod", call.member)
      }
    }
    try await service.requestName("org.freedesktop.Notifications")
    return service
  }

  var last: [DBusValue]? { shown.withLock { $0.last } }
  var hints: [String: DBusValue]? { last?[6].members }
}

@Suite("system.notify") struct NotifyModuleTests {
  private func notify(_ bus: PrivateBus, _ params: String?, limit: Duration = .seconds(20)) async -> Result<
    String?, CommandError
  > {
    let module = NotifyModule(notifier: Notifier(session: SharedBus(bus.address, loop: bus.loop)))
    let invocation = Invocation(
      id: "i", command: "system.notify", paramsText: params.map { Array($0.utf8) }, origin: .gateway("g"),
      deadline: Monotonic.now() + limit, payloadLimit: 1 << 20)
    do throws(CommandError) {
      return .success(try await module.handle(invocation).text.map { String(decoding: $0, as: UTF8.self) })
    } catch {
      return .failure(error)
    }
  }

  /// The error that it ends with.
  private func refusal(_ bus: PrivateBus, _ params: String?, limit: Duration = .seconds(20)) async throws
    -> CommandError
  {
    guard case .failure(let error) = await notify(bus, params, limit: limit) else {
      return try #require(nil as CommandError?, "it was shown")
    }
    return error
  }

  private func absence(_ module: NotifyModule) async throws -> (reason: String, remedy: String?) {
    guard case .absent(let reason, let remedy) = await module.availability() else {
      return try #require(nil as (String, String?)?, "it is available")
    }
    return (reason, remedy)
  }

  @Test("a notification is shown with its title, its text and its urgency, and answered with ok")
  func shows() async throws {
    try await PrivateBus.with { bus in
      let server = NotificationServer()
      let service = try await server.serve(bus)
      #expect(
        await notify(
          bus, #"{"title":" Tea ","body":"is <b>ready</b> & hot","priority":"timeSensitive","delivery":"overlay"}"#)
          == .success(#"{"ok":true}"#))
      let shown = try #require(server.last)
      #expect(
        shown.prefix(5) == [
          .string("TalkNode"), .uint32(0), .string("dialog-information"), .string("Tea"),
          .string("is <b>ready</b> & hot"),
        ])
      #expect(server.hints == ["urgency": .byte(2), "desktop-entry": .string("talknode")])
      #expect(shown.last == .int32(-1))
      await service.close()
    }
  }

  @Test("what would be markup to the server is escaped, so that a text can't become a link")
  func escapes() async throws {
    try await PrivateBus.with { bus in
      let server = NotificationServer()
      let service = try await server.serve(bus, capabilities: ["body", "body-markup"])
      _ = await notify(bus, ##"{"title":"<T>","body":"<a href=\"x\">&</a>\u0007\n2"}"##)
      #expect(server.last?[3] == .string("<T>") && server.last?[4] == .string("&lt;a href=\"x\"&gt;&amp;&lt;/a&gt;\n2"))
      await service.close()
    }
  }

  @Test(
    "urgency by priority; silence by any of its words",
    arguments: [
      (#""priority":"passive","sound":"none""#, 0, true), (#""priority":"active","sound":"default""#, 1, false),
      (#""priority":"timeSensitive","sound":"OFF""#, 2, true), (#""sound":"silent""#, 1, true),
      (#""sound":"false""#, 1, true),
      (#""sound":"0""#, 1, true), (#""sound":"ping","priority":"loud""#, 1, false),
      (#""sound":3,"priority":{}"#, 1, false),
      (#""sound":null,"priority":null"#, 1, false),
    ])
  func words(params: String, urgency: Int, isSilent: Bool) throws {
    let note = try NotifyModule.note(JSON(parsing: #"{"title":"t",\#(params)}"#))
    #expect(Int(note.urgency.rawValue) == urgency && note.isSilent == isSilent)
  }

  @Test("silence reaches the server as its hint")
  func silence() async throws {
    try await PrivateBus.with { bus in
      let server = NotificationServer()
      let service = try await server.serve(bus)
      _ = await notify(bus, #"{"body":"b","sound":"none","priority":"passive"}"#)
      #expect(server.hints?["suppress-sound"] == .bool(true) && server.hints?["urgency"] == .byte(0))
      // Without a title the program's name stands there: servers show no note without one.
      #expect(server.last?[3] == .string("TalkNode") && server.last?[4] == .string("b"))
      await service.close()
    }
  }

  @Test(
    "a title or a text may be missing, not both; and there must be params at all",
    arguments: [
      (nil, "paramsJSON required"), ("", "expected JSON object"), ("[]", "expected JSON object"),
      ("{}", "empty notification"),
      (#"{"title":"  ","body":"\n"}"#, "empty notification"), (#"{"title":null}"#, "empty notification"),
      (#"{"title":5}"#, "title must be a string"), (#"{"title":"t","body":[]}"#, "body must be a string"),
    ])
  func refuses(params: String?, reason: String) async throws {
    try await PrivateBus.with { bus in
      let error = try await refusal(bus, params)
      #expect(
        error.code == "INVALID_REQUEST"
          && (error.summary == reason || error.summary.hasPrefix("the params are no JSON")))
    }
  }

  @Test("long texts are cut for servers that choke on a page")
  func cuts() async throws {
    try await PrivateBus.with { bus in
      let server = NotificationServer()
      let service = try await server.serve(bus)
      let long = String(repeating: "é", count: 20000)
      #expect(await notify(bus, #"{"title":"\#(long)","body":"\#(long)"}"#) == .success(#"{"ok":true}"#))
      #expect(server.last?[3].text?.count == 1025 && server.last?[4].text?.count == 8193)
      await service.close()
    }
  }

  @Test("no server, no bus, a server that refuses, one that hangs: each is told apart, with what to do")
  func failures() async throws {
    try await PrivateBus.with { bus in
      let none = try await refusal(bus, #"{"title":"t"}"#)
      #expect(none.code == "NOTIFICATIONS_UNAVAILABLE" && none.remedy?.contains("apt install") == true)
      let module = NotifyModule(notifier: Notifier(session: SharedBus(bus.address, loop: bus.loop)))
      #expect(try await absence(module).remedy == none.remedy)

      let refusing = try await NotificationServer().serve(bus, failing: DBusError("x.Busy", "too many"))
      #expect(await module.availability() == .ready)
      let refused = try await refusal(bus, #"{"title":"t"}"#)
      #expect(refused.code == "NOTIFICATION_FAILED" && refused.summary.contains("too many"))
      await refusing.close()

      let hanging = try await NotificationServer().serve(bus, hanging: true)
      #expect(try await refusal(bus, #"{"title":"t"}"#, limit: .milliseconds(150)).code == "NOTIFICATION_FAILED")
      await hanging.close()
    }
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let nowhere = SharedBus(.address("unix:path=/nonexistent/bus"), loop: loop)
    let (reason, remedy) = try await absence(NotifyModule(notifier: Notifier(session: nowhere)))
    #expect(reason.contains("session bus") && remedy?.contains("systemctl --user") == true)
  }

  @Test("a server that isn't running is started by the bus; one that can't be started is none")
  func activation() async throws {
    let name = "org.freedesktop.Notifications"
    let folder = TemporaryFolder()
    try await PrivateBus.with(services: [name: "/usr/bin/touch \(folder("started"))"]) { bus in
      let server = NotificationServer()
      async let answer = notify(bus, #"{"title":"t"}"#)
      // The program that the bus starts leaves a mark, and this test then is the server.
      #expect(await eventually { Files.exists(folder("started")) })
      let service = try await server.serve(bus)
      #expect(await answer == .success(#"{"ok":true}"#))
      await service.close()
    }
    try await PrivateBus.with(services: [name: "/bin/false"]) { bus in
      let none = try await refusal(bus, #"{"title":"t"}"#)
      #expect(none.code == "NOTIFICATIONS_UNAVAILABLE")
    }
  }

  @Test("a note is put in another's place, goes by itself, and is taken back")
  func notifier() async throws {
    try await PrivateBus.with { bus in
      let server = NotificationServer()
      let service = try await server.serve(bus)
      let notifier = Notifier(session: SharedBus(bus.address, loop: bus.loop))
      let first = try await notifier.show(
        .init(title: "Listening", icon: "audio-input-microphone", category: "device", lasts: .seconds(3)))
      #expect(server.hints?["category"] == .string("device") && server.last?.last == .int32(3000))
      let second = try await notifier.show(.init(title: "Done", replaces: first))
      #expect(server.last?[1] == .uint32(first))
      try await notifier.close(second)
      #expect(server.closed.withLock { $0 } == [.uint32(second)])
      await service.close()
    }
  }

  @Test("through the router: on by default, refused in its own words when switched off")
  func switchedOff() async throws {
    try await PrivateBus.with { bus in
      let server = NotificationServer()
      let service = try await server.serve(bus)
      let folder = TemporaryFolder()
      let switches = SwitchStore(path: folder("switches.json"))
      let router = CommandRouter(
        modules: [NotifyModule(notifier: Notifier(session: SharedBus(bus.address, loop: bus.loop)))],
        switches: switches,
        audit: AuditLog(path: folder("audit.log")), loop: bus.loop)
      let request = InvokeRequest(
        id: "i", nodeID: "n", command: "system.notify", paramsText: Array(#"{"title":"t"}"#.utf8))
      #expect(await router.surface() == NodeSurface(caps: ["system"], commands: ["system.notify"]))
      #expect(
        await router.handle(request, from: .gateway("g"), payloadLimit: 1 << 20)
          == .success(Array(#"{"ok":true}"#.utf8)))
      try switches.set("notify", enabled: false)
      #expect(await router.surface() == NodeSurface())
      let refused = await router.handle(request, from: .gateway("g"), payloadLimit: 1 << 20)
      #expect(refused == .failure(NotifyModule.consent.refusal.json))
      #expect(NotifyModule.consent.refusal.code == "NOTIFICATIONS_DISABLED")
      #expect(server.shown.withLock { $0.count } == 1)
      await router.stop()
      await service.close()
    }
  }
}
