import System

/// What the desktop's services know better than files.
struct DesktopFacts: Sendable, Equatable {
  struct Battery: Sendable, Equatable {
    let level: Double?
    let state: PowerFacts.State
  }
  /// nil without UPower, or when it sees no battery.
  var battery: Battery?
  /// nil without a power profile daemon.
  var isSaving: Bool?
  /// nil without NetworkManager, or when it is not in charge of the way out.
  var network: NetworkFacts?
}

/// UPower, the power profile daemon and NetworkManager on the system bus. Asked with a short deadline, and never started: a machine
/// that does without them is told of by its files.
struct DesktopServices: Sendable {
  let systemBus: SharedBus
  private static let patience: Duration = .milliseconds(500)

  func read() async -> DesktopFacts {
    guard let bus = try? await systemBus.bus() else { return DesktopFacts() }
    async let battery = battery(bus)
    async let isSaving = isSaving(bus)
    async let network = network(bus)
    return await DesktopFacts(battery: battery, isSaving: isSaving, network: network)
  }

  private func properties(_ bus: Bus, _ service: String, _ path: String, _ interface: String) async -> [String:
    DBusValue]?
  {
    let reply = try? await bus.call(
      service, path, "org.freedesktop.DBus.Properties", "GetAll", [.string(interface)], timeout: Self.patience,
      starts: false)
    return reply?.first?.members
  }

  /// UPower's sum of all batteries.
  private func battery(_ bus: Bus) async -> DesktopFacts.Battery? {
    let found = await properties(
      bus, "org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice", "org.freedesktop.UPower.Device")
    // Type 2 = battery; a desktop's display device is of type 0 and not present.
    guard let found, found["Type"]?.int == 2, found["IsPresent"]?.bool == true else { return nil }
    let state: PowerFacts.State =
      switch found["State"]?.int {
      case 1: .charging
      case 2, 3, 6: .unplugged  // Discharging, empty, about to discharge.
      case 4: .full
      default: .unknown
      }
    let percentage = found["Percentage"]?.double.flatMap { (0...100).contains($0) ? $0 : nil }
    return DesktopFacts.Battery(level: percentage.map { $0.rounded() / 100 }, state: state)
  }

  /// The daemon has moved to UPower's name; older ones have only the first of their own.
  private func isSaving(_ bus: Bus) async -> Bool? {
    for (service, path) in [
      ("org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles"),
      ("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles"),
    ] {
      if let profile = await properties(bus, service, path, service)?["ActiveProfile"]?.text {
        return profile == "power-saver"
      }
    }
    return nil
  }

  private func network(_ bus: Bus) async -> NetworkFacts? {
    let service = "org.freedesktop.NetworkManager"
    guard let found = await properties(bus, service, "/org/freedesktop/NetworkManager", service) else { return nil }
    // On a server another program may be in charge, and then NetworkManager says "disconnected" of a machine that is not.
    guard let primary = found["PrimaryConnection"]?.text, primary != "/" else { return nil }
    let kind: NetworkFacts.Kind =
      switch found["PrimaryConnectionType"]?.text {
      case "802-11-wireless": .wifi
      case "802-3-ethernet": .wired
      case "gsm", "cdma": .cellular
      default: .other
      }
    let status: NetworkFacts.Status =
      switch (found["Connectivity"]?.int, found["State"]?.int) {
      case (4, _): .satisfied
      case (1, _): .unsatisfied
      case (2, _), (3, _): .requiresConnection  // A sign-in page, or no way out.
      case (_, 70): .satisfied  // Not checked; connected as far as it knows.
      case (_, 50), (_, 60): .requiresConnection
      default: .unsatisfied
      }
    // Metered: 1 = yes, 3 = a guess at yes.
    let isMetered = found["Metered"]?.int.map { $0 == 1 || $0 == 3 } ?? false
    return NetworkFacts(status: status, isExpensive: isMetered || kind == .cellular, interfaces: [kind])
  }
}
