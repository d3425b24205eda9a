import GatewayProtocol
import System
import TestSupport
import Testing

@testable import DeviceModule

/// UPower, the power profile daemon and NetworkManager as peers on a real bus.
@Suite("Desktop services") struct DesktopServicesTests {
  /// Properties of one object, served as the real service does.
  private func serve(
    _ bus: PrivateBus, _ name: String, _ path: String, _ interface: String, _ properties: DBusValue
  ) async throws -> Bus {
    let service = try await bus.connect()
    _ = try await service.export(path) { call throws(DBusError) in
      guard call.member == "GetAll", call.arguments == [.string(interface)] else {
        throw DBusError("org.freedesktop.DBus.Error.UnknownMethod", call.member)
      }
      return [properties]
    }
    try await service.requestName(name)
    return service
  }

  private func battery(_ bus: PrivateBus, _ properties: DBusValue) async throws -> Bus {
    try await serve(
      bus, "org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice", "org.freedesktop.UPower.Device",
      properties)
  }

  private func network(_ bus: PrivateBus, _ properties: DBusValue) async throws -> Bus {
    let name = "org.freedesktop.NetworkManager"
    return try await serve(bus, name, "/org/freedesktop/NetworkManager", name, properties)
  }

  private func status(_ bus: PrivateBus) async throws -> JSON {
    try await Tree.laptop().module(systemBus: SharedBus(bus.address, loop: bus.loop)).ask("device.status")
  }

  @Test("UPower, the power profile and NetworkManager are believed where they are")
  func all() async throws {
    try await PrivateBus.with { bus in
      let services = [
        try await battery(
          bus,
          .options(["Type": .uint32(2), "IsPresent": .bool(true), "Percentage": .double(41.6), "State": .uint32(1)])),
        try await network(
          bus,
          .options([
            "PrimaryConnection": .objectPath("/org/freedesktop/NetworkManager/ActiveConnection/1"),
            "PrimaryConnectionType": .string("gsm"), "Connectivity": .uint32(4), "State": .uint32(70),
            "Metered": .uint32(3),
          ])),
        try await serve(
          bus, "net.hadess.PowerProfiles", "/net/hadess/PowerProfiles", "net.hadess.PowerProfiles",
          .options(["ActiveProfile": .string("power-saver")])),
      ]
      let status = try await status(bus)
      #expect(
        status["battery"] == ["level": 0.42, "levelPercent": 42, "state": "charging", "lowPowerModeEnabled": true])
      #expect(
        status["network"]
          == ["status": "satisfied", "isExpensive": true, "isConstrained": false, "interfaces": ["cellular", "wifi"]])
      for service in services { await service.close() }
    }
  }

  @Test("a bus without any of them leaves the files' word, at once")
  func none() async throws {
    try await PrivateBus.with { bus in
      let status = try await status(bus)
      #expect(status["battery"]?["level"] == 0.83 && status["network"]?["interfaces"] == ["wifi"])
    }
  }

  @Test("no bus, and a service that never answers, cost nothing but a moment")
  func silent() async throws {
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let nowhere = SharedBus(.address("unix:path=/nonexistent/bus"), loop: loop)
    #expect(try await Tree.laptop().module(systemBus: nowhere).ask("device.status")["battery"]?["level"] == 0.83)
    try await PrivateBus.with { bus in
      let service = try await bus.connect()
      _ = try await service.export("/", subtree: true) { _ throws(DBusError) in
        try? await Task.sleep(for: .seconds(3600))
        return []
      }
      try await service.requestName("org.freedesktop.UPower")
      #expect(try await status(bus)["battery"]?["level"] == 0.83)
    }
  }

  @Test("what a service tells of wrong types or in wrong numbers is not believed")
  func nonsense() async throws {
    try await PrivateBus.with { bus in
      let service = try await battery(
        bus,
        .options(["Type": .uint32(2), "IsPresent": .bool(true), "Percentage": .double(-3), "State": .string("high")]))
      let other = try await network(
        bus, .options(["PrimaryConnection": .objectPath("/x"), "Connectivity": .string("full")]))
      let status = try await status(bus)
      #expect(status["battery"]?["level"] == 0.83 && status["battery"]?["state"] == "unplugged")
      #expect(status["network"]?["status"] == "unsatisfied")
      await service.close()
      await other.close()
    }
  }

  @Test(
    "NetworkManager's words",
    arguments: [
      (4, 70, "satisfied"), (2, 70, "requiresConnection"), (3, 60, "requiresConnection"), (1, 20, "unsatisfied"),
      (0, 70, "satisfied"),
      (0, 50, "requiresConnection"), (0, 20, "unsatisfied"),
    ])
  func connectivity(connectivity: UInt32, state: UInt32, expected: String) async throws {
    try await PrivateBus.with { bus in
      let service = try await network(
        bus,
        .options([
          "PrimaryConnection": .objectPath("/x"), "PrimaryConnectionType": .string("802-3-ethernet"),
          "Connectivity": .uint32(connectivity), "State": .uint32(state), "Metered": .uint32(4),
        ]))
      let network = try #require(try await status(bus)["network"])
      #expect(network["status"]?.string == expected && network["isExpensive"] == false)
      #expect(network["interfaces"] == ["wired", "wifi"])
      await service.close()
    }
  }

  @Test("a NetworkManager that is not in charge is not believed to be off line")
  func notInCharge() async throws {
    try await PrivateBus.with { bus in
      let service = try await network(
        bus, .options(["PrimaryConnection": .objectPath("/"), "Connectivity": .uint32(1), "State": .uint32(20)]))
      #expect(try await status(bus)["network"]?["status"] == "satisfied")
      await service.close()
    }
  }
}
