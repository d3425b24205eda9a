import GatewayProtocol
import NodeKit
import System
import TestSupport
import Testing

@testable import Location
@testable import LocationModule

/// logind as a peer on a real bus, with the sessions that a test gives it.
final class LoginServer: Sendable {
  struct Session: Sendable {
    var user = UInt32(4711)
    var seat = "seat0"
    var isActive = true
    var isLocked = false
    var isRemote = false
    var `class` = "user"
  }
  let sessions: Lock<[Session]>
  private let seats: Int
  /// Runs when the sessions have been asked for and told.
  private let hasTold: @Sendable (LoginServer) -> Void

  init(_ sessions: [Session], seats: Int = 1, hasTold: @escaping @Sendable (LoginServer) -> Void = { _ in }) {
    self.sessions = Lock(sessions)
    self.seats = seats
    self.hasTold = hasTold
  }

  func serve(_ bus: PrivateBus) async throws -> Bus {
    let service = try await bus.connect()
    _ = try await service.export("/org/freedesktop/login1", subtree: true) { [self] call throws(DBusError) in
      let sessions = sessions.withLock { $0 }
      switch call.member {
      case "ListSeats":
        return [
          .array(
            (0..<seats).map { .structure([.string("seat\($0)"), .objectPath("/org/freedesktop/login1/seat/s\($0)")]) },
            of: "(so)")
        ]
      case "ListSessions":
        return [
          .array(
            sessions.enumerated().map { index, session in
              .structure([
                .string("\(index)"), .uint32(session.user), .string("somebody"), .string(session.seat),
                .objectPath("/org/freedesktop/login1/session/s\(index)"),
              ])
            }, of: "(susso)")
        ]
      case "GetAll":
        guard let index = call.path.split(separator: "s").last.flatMap({ Int($0) }), sessions.indices.contains(index)
        else {
          throw DBusError("org.freedesktop.DBus.Error.UnknownObject", call.path)
        }
        let session = sessions[index]
        defer { hasTold(self) }
        return [
          .options([
            "Active": .bool(session.isActive), "LockedHint": .bool(session.isLocked), "Remote": .bool(session.isRemote),
            "Class": .string(session.class),
          ])
        ]
      default: throw DBusError("org.freedesktop.DBus.Error.UnknownMethod", call.member)
      }
    }
    try await service.requestName("org.freedesktop.login1")
    return service
  }
}

/// The module over a fixed position, with switches in a folder of its own.
struct ModuleBed {
  let folder = TemporaryFolder()
  let bus: PrivateBus
  let switches: SwitchStore
  let module: LocationModule
  let locator: Locator

  init(
    _ bus: PrivateBus, roundTo meters: Double = 0, on names: [String] = ["location", "location.always"],
    choice: ProviderChoice = .only(.fixed)
  ) throws {
    self.bus = bus
    switches = SwitchStore(path: folder("switches.json"))
    for name in names { try switches.set(name, enabled: true) }
    let shared = SharedBus(bus.address, loop: bus.loop)
    var options = LocationOptions()
    options.choice = choice
    // Nobody listens there.
    options.gpsd.port = 1
    options.fixed = FixedPosition(latitude: 52.37, longitude: 4.895, accuracyMeters: 20, altitudeMeters: 3)
    locator = Locator(options: options, systemBus: shared)
    module = LocationModule(
      locator: locator, privacy: .init(roundToMeters: meters), switches: switches,
      sessions: LoginSessions(systemBus: shared, user: 4711))
  }

  func get(_ params: String? = nil, limit: Duration = .seconds(20)) async -> Result<JSON, CommandError> {
    let invocation = Invocation(
      id: "i", command: "location.get", paramsText: params.map { Array($0.utf8) }, origin: .gateway("g"),
      deadline: Monotonic.now() + limit, payloadLimit: 1 << 20)
    do throws(CommandError) {
      guard case .json(let json) = try await module.handle(invocation) else { return .success(.null) }
      return .success(json)
    } catch {
      return .failure(error)
    }
  }

  func refusal(_ params: String? = nil) async -> CommandError? {
    if case .failure(let error) = await get(params) { error } else { nil }
  }
}

