/// How hot the machine is, by its thermal zones and what the kernel does at which temperature (kernel:
/// Documentation/ABI/testing/sysfs-class-thermal). Without a zone nothing says that it is hot, so it is `nominal`.
enum Heat: String, Sendable, Comparable {
  case nominal, fair, serious, critical

  private var rank: Int {
    switch self {
    case .nominal: 0
    case .fair: 1
    case .serious: 2
    case .critical: 3
    }
  }
  static func < (left: Heat, right: Heat) -> Bool { left.rank < right.rank }

  init(_ machine: MachineFiles) {
    let zones = machine.names(in: "sys/class/thermal").filter { $0.hasPrefix("thermal_zone") }
    self = zones.prefix(64).map { Self.zone(machine, "sys/class/thermal/\($0)/") }.max() ?? .nominal
  }

  private static func zone(_ machine: MachineFiles, _ folder: String) -> Heat {
    // Millidegrees. Sensors that are off read as 0, below the ice, or as an error.
    guard machine.text(folder + "mode") != "disabled", let now = machine.int(folder + "temp"),
      (1...250_000).contains(now)
    else {
      return .nominal
    }
    var lowest: [String: Int64] = [:]
    for index in 0..<16 {
      guard let type = machine.text(folder + "trip_point_\(index)_type") else { break }
      guard let point = machine.int(folder + "trip_point_\(index)_temp"), (1...250_000).contains(point) else {
        continue
      }
      lowest[type] = min(lowest[type] ?? point, point)
    }
    // `active` points switch fans on, which says nothing. `passive` ones slow the processor down.
    let slows = lowest["passive"]
    let ends = [lowest["hot"], lowest["critical"]].compactMap { $0 }.min()
    if let ends, now >= ends { return .critical }
    if let slows {
      return now >= slows ? .serious : now >= slows - 5000 ? .fair : .nominal
    }
    if let ends {
      return now >= ends - 5000 ? .serious : now >= ends - 15000 ? .fair : .nominal
    }
    return .nominal
  }
}
