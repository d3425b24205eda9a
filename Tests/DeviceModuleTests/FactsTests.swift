import TestSupport
import Testing

@testable import DeviceModule

@Suite("Power") struct PowerFactsTests {
  private func facts(_ supplies: [String: [String: String]]) throws -> PowerFacts {
    var contents: [String: String] = [:]
    for (name, supply) in supplies { contents.merge(Tree.power(name, supply)) { $1 } }
    return try Tree(contents).read(PowerFacts.init)
  }

  @Test(
    "what the kernel says of a battery, and what is told",
    arguments: [
      ("Charging", "1", PowerFacts.State.charging), ("Discharging", "0", .unplugged), ("Full", "1", .full),
      ("Not charging", "1", .full), ("Not charging", "0", .unknown), ("Unknown", "1", .unknown),
      ("nonsense", "0", .unknown),
    ])
  func states(status: String, online: String, expected: PowerFacts.State) throws {
    let facts = try facts([
      "AC": ["type": "Mains", "online": online], "BAT0": ["type": "Battery", "status": status, "capacity": "55"],
    ])
    #expect(facts.state == expected && facts.level == 0.55)
    #expect(facts.charger == (online == "1" ? .ac : .none))
  }

  @Test("two batteries are one, weighed by what they hold; one charging is charging")
  func two() throws {
    let facts = try facts([
      "BAT0": [
        "type": "Battery", "status": "Full", "capacity": "100", "energy_now": "20000000", "energy_full": "20000000",
      ],
      "BAT1": [
        "type": "Battery", "status": "Charging", "capacity": "50", "energy_now": "40000000", "energy_full": "80000000",
      ],
    ])
    #expect(facts.level == 0.6 && facts.state == .charging)
    let mixed = try self.facts([
      "BAT0": ["type": "Battery", "status": "Full", "capacity": "100"],
      "BAT1": ["type": "Battery", "status": "Discharging", "capacity": "50"],
    ])
    #expect(mixed.level == 0.75 && mixed.state == .unplugged)
  }

  @Test("a gauge without a percentage, a battery that was taken out, a mouse's battery")
  func oddBatteries() throws {
    let phone = try facts([
      "battery": [
        "type": "Battery", "status": "Charging", "charge_now": "1500000", "charge_full": "3000000", "temp": "315",
        "current_now": "-850000",
      ],
      "usb": ["type": "USB", "online": "1"],
    ])
    #expect(phone.level == 0.5 && phone.charger == .usb && phone.temperatureC == 31.5 && phone.currentMa == 850)
    #expect(try facts(["BAT0": ["type": "Battery", "present": "0", "capacity": "0"]]) == PowerFacts())
    #expect(try facts(["mouse": ["type": "Battery", "scope": "Device", "capacity": "9"]]) == PowerFacts())
    let over = try facts(["BAT0": ["type": "Battery", "status": "Full", "capacity": "104", "temp": "-9999"]])
    #expect(over.level == 1 && over.temperatureC == nil)
  }

  @Test("the firmware's saving mode is the low power mode")
  func saving() throws {
    #expect(try Tree(["sys/firmware/acpi/platform_profile": "low-power"]).read(PowerFacts.init).isSaving)
    #expect(try !Tree().read(PowerFacts.init).isSaving)
  }
}

@Suite("Heat") struct HeatTests {
  /// Zone facts: temperature, then trip points.
  private func heat(_ zones: [(temp: String, trips: [(String, String)])], mode: String? = nil) throws -> Heat {
    var contents: [String: String] = [:]
    for (index, zone) in zones.enumerated() {
      let folder = "sys/class/thermal/thermal_zone\(index)/"
      contents[folder + "temp"] = zone.temp
      if let mode { contents[folder + "mode"] = mode }
      for (number, trip) in zone.trips.enumerated() {
        contents[folder + "trip_point_\(number)_type"] = trip.0
        contents[folder + "trip_point_\(number)_temp"] = trip.1
      }
    }
    return try Tree(contents).read(Heat.init)
  }

