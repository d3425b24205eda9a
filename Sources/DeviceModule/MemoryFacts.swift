import GatewayProtocol

/// Memory, of /proc/meminfo, the limits of a container's control group, and the kernel's pressure figures (PSI).
struct MemoryFacts: Sendable, Equatable {
  enum Pressure: String, Sendable { case normal, moderate, high, critical, unknown }

  var total: Int64?
  var available: Int64?
  /// The percentage of the last ten seconds in which some, or all, work waited for memory.
  var stalled: (some: Double, full: Double) = (0, 0)

  static func == (left: MemoryFacts, right: MemoryFacts) -> Bool {
    left.total == right.total && left.available == right.available && left.stalled == right.stalled
  }

  init(_ machine: MachineFiles) {
    var kilobytes: [Substring: Int64] = [:]
    for line in (machine.text("proc/meminfo") ?? "").split(separator: "\n") {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let number = line[line.index(after: colon)...].split(separator: " ").first
      if let value = number.flatMap({ Int64($0) }), (0...(1 << 50)).contains(value) {
        kilobytes[line[..<colon]] = value
      }
    }
    guard let total = kilobytes["MemTotal"], total > 0 else { return }
    // Before Linux 3.14 there was no MemAvailable.
    let free = ["MemFree", "Buffers", "Cached"].compactMap { kilobytes[$0] }.reduce(0, +)
    self.total = total * 1024
    available = min(total, kilobytes["MemAvailable"] ?? free) * 1024
    limit(machine)
    for line in (machine.text("proc/pressure/memory") ?? "").split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard let average = fields.first(where: { $0.hasPrefix("avg10=") }).flatMap({ Double($0.dropFirst(6)) }) else {
        continue
      }
      if fields[0] == "some" { stalled.some = average }
      if fields[0] == "full" { stalled.full = average }
    }
  }

  /// A container's own limit (control groups 2; the machine's top group has no such file).
  private mutating func limit(_ machine: MachineFiles) {
    guard let limit = machine.int("sys/fs/cgroup/memory.max"),
      let current = machine.int("sys/fs/cgroup/memory.current"),
      let total, let available, limit > 0, current >= 0, limit < total
    else { return }
    let cache =
      (machine.text("sys/fs/cgroup/memory.stat") ?? "").split(separator: "\n")
      .first { $0.hasPrefix("inactive_file ") }.flatMap { Int64($0.dropFirst(14)) } ?? 0
    self.total = limit
    self.available = min(available, max(0, limit - max(0, current - max(0, min(cache, current)))))
  }

  /// Below this much available memory is short: where pressure is critical by node-commands §9.4.
  private var threshold: Int64? { total.map { $0 / 20 } }

  var pressure: Pressure {
    guard let total, let available, let threshold else { return .unknown }
    if available <= threshold || stalled.full >= 40 { return .critical }
    let ratio = Double(available) / Double(total)
    if ratio <= 0.15 || stalled.full >= 10 { return .high }
    if ratio <= 0.30 || stalled.some >= 10 { return .moderate }
    return .normal
  }

  var json: JSON {
    .object(present: [
      "pressure": .string(pressure.rawValue), "totalRamBytes": total.map(JSON.int),
      "availableRamBytes": available.map(JSON.int),
      "usedRamBytes": total.flatMap { total in available.map { .int(total - $0) } },
      "thresholdBytes": threshold.map(JSON.int),
      "lowMemory": available.flatMap { available in threshold.map { .bool(available <= $0) } },
    ])
  }
}
