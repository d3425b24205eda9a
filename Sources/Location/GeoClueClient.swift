import System

/// The feed that is GeoClue2, the location service of desktops (org.freedesktop.GeoClue2, on the system bus): GetClient, who we are and how
/// fine, Start, and then each LocationUpdated.
actor GeoClueClient {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  static let service = "org.freedesktop.GeoClue2"
  private static let managerPath = "/org/freedesktop/GeoClue2/Manager"
  private static let manager = "org.freedesktop.GeoClue2.Manager"
  private static let client = "org.freedesktop.GeoClue2.Client"
  private static let location = "org.freedesktop.GeoClue2.Location"
  /// Under which a person finds us in the desktop's privacy settings.
  static let desktopID = "org.talknode.TalkNode"
  /// Without an agent of the desktop GetClient is never answered.
  static let agentPatience: Duration = .seconds(2)

  private let bus: SharedBus
  private var session: Task<Void, Never>?
  /// What has to be ended when the session is.
  private var started: (bus: Bus, path: String)?

  init(bus: SharedBus) {
    self.bus = bus
    loop = bus.loop
  }

  nonisolated var feed: FixFeed {
    FixFeed(
      open: { [self] detail, deliver in assumeIsolated { $0.open(detail, deliver) } },
      close: { [self] in assumeIsolated { $0.close() } })
  }

  private func open(_ detail: Detail, _ deliver: @escaping FixFeed.Deliver) {
    // An older session gives its client back first: GeoClue has one client for each connection to the bus.
    let before = session
    before?.cancel()
    session = Task {
      await before?.value
      if Task.isCancelled { return }
      do throws(DBusError) { try await run(detail, deliver) } catch {
        if !Task.isCancelled { deliver(.failed(Self.failure(error))) }
      }
      await stop()
    }
  }

  private func close() { session?.cancel() }

  private func stop() async {
    guard let started else { return }
    self.started = nil
    // Not in this task, which may be cancelled: GeoClue would go on for as long as our connection lives.
    await Task {
      _ = try? await started.bus.call(
        Self.service, started.path, Self.client, "Stop", timeout: .seconds(1), starts: false)
    }.value
  }

  private func run(_ detail: Detail, _ deliver: @escaping FixFeed.Deliver) async throws(DBusError) {
    let bus = try await bus.bus()
    if try await bus.owner(of: Self.service) == nil {
      // So that a service that has to be started first is not taken for one without an agent.
      _ = try await bus.call(
        "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "StartServiceByName",
        [.string(Self.service), .uint32(0)], timeout: .seconds(10))
    }
    let owners = try await bus.owners(of: Self.service)
    let path = try await getClient(bus)
    for (name, value) in [
      ("DesktopId", DBusValue.string(Self.desktopID)), ("RequestedAccuracyLevel", .uint32(UInt32(detail.rawValue))),
    ] {
      _ = try await bus.call(
        Self.service, path, "org.freedesktop.DBus.Properties", "Set",
        [.string(Self.client), .string(name), .variant(value)], timeout: .seconds(2))
    }
    let updates = try await bus.signals(
      DBusMatch(sender: Self.service, path: path, interface: Self.client, member: "LocationUpdated"))
    started = (bus, path)
    // The agent may ask the person first.
    _ = try await bus.call(Self.service, path, Self.client, "Start", timeout: .seconds(60))
    deliver(.opened)
    let watcher = Task { await tellEnd(of: owners, deliver) }
    defer { watcher.cancel() }
    for await update in updates {
      guard update.arguments.count == 2, let place = update.arguments[1].text, place != "/" else { continue }
      await take(place, bus, deliver)
    }
    if !Task.isCancelled { deliver(.failed(Self.gone)) }
  }

  private func tellEnd(of owners: AsyncStream<String?>, _ deliver: FixFeed.Deliver) async {
    for await owner in owners where owner == nil { break }
    if !Task.isCancelled { deliver(.failed(Self.gone)) }
  }

  private func getClient(_ bus: Bus) async throws(DBusError) -> String {
    let reply: [DBusValue]
    do throws(DBusError) {
      reply = try await bus.call(
        Self.service, Self.managerPath, Self.manager, "GetClient", timeout: Self.agentPatience)
    } catch {
      throw error.isNoReply ? Self.noAgent : error
    }
    guard let path = reply.first?.text, path.hasPrefix("/") else { throw Self.nonsense }
    return path
  }

  private func take(_ place: String, _ bus: Bus, _ deliver: FixFeed.Deliver) async {
    // An object that is gone already has a successor, which is announced, too.
    guard let properties = try? await bus.properties(Self.service, place, Self.location, timeout: .seconds(2)),
      let report = GeoClueReport(properties)
    else { return }
    if let fix = report.fix(receivedAt: Monotonic.now(), receivedMs: WallClock.milliseconds()) {
      deliver(.fix(fix, receiver: Self.service))
    } else {
      deliver(.noFix(receiver: Self.service))
    }
  }

  // MARK: What is wrong, told apart

  private static let noAgent = DBusError("TalkNode.NoAgent", "")
  private static let nonsense = DBusError("TalkNode.Nonsense", "")
  private static let gone = LocationError(.unavailable, "GeoClue has ended.", remedy: "sudo systemctl restart geoclue")

  static func failure(_ error: DBusError) -> LocationError {
    if error == noAgent {
      return LocationError(
        .disabled, "GeoClue does not answer: no agent is there that a person could allow it with.",
        remedy: "Log into a desktop, or allow it without one in /etc/geoclue/geoclue.conf: "
          + "a section [\(desktopID)] with allowed=true, system=true and users=")
    }
    if error == nonsense { return LocationError(.unavailable, "GeoClue answered what can't be understood.") }
    if error.name == "org.freedesktop.DBus.Error.AccessDenied" {
      return LocationError(
        .disabled, "GeoClue refuses this program the position: \(error.message)",
        remedy: "Switch location services on, and allow \(desktopID), in the desktop's privacy settings.")
    }
    if error.isServiceMissing {
      return LocationError(
        .unavailable, "GeoClue is not installed.", remedy: "sudo apt install geoclue-2.0")
    }
    if error.isNoReply { return LocationError(.unavailable, "GeoClue does not answer.", remedy: gone.remedy) }
    if error.isConnectionFailure {
      return LocationError(.unavailable, "GeoClue can't be asked: there is no system bus.", remedy: nil)
    }
    return LocationError(.unavailable, "GeoClue failed: \(error.message)", remedy: nil)
  }

  /// Whether it runs or could be started. Asks the bus only, so that nothing is looked up or sent.
  func check() async -> LocationError? {
    do throws(DBusError) {
      let bus = try await bus.bus()
      if try await bus.owner(of: Self.service, timeout: .seconds(2)) != nil { return nil }
      let reply = try await bus.call(
        "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ListActivatableNames",
        timeout: .seconds(2))
      if reply.first?.array?.contains(.string(Self.service)) == true { return nil }
      return Self.failure(DBusError("org.freedesktop.DBus.Error.ServiceUnknown", ""))
    } catch {
      return Self.failure(error)
    }
  }
}