  @Test(
    "against the point where the processor is slowed",
    arguments: [
      ("74000", Heat.nominal), ("75000", .fair), ("79999", .fair), ("80000", .serious), ("109999", .serious),
      ("110000", .critical),
    ])
  func passive(temp: String, expected: Heat) throws {
    #expect(
      try heat([(temp, [("critical", "110000"), ("active", "40000"), ("passive", "80000"), ("passive", "85000")])])
        == expected)
  }

  @Test(
    "against the end alone",
    arguments: [("84000", Heat.nominal), ("85000", .fair), ("95000", .serious), ("100000", .critical)])
  func critical(temp: String, expected: Heat) throws {
    #expect(try heat([(temp, [("critical", "100000")])]) == expected)
  }

  @Test("the hottest zone counts; sensors that are off, mad or without points do not")
  func zones() throws {
    #expect(try heat([("30000", [("passive", "80000")]), ("81000", [("passive", "80000")])]) == .serious)
    for temp in ["-274000", "0", "999999999", "warm", ""] {
      #expect(try heat([(temp, [("critical", "100000")])]) == .nominal)
    }
    #expect(try heat([("99000", [])]) == .nominal)
    #expect(try heat([("99000", [("passive", "0"), ("critical", "-5")])]) == .nominal)
    #expect(try heat([("99000", [("passive", "80000")])], mode: "disabled") == .nominal)
    #expect(try heat([]) == .nominal)
  }
}

@Suite("Network") struct NetworkFactsTests {
  static let header = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
  private func route(_ interface: String, flags: String = "0003") -> String {
    Self.header + "\(interface)\t00000000\t0102A8C0\t\(flags)\t0\t0\t100\t00000000\t0\t0\t0"
  }

  private func facts(_ interfaces: [String: [String: String]], route: String? = nil) throws -> NetworkFacts {
    var contents: [String: String] = [:]
    for (name, facts) in interfaces { contents.merge(Tree.net(name, facts)) { $1 } }
    contents["proc/net/route"] = route
    return try Tree(contents).read(NetworkFacts.init)
  }
  private let cable = ["type": "1", "operstate": "up", "device/x": ""]

  @Test("a link without a way out is no connection yet; no link is none")
  func status() throws {
    #expect(try facts(["eth0": cable], route: route("eth0")).status == .satisfied)
    #expect(try facts(["eth0": cable]).status == .requiresConnection)
    #expect(try facts(["eth0": cable], route: route("eth0", flags: "0201")).status == .requiresConnection)
    #expect(try facts(["eth0": cable], route: route("gone0")).status == .requiresConnection)
    #expect(
      try facts(["eth0": ["type": "1", "operstate": "down", "device/x": ""]], route: route("eth0")).status
        == .unsatisfied)
    #expect(try facts(["lo": ["type": "772", "operstate": "unknown", "carrier": "1"]]).status == .unsatisfied)
  }

  @Test("the way out comes first; a modem costs")
  func kinds() throws {
    let wifi = ["type": "1", "operstate": "up", "device/x": "", "phy80211/x": ""]
    let modem = [
      "type": "65534", "operstate": "unknown", "carrier": "1", "device/x": "",
      "uevent": "DEVTYPE=wwan\nINTERFACE=wwan0",
    ]
    let both = try facts(["eth0": cable, "wlan0": wifi], route: route("wlan0"))
    #expect(both == NetworkFacts(status: .satisfied, interfaces: [.wifi, .wired]))
    #expect(
      try facts(["wwan0": modem], route: route("wwan0"))
        == NetworkFacts(status: .satisfied, isExpensive: true, interfaces: [.cellular]))
    // A container's end of a pair, and a tunnel, count when they are the way out.
    #expect(try facts(["eth0": ["type": "1", "operstate": "up"]], route: route("eth0")).interfaces == [.wired])
    #expect(
      try facts(["tun0": ["type": "65534", "operstate": "unknown", "carrier": "1"]], route: route("tun0")).interfaces
        == [.other])
    #expect(try facts(["docker0": ["type": "1", "operstate": "up"]]).status == .unsatisfied)
  }
}

