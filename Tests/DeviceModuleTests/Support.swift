import GatewayProtocol
import NodeKit
import System
import TestSupport
import Testing

@testable import DeviceModule

/// A machine's files, laid down under a folder: what the module reads of /proc, /sys, /etc and /dev.
struct Tree {
  let folder = TemporaryFolder()
  var root: String { folder.path }

  init(_ contents: [String: String] = [:]) throws {
    for (name, text) in contents { try folder.write(name, text + "\n") }
  }

  static func power(_ name: String, _ facts: [String: String]) -> [String: String] {
    within("sys/class/power_supply/\(name)", facts)
  }
  static func net(_ name: String, _ facts: [String: String]) -> [String: String] {
    within("sys/class/net/\(name)", facts)
  }
  static func within(_ folder: String, _ facts: [String: String]) -> [String: String] {
    Dictionary(uniqueKeysWithValues: facts.map { ("\(folder)/\($0)", $1) })
  }

  /// A laptop on battery, on its wireless network.
  static func laptop() throws -> Tree {
    var contents = [
      "etc/os-release": "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nID=debian",
      "etc/default/locale": "LANG=de_AT.UTF-8", "sys/class/dmi/id/product_name": "ThinkPad T480",
      "proc/sys/kernel/osrelease": "6.1.0-18-amd64", "proc/uptime": "86400.50 300000.12",
      "proc/meminfo":
        "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\nBuffers:  100 kB\nHugePages_Total: 0",
      "proc/pressure/memory":
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0",
      "proc/net/route":
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\nwlp3s0\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\nwlp3s0\t0002A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0",
      "sys/class/thermal/thermal_zone0/temp": "52000", "sys/class/thermal/thermal_zone0/trip_point_0_type": "critical",
      "sys/class/thermal/thermal_zone0/trip_point_0_temp": "128000",
      "sys/class/thermal/cooling_device0/type": "Processor",
      "sys/firmware/acpi/platform_profile": "balanced",
    ]
    contents.merge(net("lo", ["type": "772", "operstate": "unknown", "carrier": "1"])) { $1 }
    contents.merge(net("wlp3s0", ["type": "1", "operstate": "up", "device/x": "", "wireless/x": ""])) { $1 }
    contents.merge(net("enp0s31f6", ["type": "1", "operstate": "down", "device/x": ""])) { $1 }
    contents.merge(net("docker0", ["type": "1", "operstate": "up"])) { $1 }
    contents.merge(power("AC", ["type": "Mains", "online": "0"])) { $1 }
    contents.merge(
      power(
        "BAT0",
        [
          "type": "Battery", "present": "1", "status": "Discharging", "capacity": "83", "energy_now": "41500000",
          "energy_full": "50000000", "power_now": "12000000", "voltage_now": "12000000",
        ])
    ) { $1 }
    contents.merge(
      power("hidpp_battery_0", ["type": "Battery", "scope": "Device", "status": "Discharging", "capacity": "5"])
    ) { $1 }
    return try Tree(contents)
  }

  /// A Raspberry Pi on its cable.
  static func pi() throws -> Tree {
    var contents = [
      "usr/lib/os-release": "PRETTY_NAME='Raspbian'", "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
      "proc/sys/kernel/osrelease": "6.6.20+rpt-rpi-v8", "proc/uptime": "12.25 40.00",
      "proc/meminfo": "MemTotal: 948000 kB\nMemFree: 20000 kB\nBuffers: 10000 kB\nCached: 70000 kB",
      "proc/net/ipv6_route":
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe80000000000000021122fffe334455 00000400 00000001 00000000 00000003     eth0\n00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo",
      "sys/class/thermal/thermal_zone0/temp": "81000", "sys/class/thermal/thermal_zone0/trip_point_0_type": "passive",
      "sys/class/thermal/thermal_zone0/trip_point_0_temp": "80000",
      "sys/class/thermal/thermal_zone0/trip_point_1_type": "critical",
      "sys/class/thermal/thermal_zone0/trip_point_1_temp": "110000",
    ]
    contents.merge(net("eth0", ["type": "1", "operstate": "up", "device/x": ""])) { $1 }
    return try Tree(contents)
  }

  /// Reads something of its files, which stay until then.
  func read<Value>(_ body: (MachineFiles) -> Value) -> Value {
    withExtendedLifetime(folder) { body(MachineFiles(root: folder.path)) }
  }

  func module(systemBus: SharedBus? = nil, switches: SwitchStore? = nil, consents: [Consent] = []) -> Device {
    Device(
      tree: self,
      module: DeviceModule(
        deviceName: "atlas", version: "1.2.3", build: "7", home: "/", root: root, systemBus: systemBus,
        switches: switches,
        consents: consents))
  }
}

/// The module on a machine, whose files stay as long as it does.
struct Device {
  let tree: Tree
  let module: DeviceModule

  func ask(_ command: String) async throws -> JSON {
    defer { withExtendedLifetime(tree) {} }
    return try await module.ask(command)
  }
}

extension DeviceModule {
  /// What a gateway would get.
  func ask(_ command: String) async throws -> JSON {
    let invocation = Invocation(
      id: "i", command: command, paramsText: nil, origin: .local, deadline: Monotonic.now() + .seconds(30),
      payloadLimit: 1 << 20)
    return try JSON(parsing: #require(await handle(invocation).text))
  }
}
