import System
import TestSupport
import Testing

@testable import Location

/// GeoClue as a peer with its interface, for what the real one can't be brought to do.
final class GeoClueServer: Sendable {
  enum Behaviour: Sendable, Equatable {
    case good
    /// As without an agent: GetClient is never answered.
    case noAgent
    case denied
  }
  let behaviour: Behaviour
  /// The location as its properties.
  let location: Lock<[String: DBusValue]>
  let calls = Lock<[String]>([])
  let settings = Lock<[String: DBusValue]>([:])
  private let hasOwnTime: Bool

  init(_ behaviour: Behaviour = .good, location: [String: DBusValue] = [:]) {
    self.behaviour = behaviour
    self.location = Lock(GeoClueReportTests.properties(location))
    hasOwnTime = location["Timestamp"] != nil
  }

  /// A place is as old as its telling, unless it was given a time: on a busy machine a test's own beginning takes seconds.
  private var told: [String: DBusValue] {
    var properties = location.withLock { $0 }
    if !hasOwnTime {
      properties["Timestamp"] = .structure([.uint64(UInt64(WallClock.milliseconds() / 1000)), .uint64(0)])
    }
    return properties
  }

  private static let path = "/org/freedesktop/GeoClue2"
  private static let client = path + "/Client/1"

  func serve(_ bus: PrivateBus) async throws -> Bus {
    let service = try await bus.connect()
    _ = try await service.export(Self.path, subtree: true) { [self] call throws(DBusError) in
      calls.withLock { $0.append(call.member) }
      switch call.member {
      case "GetClient":
        if behaviour == .noAgent { try? await Task.sleep(for: .seconds(3600)) }
        return [.objectPath(Self.client)]
      case "Set":
        let name = call.arguments[1].text ?? ""
        settings.withLock { $0[name] = call.arguments[2].unwrapped }
        return []
      case "Start":
        if behaviour == .denied {
          throw DBusError("org.freedesktop.DBus.Error.AccessDenied", "Geolocation disabled for UID 1000")
        }
        try await tell(service)
        return []
      case "GetAll": return [Self.options(told)]
      case "Stop": return []
      default: throw DBusError("org.freedesktop.DBus.Error.UnknownMethod", call.member)
      }
    }
    try await service.requestName("org.freedesktop.GeoClue2")
    return service
  }

  private static func options(_ members: [String: DBusValue]) -> DBusValue {
    .dictionary(members.map { DBusValue.Entry(.string($0.key), .variant($0.value)) }, key: "s", value: "v")
  }

  func tell(_ service: Bus) async throws(DBusError) {
    try await service.emit(
      Self.client, "org.freedesktop.GeoClue2.Client", "LocationUpdated",
      [.objectPath("/"), .objectPath(Self.client + "/Location/0")])
  }
}

struct GeoClueBed {
  let locator: Locator

  static func with(_ bus: PrivateBus, linger: Duration = .seconds(30), _ body: (Locator) async throws -> Void)
    async throws
  {
    var options = LocationOptions()
    options.choice = .only(.geoclue)
    options.linger = linger
    let locator = Locator(options: options, systemBus: SharedBus(bus.address, loop: bus.loop))
    do { try await body(locator) } catch {
      await locator.close()
      throw error
    }
    await locator.close()
  }
}

@Suite struct GeoClueTests {
  private func fix(
    _ locator: Locator, within limit: Duration = .seconds(20), maxAge: Duration? = nil, detail: Detail = .balanced
  ) async throws(LocationError) -> Fix {
    try await locator.locate(LocationRequest(deadline: Monotonic.now() + limit, maxAge: maxAge, detail: detail)).fix
  }

  @Test(
    "it is told who asks and how fine, and its place is the answer; when nobody asks any more it is stopped",
    arguments: [(Detail.coarse, UInt32(4)), (.balanced, 6), (.precise, 8)])
  func good(_ detail: Detail, _ level: UInt32) async throws {
    try await PrivateBus.with { bus in
      let server = GeoClueServer()
      let service = try await server.serve(bus)
      try await GeoClueBed.with(bus, linger: .milliseconds(50)) { locator in
        let fix = try await fix(locator, detail: detail)
        #expect(fix.latitude == 52.37 && fix.accuracyMeters == 30 && fix.source == .wifi)
        #expect(server.settings.withLock { $0["DesktopId"] } == .string("org.talknode.TalkNode"))
        #expect(server.settings.withLock { $0["RequestedAccuracyLevel"] } == .uint32(level))
        #expect(await eventually { server.calls.withLock { $0.contains("Stop") } })
      }
      await service.close()
    }
  }