@Suite("Memory") struct MemoryFactsTests {
  private func facts(
    total: Int = 1_000_000, available: Int?, stalled: (Double, Double) = (0, 0), more: [String: String] = [:]
  ) throws -> MemoryFacts {
    var contents = more
    contents["proc/meminfo"] =
      "MemTotal: \(total) kB\n" + (available.map { "MemAvailable: \($0) kB\n" } ?? "")
      + "MemFree: 100000 kB\nBuffers: 50000 kB\nCached: 50000 kB"
    contents["proc/pressure/memory"] =
      "some avg10=\(stalled.0) avg60=0 total=0\nfull avg10=\(stalled.1) avg60=0 total=0"
    return try Tree(contents).read(MemoryFacts.init)
  }

  @Test(
    "pressure by what is available",
    arguments: [
      (310_000, MemoryFacts.Pressure.normal), (300_000, .moderate), (160_000, .moderate), (150_000, .high),
      (51_000, .high),
      (50_000, .critical), (0, .critical),
    ])
  func ratios(available: Int, expected: MemoryFacts.Pressure) throws {
    #expect(try facts(available: available).pressure == expected)
  }

  @Test("the kernel's own stall figures raise it, and never lower it")
  func stalls() throws {
    #expect(try facts(available: 900_000, stalled: (12, 0)).pressure == .moderate)
    #expect(try facts(available: 900_000, stalled: (12, 11)).pressure == .high)
    #expect(try facts(available: 900_000, stalled: (80, 45)).pressure == .critical)
    #expect(try facts(available: 40_000, stalled: (0, 0)).pressure == .critical)
  }

  @Test("an old kernel's figures are added up")
  func old() throws {
    #expect(try facts(available: nil).available == 200_000 * 1024)
  }

  @Test("a container has its own limit; a limit above the machine is none")
  func container() throws {
    let limited = try facts(
      available: 900_000,
      more: [
        "sys/fs/cgroup/memory.max": "536870912", "sys/fs/cgroup/memory.current": "500000000",
        "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 100000000\nactive_file 2",
      ])
    #expect(limited.total == 536_870_912 && limited.available == 136_870_912)
    for text in ["max", "99999999999999", "-1", "0"] {
      let free = try facts(
        available: 900_000, more: ["sys/fs/cgroup/memory.max": text, "sys/fs/cgroup/memory.current": "5"])
      #expect(free.total == 1_000_000 * 1024)
    }
  }
}

@Suite("Identity") struct DeviceIdentityFactsTests {
  @Test(
    "a locale's name becomes a language tag",
    arguments: [
      ("de_AT.UTF-8@euro", "de-AT"), ("en_US", "en-US"), ("pt_BR.ISO-8859-1", "pt-BR"), ("eo", "eo"),
      ("es_419.UTF-8", "es-419"),
      ("C", nil), ("C.UTF-8", nil), ("POSIX", nil), ("", nil), ("_DE", nil), ("x/../y", nil), ("de_A/B", nil),
    ])
  func languageTags(locale: String, tag: String?) {
    #expect(DeviceIdentityFacts.languageTag(of: locale) == tag)
  }

  @Test("the caller's locale comes first, then the machine's, then English")
  func locale() throws {
    let tree = try Tree(["etc/locale.conf": "# made by hand\nLANG=\"fr_CA.UTF-8\""])
    func tag(_ locale: String?, on tree: Tree) -> String {
      tree.read {
        DeviceIdentityFacts(deviceName: "", version: "", build: "", locale: locale, machine: $0).languageTag
      }
    }
    #expect(tag("nl_NL.UTF-8", on: tree) == "nl-NL" && tag(nil, on: tree) == "fr-CA" && tag("C", on: tree) == "fr-CA")
    #expect(try tag(nil, on: Tree()) == "en-US")
  }
}
