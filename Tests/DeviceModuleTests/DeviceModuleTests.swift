import GatewayProtocol
import Glibc
import NodeKit
import System
import TestSupport
import Testing

@testable import DeviceModule

@Suite("device.*") struct DeviceModuleTests {
  @Test("a laptop tells its name, model and system")
  func laptopInfo() async throws {
    let info = try await Tree.laptop().module().ask("device.info")
    #expect(
      info == [
        "deviceName": "atlas", "modelIdentifier": "ThinkPad T480", "systemName": "Linux",
        "systemVersion": "Debian GNU/Linux 12 (bookworm), kernel 6.1.0-18-amd64", "appVersion": "1.2.3",
        "appBuild": "7",
        "locale": "de-AT",
      ])
  }

  @Test("a Pi is known by its board; a container without any name still fills every member")
  func otherInfo() async throws {
    let pi = try await Tree.pi().module().ask("device.info")
    #expect(
      pi["modelIdentifier"] == "Raspberry Pi 4 Model B Rev 1.4"
        && pi["systemVersion"] == "Raspbian, kernel 6.6.20+rpt-rpi-v8")
    let bare = try await Tree(["sys/class/dmi/id/product_name": "To Be Filled By O.E.M."]).module().ask("device.info")
    let members = ["deviceName", "modelIdentifier", "systemName", "systemVersion", "appVersion", "appBuild", "locale"]
    for member in members { #expect(bare[member]?.string?.isEmpty == false) }
    #expect(bare.object?.count == members.count)
  }

  @Test("a laptop's status has the shape and the values that are documented")
  func laptopStatus() async throws {
    let status = try await Tree.laptop().module().ask("device.status")
    #expect(
      status["battery"] == ["level": 0.83, "levelPercent": 83, "state": "unplugged", "lowPowerModeEnabled": false])
    #expect(status["thermal"] == ["state": "nominal"])
    #expect(
      status["network"] == [
        "status": "satisfied", "isExpensive": false, "isConstrained": false, "interfaces": ["wifi"],
      ])
    #expect(status["uptimeSeconds"] == .double(86400.5))
    let storage = try #require(status["storage"])
    let (total, free, used) = (
      storage["totalBytes"]?.int ?? 0, storage["freeBytes"]?.int ?? 0, storage["usedBytes"]?.int ?? -1
    )
    #expect(total > 0 && free >= 0 && used == total - free)
  }

  @Test("a Pi that is slowed by its heat says so; without a battery there is no level")
  func piStatus() async throws {
    let status = try await Tree.pi().module().ask("device.status")
    #expect(status["battery"] == ["state": "unknown", "lowPowerModeEnabled": false])
    #expect(status["thermal"] == ["state": "serious"])
    #expect(status["network"]?["status"] == "satisfied" && status["network"]?["interfaces"] == ["wired"])
  }

  @Test("a container with nothing in /sys and /proc leaves out what it does not know")
  func container() async throws {
    let module = try Tree().module()
    let status = try await module.ask("device.status")
    #expect(status["uptimeSeconds"] == nil && status["thermal"]?["state"] == "nominal")
    #expect(
      status["network"] == ["status": "unsatisfied", "isExpensive": false, "isConstrained": false, "interfaces": []])
    let health = try await module.ask("device.health")
    #expect(
      health == [
        "memory": ["pressure": "unknown"], "battery": ["state": "unknown", "chargingType": "none"],
        "power": ["dozeModeEnabled": false, "lowPowerModeEnabled": false], "system": [:],
      ])
  }

  @Test("a laptop's health: memory, and what runs out of its battery")
  func health() async throws {
    let health = try await Tree.laptop().module().ask("device.health")
    #expect(
      health["memory"] == [
        "pressure": "normal", "totalRamBytes": 16_384_000_000, "availableRamBytes": 8_192_000_000,
        "usedRamBytes": 8_192_000_000,
        "thresholdBytes": 819_200_000, "lowMemory": false,
      ])
    #expect(health["battery"] == ["state": "unplugged", "chargingType": "none", "currentMa": -1000])
  }

  @Test("files full of rubbish end in an answer")
  func rubbish() async throws {
    var random = SeededRandom()
    let seed = random.seed
    let laptop = try Tree.laptop()
    let names = [
      "etc/os-release", "proc/meminfo", "proc/uptime", "proc/net/route", "proc/net/ipv6_route", "proc/pressure/memory",
      "sys/class/power_supply/BAT0/capacity", "sys/class/power_supply/BAT0/energy_now",
      "sys/class/power_supply/BAT0/energy_full",
      "sys/class/power_supply/BAT0/status", "sys/class/power_supply/BAT0/power_now",
      "sys/class/power_supply/BAT0/voltage_now",
      "sys/class/power_supply/BAT0/temp", "sys/class/thermal/thermal_zone0/temp", "sys/class/net/wlp3s0/type",
      "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory.stat",
    ]
    let rubbish = [
      "", "\0\0", "-1", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "nan", "1e308", "=",
      "a=\"", "a=\"\\",
      "MemTotal: 9223372036854775807 kB", "MemTotal: -5 kB", "x\ty\tz", "full avg10=nan", "inactive_file -1",
      "\u{FFFD}",
      String(repeating: "x ", count: 5000),
    ]
    let module = laptop.module()
    for _ in 0..<60 {
      let name = names.randomElement(using: &random)!
      try laptop.folder.write(name, rubbish.randomElement(using: &random)!)
      let status = try await module.ask("device.status")
      let level = status["battery"]?["level"]?.double ?? 0
      #expect((0...1).contains(level) && status["network"] != nil, "seed \(seed)")
      let memory = try await module.ask("device.health")["memory"]
      #expect(memory?["pressure"]?.string != nil, "seed \(seed)")
      #expect((memory?["usedRamBytes"]?.int ?? 0) >= 0, "seed \(seed)")
      #expect(laptop.module().module.identityText.hasPrefix("{"))
    }
  }

  @Test("permissions follow the switches, and what the system lets this user at")
  func permissions() async throws {
    let consents = [
      Consent(name: "camera", allows: "", refusalCode: "X"), Consent(name: "talk", allows: "", refusalCode: "X"),
      Consent(name: "location", allows: "", refusalCode: "X"),
      Consent(name: "notify", allows: "", refusalCode: "X", isOnByDefault: true),
    ]
    let tree = try Tree(["dev/video0": "", "dev/snd/pcmC0D0p": ""])
    func statuses(_ switches: SwitchStore?) async throws -> [String: String] {
      let answer = try await tree.module(switches: switches, consents: consents).ask("device.permissions")
      let permissions = try #require(answer["permissions"]?.object)
      #expect(permissions.values.allSatisfy { $0["promptable"] == false && $0.object?.count == 2 })
      return permissions.compactMapValues { $0["status"]?.string }
    }
    #expect(
      try await statuses(nil)
        == ["camera": "denied", "microphone": "denied", "location": "denied", "notifications": "granted"])
    let switches = SwitchStore(path: tree.folder("switches.json"))
    try switches.set("camera", enabled: true)
    try switches.set("talk", enabled: true)
    try switches.set("notify", enabled: false)
    #expect(
      try await statuses(switches)
        == ["camera": "granted", "microphone": "granted", "location": "denied", "notifications": "denied"])
    // A test that runs as root is let in anywhere: a link that leads nowhere is what nobody opens.
    try Files.removeTree(tree.folder("dev/video0"))
    #expect(symlink(tree.folder("nowhere"), tree.folder("dev/video0")) == 0)
    #expect(try await statuses(switches)["camera"] == "denied")
  }

  @Test("this very machine answers every command in shape")
  func thisMachine() async throws {
    let module = DeviceModule(deviceName: "here", version: "1")
    #expect(try await module.ask("device.info")["systemName"] == "Linux")
    let status = try await module.ask("device.status")
    #expect((status["uptimeSeconds"]?.double ?? 0) > 0 && (status["storage"]?["totalBytes"]?.int ?? 0) > 0)
    let memory = try #require(try await module.ask("device.health")["memory"])
    #expect((memory["totalRamBytes"]?.int ?? 0) > 0 && (memory["availableRamBytes"]?.int ?? 0) > 0)
    #expect(try await module.ask("device.permissions")["permissions"]?.object != nil)
    #expect(module.commands.allSatisfy { $0.gatewayDefault == .needsAllow && !$0.isShown })
  }

  @Test("a reading that is stuck is not begun again, and costs its asker only the limit")
  func stuck() async throws {
    let gate = Lock(false)
    let runs = Lock(0)
    let reader = OwnThreadReader<Int>(name: "test")
    let slow: @Sendable () -> Int = {
      runs.withLock { $0 += 1 }
      while !gate.withLock({ $0 }) { usleep(1000) }
      return 1
    }
    #expect(await reader.read(within: .milliseconds(30), slow) == nil)
    #expect(await reader.read(within: .milliseconds(30), slow) == nil)
    #expect(runs.withLock { $0 } == 1)
    gate.withLock { $0 = true }
    #expect(await eventually { await reader.read(within: .seconds(5)) { 2 } == 2 })
  }
}

extension DeviceModule {
  var identityText: String { String(decoding: identity.encoded, as: UTF8.self) }
}
