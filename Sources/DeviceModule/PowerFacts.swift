import GatewayProtocol

/// Batteries, chargers and the power mode, of /sys/class/power_supply (kernel: Documentation/ABI/testing/sysfs-class-power).
struct PowerFacts: Sendable, Equatable {
  enum State: String, Sendable { case unknown, unplugged, charging, full }
  enum Charger: String, Sendable { case none, ac, usb, wireless }

  /// Of all batteries together, from 0 to 1.
  var level: Double?
  var state = State.unknown
  var charger = Charger.none
  var temperatureC: Double?
  /// Into the battery; out of it is negative.
  var currentMa: Int64?
  var isSaving = false

  init() {}

  init(_ machine: MachineFiles) {
    isSaving = machine.text("sys/firmware/acpi/platform_profile") == "low-power"
    var batteries: [Battery] = []
    for name in machine.names(in: "sys/class/power_supply").prefix(64) {
      let supply = Supply(machine: machine, folder: "sys/class/power_supply/\(name)/")
      switch supply.text("type") {
      // A mouse's or a headset's battery is not this machine's.
      case "Battery" where supply.text("scope") != "Device" && supply.int("present") != 0:
        batteries.append(Battery(supply))
      case "Mains" where supply.int("online") ?? 0 > 0: charger = .ac
      case "USB" where supply.int("online") ?? 0 > 0: if charger == .none { charger = .usb }
      case "Wireless" where supply.int("online") ?? 0 > 0: if charger == .none { charger = .wireless }
      default: break
      }
    }
    if batteries.isEmpty { return }
    level = Self.level(of: batteries)
    state = Self.state(of: batteries.map(\.status), level: level, isPlugged: charger != .none)
    temperatureC = batteries.compactMap(\.temperatureC).max()
    let currents = batteries.compactMap(\.currentMa)
    currentMa = currents.isEmpty ? nil : currents.reduce(0, +)
  }

  private struct Supply {
    let machine: MachineFiles
    let folder: String
    func text(_ name: String) -> String? { machine.text(folder + name) }
    func int(_ name: String) -> Int64? { machine.int(folder + name) }
  }

  private struct Battery {
    let capacity: Double?
    /// How full, and how full it can be, in one unit (µWh or µAh).
    let charge: (now: Double, full: Double)?
    let status: String
    let temperatureC: Double?
    let currentMa: Int64?

    init(_ supply: Supply) {
      capacity = supply.int("capacity").map { Double($0) / 100 }
      charge =
        ["energy", "charge"].lazy.compactMap { kind -> (now: Double, full: Double)? in
          guard let now = supply.int(kind + "_now"), let full = supply.int(kind + "_full"), full > 0, now >= 0 else {
            return nil
          }
          return (Double(now), Double(full))
        }.first
      let status = supply.text("status") ?? "Unknown"
      self.status = status
      // A gauge that has no sensor says 0 or an impossible value.
      temperatureC = supply.int("temp").map { Double($0) / 10 }.flatMap {
        $0 != 0 && (-40.0...120.0).contains($0) ? $0 : nil
      }
      var current = supply.int("current_now").map { $0 / 1000 }
      if current == nil, let power = supply.int("power_now"), let voltage = supply.int("voltage_now"), voltage > 0 {
        current = Int64((Double(power) / Double(voltage) * 1000).rounded().clamped(to: -1e9...1e9))
      }
      // Some drivers sign it and some don't, so the status does.
      currentMa = current.map { current in
        let size = Int64(clamping: current.magnitude)
        return status == "Discharging" ? -size : status == "Charging" ? size : current
      }
    }
  }

  private static func level(of batteries: [Battery]) -> Double? {
    let charges = batteries.compactMap(\.charge)
    if batteries.count > 1 && charges.count == batteries.count {
      let level = charges.map(\.now).reduce(0, +) / charges.map(\.full).reduce(0, +)
      return (level.clamped(to: 0...1) * 100).rounded() / 100
    }
    let levels = batteries.compactMap { $0.capacity ?? $0.charge.map { $0.now / $0.full } }
    if levels.isEmpty { return nil }
    return ((levels.reduce(0, +) / Double(levels.count)).clamped(to: 0...1) * 100).rounded() / 100
  }

  private static func state(of statuses: [String], level: Double?, isPlugged: Bool) -> State {
    if statuses.contains("Charging") { return .charging }
    if statuses.contains("Discharging") { return .unplugged }
    if statuses.allSatisfy({ $0 == "Full" }) { return .full }
    // "Not charging": plugged in and held, near the top or at a threshold the owner has set.
    if statuses.contains("Not charging") || statuses.contains("Full") { return isPlugged ? .full : .unknown }
    return .unknown
  }

  // MARK: With the desktop's services

  /// UPower knows of batteries that the kernel does not show as files, and smooths what it shows; the rest comes from files.
  func merged(with desktop: DesktopFacts) -> PowerFacts {
    var merged = self
    if let battery = desktop.battery {
      merged.level = battery.level ?? level
      if battery.state != .unknown { merged.state = battery.state }
    }
    if let isSaving = desktop.isSaving { merged.isSaving = isSaving }
    return merged
  }

  var statusJSON: JSON {
    .object(present: [
      "level": level.map(JSON.double), "levelPercent": level.map { .int(Int64(($0 * 100).rounded())) },
      "state": .string(state.rawValue), "lowPowerModeEnabled": .bool(isSaving),
    ])
  }

  var healthJSON: JSON {
    .object(present: [
      "state": .string(state.rawValue), "chargingType": .string(charger.rawValue),
      "temperatureC": temperatureC.map(JSON.double), "currentMa": currentMa.map(JSON.int),
    ])
  }
}

extension Double {
  func clamped(to range: ClosedRange<Double>) -> Double {
    isNaN ? range.lowerBound : min(max(self, range.lowerBound), range.upperBound)
  }
}