@Suite("location.get") struct LocationModuleTests {
  @Test("the answer has the members that the protocol names, and no others")
  func payload() async throws {
    try await PrivateBus.with { bus in
      let answer = try await ModuleBed(bus).get().get()
      #expect(
        Set(answer.object?.keys.map { $0 } ?? [])
          == ["lat", "lon", "accuracyMeters", "altitudeMeters", "timestamp", "isPrecise", "source"])
      #expect(answer["lat"] == .double(52.37) && answer["lon"] == .double(4.895))
      #expect(answer["accuracyMeters"] == .double(20) && answer["altitudeMeters"] == .double(3))
      #expect(answer["isPrecise"] == .bool(true) && answer["source"] == "unknown")
      let time = try #require(answer["timestamp"]?.string)
      #expect(time.count == 24 && time.hasSuffix("Z"), "\(time)")
    }
  }

  @Test(
    "a receiver's fix is told with speed and heading, numbers in a form that fits them; a time of receipt is said to be one"
  )
  func receiver() {
    let fix = Fix(
      latitude: 52.370_123_456_7, longitude: -0.000_000_04, accuracyMeters: 0.01, isAccuracyStated: true,
      altitudeMeters: nil, speedMps: 5.14444, headingDeg: 359.99, timeMs: 1_796_000_000_123, isTimeFromReceipt: true,
      source: .gps, satellites: Fix.Satellites(used: 4, visible: 9), receivedAt: .zero)
    let json = LocationModule.json(fix)
    #expect(json["lat"] == .double(52.3701235) && json["speedMps"] == .double(5.14) && json["headingDeg"] == .double(0))
    #expect(json["accuracyMeters"] == .double(0.1) && json["altitudeMeters"] == nil)
    #expect(json["timestampIsReceipt"] == .bool(true) && json["satellites"] == nil && json["source"] == "gps")
    #expect(json["timestamp"] == "2026-11-30T00:53:20.123Z")
  }

  @Test("params that are not as they should be count as not given, and times are kept within their bounds")
  func params() throws {
    for (text, timeoutMs, maxAgeMs, detail) in [
      ("{}", 10_000, nil, .balanced), (#"{"timeoutMs":5}"#, 1000, nil, .balanced),
      (#"{"timeoutMs":9e9}"#, 60_000, nil, .balanced),
      (#"{"timeoutMs":"20000","maxAgeMs":"5"}"#, 10_000, nil, .balanced),
      (#"{"timeoutMs":2500,"maxAgeMs":0,"desiredAccuracy":"coarse"}"#, 2500, 0, .coarse),
      (#"{"maxAgeMs":-4,"desiredAccuracy":"precise"}"#, 10_000, 0, .precise),
      (#"{"maxAgeMs":5000,"desiredAccuracy":"to the inch","extra":1}"#, 10_000, 5000, .balanced),
    ] as [(String, Int64, Int64?, Detail)] {
      let params = LocationParams(try JSON(parsing: text), isPreciseAllowed: true)
      #expect(params.timeoutMs == timeoutMs && params.maxAgeMs == maxAgeMs && params.detail == detail, "\(text)")
    }
    let coarse = LocationParams(["desiredAccuracy": "precise"], isPreciseAllowed: false)
    #expect(coarse.detail == .balanced)
    // The answer is there before the caller has gone.
    #expect(coarse.request(now: .seconds(5), invocation: .seconds(8)).deadline == .seconds(8) - .milliseconds(50))
    #expect(coarse.request(now: .seconds(5), invocation: .seconds(90)).deadline == .seconds(15))
  }

  @Test("malformed params are all defaults", arguments: ["", "null", "[]", "{", "7"])
  func malformed(_ text: String) async throws {
    try await PrivateBus.with { bus in
      let answer = try await ModuleBed(bus).get(text).get()
      #expect(answer["lat"] != nil)
    }
  }

  @Test("while using: only for the user whose session is at a seat, active and not locked")
  func whileUsing() async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus, on: ["location"])
      #expect(bed.module.mode == .whileUsing)
      let without = await bed.refusal()
      #expect(without?.code == "LOCATION_BACKGROUND_UNAVAILABLE", "no logind")
      let login = LoginServer([])
      let service = try await login.serve(bus)
      for (sessions, isAllowed) in [
        ([LoginServer.Session()], true), ([LoginServer.Session(isLocked: true)], false),
        ([LoginServer.Session(isActive: false)], false), ([LoginServer.Session(seat: "")], false),
        ([LoginServer.Session(isRemote: true)], false), ([LoginServer.Session(user: 12)], false),
        ([LoginServer.Session(class: "greeter")], false), ([], false),
        ([LoginServer.Session(isActive: false), LoginServer.Session()], true),
      ] {
        login.sessions.withLock { $0 = sessions }
        let refusal = await bed.refusal()
        #expect((refusal == nil) == isAllowed, "\(sessions)")
        if let refusal {
          #expect(
            refusal.code == "LOCATION_BACKGROUND_UNAVAILABLE" && refusal.remedy?.contains("location.always") == true)
        }
      }
      try bed.switches.set("location.always", enabled: true)
      login.sessions.withLock { $0 = [] }
      #expect(await bed.refusal() == nil && bed.module.mode == .always)
      await service.close()
    }
  }

  @Test("a machine that is locked while its place is waited for does not tell it")
  func lockedMeanwhile() async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus, on: ["location"])
      let login = LoginServer([LoginServer.Session()]) { server in
        server.sessions.withLock { $0[0].isLocked = true }
      }
      let service = try await login.serve(bus)
      #expect(await bed.refusal()?.code == "LOCATION_BACKGROUND_UNAVAILABLE")
      await service.close()
    }
  }

  @Test("a switch that is turned off while the place is waited for holds for it", arguments: [false, true])
  func turnedOffMeanwhile(altogether: Bool) async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus, choice: .auto)
      // Asked before the fixed position is: the person turns the switch while it is.
      let geoclue = try await bus.connect()
      let switches = bed.switches
      _ = try await geoclue.export("/org/freedesktop/GeoClue2", subtree: true) { _ throws(DBusError) in
        try? switches.set(altogether ? "location" : "location.always", enabled: false)
        throw DBusError("org.freedesktop.DBus.Error.AccessDenied", "not today")
      }
      try await geoclue.requestName("org.freedesktop.GeoClue2")
      let login = try await LoginServer([LoginServer.Session(isLocked: true)]).serve(bus)
      #expect(bed.module.mode == .always)
      let refusal = await bed.refusal()
      #expect(refusal?.code == (altogether ? "LOCATION_DISABLED" : "LOCATION_BACKGROUND_UNAVAILABLE"))
      #expect(bed.module.mode == (altogether ? .off : .whileUsing))
      await login.close()
      await geoclue.close()
    }
  }

  @Test(
    "where nobody can sit down, switching it on means always; where there is a seat, it does not; off takes it back")
  func seats() async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus, on: [])
      #expect(bed.module.mode == .off)
      let modules: [any CapabilityModule] = [bed.module]
      _ = try await modules.turn("location", on: true, in: bed.switches)
      #expect(bed.module.mode == .always, "no logind, no seat")
      _ = try await modules.turn("location", on: false, in: bed.switches)
      #expect(bed.module.mode == .off && !bed.switches.isEnabled("location.always"))
      let service = try await LoginServer([], seats: 1).serve(bus)
      _ = try await modules.turn("location", on: true, in: bed.switches)
      #expect(bed.module.mode == .whileUsing)
      await service.close()
      let seatless = try await LoginServer([], seats: 0).serve(bus)
      _ = try await modules.turn("location", on: true, in: bed.switches)
      #expect(bed.module.mode == .always)
      await seatless.close()
    }
  }

  @Test(
    "without the precise switch a place is told to a kilometre, the same for all places of the field, and never called precise"
  )
  func precise() async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus)
      try bed.switches.set("location.precise", enabled: false)
      let answer = try await bed.get().get()
      #expect(answer["isPrecise"] == .bool(false) && answer["altitudeMeters"] == nil)
      #expect((answer["accuracyMeters"]?.double ?? 0) > 400)
      #expect(answer["lat"] != .double(52.37))
    }
  }

  @Test("the grid of the settings comes last")
  func grid() async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus, roundTo: 100)
      let answer = try await bed.get().get()
      #expect(answer["lat"] != .double(52.37) && answer["altitudeMeters"] == nil)
      #expect((60...100).contains(answer["accuracyMeters"]?.double ?? 0))
      bed.module.choose(.init(roundToMeters: 0))
      #expect(try await bed.get().get()["lat"] == .double(52.37))
    }
  }

  @Test(
    "through the router: off is LOCATION_DISABLED, and a place that was switched off while it was waited for is not told"
  )
  func switchedOff() async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus, on: [])
      let router = CommandRouter(
        modules: [bed.module], switches: bed.switches, audit: AuditLog(path: bed.folder("audit.jsonl")), loop: bus.loop)
      let request = InvokeRequest(id: "1", nodeID: "n", command: "location.get", paramsText: nil, timeoutMs: 5000)
      let outcome = await router.handle(request, from: .gateway("g"), payloadLimit: 1 << 20)
      guard case .failure(let error) = outcome else {
        Issue.record("it was told")
        return
      }
      #expect(error["code"] == "LOCATION_DISABLED")
      await router.stop()
      // As if it were switched off between the router's look and the module's answer.
      #expect(await bed.refusal()?.code == "LOCATION_DISABLED")
    }
  }

  @Test(
    "what the node declares: the capability and its permission with the switch, nothing without; its switches are the person's to turn"
  )
  func surface() async throws {
    try await PrivateBus.with { bus in
      let bed = try ModuleBed(bus, on: [])
      let modules: [any CapabilityModule] = [bed.module]
      #expect(modules.surface(under: bed.switches).caps.isEmpty)
      try bed.switches.set("location", enabled: true)
      let surface = modules.surface(under: bed.switches)
      #expect(surface.caps == ["location"] && surface.commands == ["location.get"])
      #expect(surface.permissions == ["location": true])
      #expect(modules.consents.map(\.name) == ["location", "location.always", "location.precise"])
      #expect(modules.consents.map(\.isOnByDefault) == [false, false, true])
    }
  }
}
