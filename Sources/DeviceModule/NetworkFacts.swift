import GatewayProtocol

/// How this machine is connected: by the kernel's interfaces and routes, and by NetworkManager where it is in charge.
struct NetworkFacts: Sendable, Equatable {
  enum Status: String, Sendable {
    case satisfied, unsatisfied
    /// A link, but no way out that is known to work.
    case requiresConnection
  }
  enum Kind: String, Sendable, CaseIterable { case wifi, cellular, wired, other }

  var status = Status.unsatisfied
  var isExpensive = false
  /// The one with the default route first.
  var interfaces: [Kind] = []

  init(status: Status = .unsatisfied, isExpensive: Bool = false, interfaces: [Kind] = []) {
    self.status = status
    self.isExpensive = isExpensive
    self.interfaces = interfaces
  }

  // ARPHRD_LOOPBACK and ARPHRD_ETHER of linux/if_arp.h.
  private static let loopback: Int64 = 772
  private static let ethernet: Int64 = 1

  init(_ machine: MachineFiles) {
    let routed = Self.routed(machine)
    var kinds: [(kind: Kind, isRouted: Bool)] = []
    for name in machine.names(in: "sys/class/net").prefix(256) {
      let folder = "sys/class/net/\(name)/"
      guard let type = machine.int(folder + "type"), type != Self.loopback, Self.isUp(machine, folder)
      else { continue }
      // Bridges and the like lead nowhere by themselves: they count when traffic goes out through them.
      let isRouted = routed.contains(name)
      if isRouted || machine.exists(folder + "device") {
        kinds.append((Self.kind(machine, folder, name, type), isRouted))
      }
    }
    for (kind, _) in kinds.filter(\.isRouted) + kinds.filter({ !$0.isRouted }) where !interfaces.contains(kind) {
      interfaces.append(kind)
    }
    status = kinds.contains { $0.isRouted } ? .satisfied : kinds.isEmpty ? .unsatisfied : .requiresConnection
    isExpensive = kinds.first { $0.isRouted }?.kind == .cellular
  }

  private static func isUp(_ machine: MachineFiles, _ folder: String) -> Bool {
    switch machine.text(folder + "operstate") {
    case "up": true
    // Tunnels and some drivers don't say; then a carrier does.
    case "unknown": machine.int(folder + "carrier") == 1
    default: false
    }
  }

  private static func kind(_ machine: MachineFiles, _ folder: String, _ name: String, _ type: Int64) -> Kind {
    if machine.exists(folder + "wireless") || machine.exists(folder + "phy80211") { return .wifi }
    if machine.text(folder + "uevent")?.contains("DEVTYPE=wwan") == true || name.hasPrefix("wwan") { return .cellular }
    return type == Self.ethernet ? .wired : .other
  }

  /// The interfaces with a default route, of either protocol.
  private static func routed(_ machine: MachineFiles) -> Set<String> {
    var names: Set<String> = []
    // Iface Destination Gateway Flags … Mask, in hexadecimal; flag 1 = up, 0x200 = rejects.
    for line in (machine.text("proc/net/route") ?? "").split(separator: "\n") {
      let fields = line.split(whereSeparator: \.isWhitespace)
      guard fields.count > 7, fields[1] == "00000000", fields[7] == "00000000" else { continue }
      if let flags = UInt32(fields[3], radix: 16), flags & 0x201 == 1 { names.insert(String(fields[0])) }
    }
    // Destination, its prefix length, …, flags, interface.
    for line in (machine.text("proc/net/ipv6_route") ?? "").split(separator: "\n") {
      let fields = line.split(whereSeparator: \.isWhitespace)
      guard fields.count == 10, fields[1] == "00", fields[0].allSatisfy({ $0 == "0" }) else { continue }
      if let flags = UInt32(fields[8], radix: 16), flags & 0x201 == 1, fields[9] != "lo" {
        names.insert(String(fields[9]))
      }
    }
    return names
  }

  /// NetworkManager knows whether the way out works and whether it costs, where it is in charge.
  func merged(with manager: NetworkFacts?) -> NetworkFacts {
    guard let manager else { return self }
    var merged = manager
    for kind in interfaces where !merged.interfaces.contains(kind) { merged.interfaces.append(kind) }
    return merged
  }

  var json: JSON {
    [
      "status": .string(status.rawValue), "isExpensive": .bool(isExpensive),
      // Linux has no "use as little data as you can".
      "isConstrained": false, "interfaces": .strings(interfaces.map(\.rawValue)),
    ]
  }
}