  @Test("an agent that is missing, a refusal, a service that is not there, and a bus that is not there are told apart")
  func failures() async throws {
    try await PrivateBus.with { bus in
      try await GeoClueBed.with(bus) { locator in
        let missing = try #require(await locator.refusal(within: .seconds(30)))
        #expect(missing.code == .unavailable && missing.summary.contains("not installed") && missing.remedy != nil)
        let finding = try #require(await locator.findings().first)
        #expect(finding.state == .failure(missing))
      }
      for (behaviour, part) in [(GeoClueServer.Behaviour.noAgent, "no agent"), (.denied, "Geolocation disabled")] {
        let service = try await GeoClueServer(behaviour).serve(bus)
        try await GeoClueBed.with(bus) { locator in
          let refusal = try #require(await locator.refusal(within: .seconds(30)))
          #expect(refusal.code == .disabled && refusal.summary.contains(part) && refusal.remedy != nil, "\(refusal)")
        }
        await service.close()
      }
    }
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    var options = LocationOptions()
    options.choice = .only(.geoclue)
    let locator = Locator(options: options, systemBus: SharedBus(.address("unix:path=/nonexistent"), loop: loop))
    let noBus = await locator.refusal(within: .seconds(30))
    #expect(
      noBus?.code == .unavailable && noBus?.summary.contains("no system bus") == true, "\(String(describing: noBus))")
    await locator.close()
  }

  @Test("a service that ends while it is waited for is started again when it is back, and the answer comes")
  func gone() async throws {
    try await PrivateBus.with { bus in
      let first = GeoClueServer(location: ["Latitude": .double(.nan)])
      let service = try await first.serve(bus)
      try await GeoClueBed.with(bus) { locator in
        let waiting = Task { try await fix(locator, within: .seconds(60)) }
        #expect(await eventually { first.calls.withLock { $0.contains("GetAll") } })
        await service.close()
        let second = GeoClueServer()
        let again = try await second.serve(bus)
        #expect(try await waiting.value.latitude == 52.37)
        await again.close()
        // The fix that has just come is a present one for two seconds.
        #expect(await eventually { await locator.refusal(within: .seconds(30))?.code == .unavailable })
      }
    }
  }

  @Test("a place it has kept for an hour is passed over until a present one comes, but not for who allows its age")
  func kept() async throws {
    try await PrivateBus.with { bus in
      let now = WallClock.milliseconds() / 1000
      let server = GeoClueServer(location: ["Timestamp": .structure([.uint64(UInt64(now - 3600)), .uint64(0)])])
      let service = try await server.serve(bus)
      try await GeoClueBed.with(bus) { locator in
        #expect(await locator.refusal(within: .milliseconds(500))?.code == .timeout)
        let old = try await fix(locator, maxAge: .seconds(7200))
        #expect(abs(old.timeMs - (now - 3600) * 1000) < 1000)
        async let present = fix(locator)
        server.location.withLock {
          $0["Timestamp"] = .structure([.uint64(UInt64(WallClock.milliseconds() / 1000)), .uint64(0)])
          $0["Latitude"] = .double(11)
        }
        // The signal may be there before the question; the newest fix then answers as a live one does.
        try await server.tell(service)
        #expect(try await present.latitude == 11)
      }
      await service.close()
    }
  }

  @Test("an accuracy of 0 is not told as exact")
  func zero() async throws {
    try await PrivateBus.with { bus in
      let service = try await GeoClueServer(location: ["Accuracy": .double(0)]).serve(bus)
      try await GeoClueBed.with(bus) { locator in
        let fix = try await fix(locator)
        #expect(fix.accuracyMeters >= 100 && !fix.isPrecise)
      }
      await service.close()
    }
  }
}

@Suite struct ChoiceTests {
  private func locator(_ bus: PrivateBus, gpsd: GpsdAddress, fixed: Bool) -> Locator {
    var options = LocationOptions()
    options.gpsd = gpsd
    options.fixed = fixed ? FixedPosition(latitude: 1, longitude: 2) : nil
    return Locator(options: options, systemBus: SharedBus(bus.address, loop: bus.loop))
  }

