import GatewayProtocol
import System
import TestSupport
import Testing

/// Where the machine is, as a person and as an agent gets it, on the built program.
@Suite struct LocationTests {
  /// No logind and no GeoClue.
  private static let noBus = ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"]

  private func settings(_ bed: Bed, _ text: String) throws {
    try bed.folder.write("home/.config/talknode/config.toml", "[location]\n" + text)
  }

  @Test("a person sees the place, its accuracy, who gave it, why not another, and what agents may know of it")
  func person() async throws {
    try await Bed.with { bed in
      try settings(bed, "gpsd_port = 1\nfixed = \"52.37, 4.895\"\nfixed_accuracy = 30\n")
      let shown = try await bed.run(["location"], environment: Self.noBus)
      #expect(shown.exit == .code(0), "\(shown.errors)")
      for part in [
        "52.370000, 4.895000 (±30.0 m)", "the fixed position", "gpsd at localhost:1", "no system bus", "not told",
      ] {
        #expect(shown.output.contains(part), "\(part) in \(shown.output)")
      }
      let json = try await bed.run(["location", "--json"], environment: Self.noBus).json
      #expect(json["fix"]?["lat"] == .double(52.37) && json["provider"] == "fixed")
      #expect(json["passedOver"]?.array?.map { $0["provider"]?.string } == ["gpsd", "geoclue"])
      #expect(json["agents"]?["mode"] == "off" && json["ageMs"]?.int != nil)
    }
  }

  @Test("nobody knows a place: each reason, and what to do")
  func nobody() async throws {
    try await Bed.with { bed in
      try settings(bed, "gpsd_port = 1\n")
      let shown = try await bed.run(["location"], environment: Self.noBus)
      #expect(
        shown.exit == .code(69) && shown.errors.contains("gpsd") && shown.errors.contains("try:"), "\(shown.errors)")
      let watched = try await bed.run(["location", "--watch"], environment: Self.noBus)
      #expect(watched.exit == .code(69), "\(watched.errors)")
      let doctor = try await bed.run(["doctor"], environment: Self.noBus)
      for part in ["provider = \"auto\"", "location: gpsd", "location: geoclue"] {
        #expect(doctor.output.contains(part), "\(part) in \(doctor.output)")
      }
      try settings(bed, "fixed = \"Utrecht\"\n")
      let wrong = try await bed.run(["location"], environment: Self.noBus)
      #expect(wrong.exit == .code(78) && wrong.errors.contains("location.fixed must be"), "\(wrong.errors)")
    }
  }

  @Test(
    "an agent is told nothing until it is switched on; without a seat that means at any time; without precision to a kilometre"
  )
  func agent() async throws {
    try await Bed.with { bed in
      try settings(bed, "provider = \"fixed\"\nfixed = \"52.373737, 4.895\"\n")
      try await bed.withDaemon(environment: Self.noBus) { _ in
        let off = try await bed.run(["invoke", "location.get"])
        #expect(
          off.errors.contains("LOCATION_DISABLED") || off.errors.contains("location is switched off"), "\(off.errors)")
        let on = try await bed.run(["capabilities", "enable", "location"])
        #expect(on.exit == .code(0) && on.errors.contains("location.always is on, too"), "\(on.errors)")
        let told = try await bed.run(["invoke", "location.get"])
        #expect(told.json["lat"] == .double(52.373737) && told.json["isPrecise"] == .bool(true), "\(told.errors)")
        let coarse = try await bed.run(["capabilities", "disable", "location.precise"])
        #expect(coarse.exit == .code(0), "\(coarse.errors)")
        let rounded = try await bed.run(["invoke", "location.get"])
        #expect(rounded.json["lat"] != .double(52.373737) && rounded.json["isPrecise"] == .bool(false))
        let used = try await bed.run(["capabilities", "disable", "location.always"])
        #expect(used.exit == .code(0))
        let away = try await bed.run(["invoke", "location.get"])
        #expect(away.errors.contains("location.always"), "\(away.errors)")
        let back = try await bed.run(["capabilities", "disable", "location"])
        #expect(back.exit == .code(0))
        let rows = try await bed.run(["capabilities", "--json"]).json["capabilities"]?.array ?? []
        #expect(rows.contains { $0["name"] == "location" && $0["enabled"] == .bool(false) })
        // Positions are in no log and no audit. So many digits are no time's and no duration's.
        let audit = try await bed.run(["audit", "--json"])
        #expect(audit.output.contains("location.get") && !audit.output.contains("373737"))
      }
    }
  }
}