  private func ask(_ locator: Locator, within limit: Duration) async throws(LocationError) -> Located {
    try await locator.locate(LocationRequest(deadline: Monotonic.now() + limit))
  }

  @Test("auto: gpsd's fix first, without asking anybody else")
  func gpsdFirst() async throws {
    let gpsd = try ScriptedGpsd([
      .say(ScriptedGpsd.version), .say(ScriptedGpsd.devices), .say(ScriptedGpsd.report(#""lat":10.5,"lon":20.5"#)),
    ])
    defer { gpsd.stop() }
    try await PrivateBus.with { bus in
      let server = GeoClueServer()
      let service = try await server.serve(bus)
      let locator = locator(bus, gpsd: gpsd.address, fixed: true)
      let located = try await ask(locator, within: .seconds(20))
      #expect(located.provider == .gpsd && located.fix.latitude == 10.5 && located.passedOver.isEmpty)
      #expect(server.calls.withLock { $0.isEmpty })
      await locator.close()
      await service.close()
    }
  }

  @Test("auto: without gpsd it is GeoClue, without both the fixed position, and it is said why")
  func fallBack() async throws {
    let nobody = GpsdAddress(host: "127.0.0.1", port: SampleGpsd.freePort())
    try await PrivateBus.with { bus in
      let service = try await GeoClueServer().serve(bus)
      let locator = locator(bus, gpsd: nobody, fixed: true)
      let second = try await ask(locator, within: .seconds(20))
      #expect(second.provider == .geoclue && second.passedOver.map(\.provider) == [.gpsd])
      await service.close()
      // The fix that has just come is a present one for two seconds.
      let isGone = try await eventually { try await ask(locator, within: .seconds(20)).provider == .fixed }
      #expect(isGone)
      let third = try await ask(locator, within: .seconds(20))
      #expect(third.provider == .fixed && third.passedOver.map(\.provider) == [.gpsd, .geoclue])
      #expect(third.fix.latitude == 1 && third.fix.source == .unknown)
      await locator.close()
    }
  }

  @Test("auto: nobody knows anything: all reasons, at once")
  func nobody() async throws {
    let nobody = GpsdAddress(host: "127.0.0.1", port: SampleGpsd.freePort())
    try await PrivateBus.with { bus in
      let locator = locator(bus, gpsd: nobody, fixed: false)
      let refusal = try #require(await locator.refusal(within: .seconds(60)))
      #expect(refusal.code == .unavailable && refusal.summary.contains("gpsd") && refusal.summary.contains("GeoClue"))
      #expect(refusal.remedy != nil)
      await locator.close()
    }
  }

  @Test("auto: a receiver without a fix leaves time for the others, and gets the rest of it when they know nothing")
  func sharedTime() async throws {
    let gpsd = try ScriptedGpsd([
      .say(ScriptedGpsd.version), .say(ScriptedGpsd.devices), .hold,
      .say(ScriptedGpsd.report(#""lat":10.5,"lon":20.5"#)),
    ])
    defer { gpsd.stop() }
    try await PrivateBus.with { bus in
      let fixed = locator(bus, gpsd: gpsd.address, fixed: true)
      let first = try await ask(fixed, within: .seconds(1))
      #expect(first.provider == .fixed && first.passedOver.first?.error.code == .timeout)
      await fixed.close()
      let without = locator(bus, gpsd: gpsd.address, fixed: false)
      #expect(await without.refusal(within: .seconds(1))?.code == .timeout)
      async let late = ask(without, within: .seconds(4))
      // After its half of the time.
      try await Task.sleep(for: .milliseconds(2300))
      gpsd.go()
      gpsd.go()
      let located = try await late
      #expect(located.provider == .gpsd && located.passedOver.map(\.provider) == [.geoclue])
      await without.close()
    }
  }

  @Test("of several reasons, that of who is late or refuses comes before that of who is not there")
  func verdicts() {
    let (late, off, none) = (
      LocationError(.timeout, "late"), LocationError(.disabled, "off"), LocationError(.unavailable, "none", remedy: "r")
    )
    #expect(Locator.verdict([none, late, off]) == late && Locator.verdict([none, off]) == off)
    #expect(Locator.verdict([none]) == none && Locator.verdict([]).code == .unavailable)
    #expect(Locator.verdict([none, none]).summary == "none none")
  }
}
