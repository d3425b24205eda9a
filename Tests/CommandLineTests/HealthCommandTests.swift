import Glibc
import System
import TestSupport
import Testing

@testable import talknode

/// `talknode health` on the built program, and the switch that guards what agents get.
@Suite struct HealthCommandTests {
  private static let samples =
    String(#filePath).split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/samples/health"

  @Test("a person sees a day's figures, two weeks as a chart, and how they came about; a program gets the same as JSON")
  func shown() async throws {
    try await Bed.with { bed in
      let words = ["health", "--day", "2026-05-02", "--from", Self.samples + "/apple"]
      let zone = ["TZ": "Europe/Berlin"]
      let plain = try await bed.run(words + ["--explain"], environment: zone)
      #expect(plain.exit == .code(0), "\(plain.errors)")
      for text in [
        "Saturday 2026-05-02, Europe/Berlin", "2\u{202F}360", "6 h 50 min", "57.5 beats/min", "2, 52 min", "→", "█",
        "Su 04-19",
      ] {
        #expect(plain.output.contains(text), "\(text) in \(plain.output)")
      }
      #expect(plain.output.contains("1200 by Anna’s phone; 680 more at times that others cover."))
      #expect(
        plain.output.contains("apple/export.xml  Apple Health")
          && plain.errors.contains("talknode capabilities enable health"))
      let json = try await bed.run(words + ["--json"], environment: zone).json
      #expect(json["summary"]?["stepCount"] == 2360 && json["days"]?.array?.count == 14 && json["files"] == nil)
      #expect(json["startISO"] == "2026-05-01T22:00:00Z" && json["endISO"] == "2026-05-02T22:00:00Z")
      #expect(try await bed.run(["health", "--day", "2026-02-30"]).exit == .code(64))
      let none = try await bed.run(["health"])
      #expect(none.exit == .code(66) && none.errors.contains("[health] files"), "\(none.errors)")
    }
  }

  @Test("agents are refused until it is switched on; then they get sums, and switching off removes the index")
  func gated() async throws {
    try await Bed.with { bed in
      let today = HealthDemonstration.lateZone(WallClock.milliseconds() / 1000)
      try bed.folder.write(
        "health.toml", "[health]\nfiles = [\"\(bed.folder("exports"))\"]\ntime_zone = \"\(today.name)\"\n")
      try bed.folder.write(
        "exports/day.csv", "kind,start,end,value,source\nsteps,\(today.today)T08:00,\(today.today)T09:00,98765,watch\n")
      let words = [
        "invoke", "health.summary", "--params", #"{"period":"today"}"#, "--config", bed.folder("health.toml"),
      ]
      let refused = try await bed.run(words)
      #expect(refused.exit == .code(69) && refused.errors.contains("HEALTH_ACCESS_DISABLED"), "\(refused.errors)")
      #expect(!Files.exists(bed.state() + "/health.index"))
      let on = try await bed.run(["capabilities", "enable", "health"])
      #expect(on.errors.contains("Agents may read today's steps"))
      let told = try await bed.run(words)
      #expect(told.json["stepCount"] == 98765 && told.json["period"] == "today", "\(told.errors)")
      let wrong = try await bed.run([
        "invoke", "health.summary", "--params", #"{"period":"7d"}"#, "--config", bed.folder("health.toml"),
      ])
      #expect(wrong.exit == .code(65) && wrong.errors.contains("period must be today"))
      #expect(Files.exists(bed.state() + "/health.index"))
      #expect(try await bed.run(["capabilities", "disable", "health"]).exit == .code(0))
      #expect(!Files.exists(bed.state() + "/health.index"))
      // What was asked is written down, what was answered is not.
      let audit = try Files.read(bed.state() + "/audit.jsonl")
      #expect(!String(decoding: audit, as: UTF8.self).contains("98765"))
    }
  }
}

/// The demo's samples, put to another day.
@Suite struct HealthDemonstrationTests {
  @Test("at any hour there is a zone in which the day is nearly over, and the samples are put to it")
  func lateZone() throws {
    for hour in 0..<48 {
      let now = 1_790_000_000 + Int64(hour) * 3600 + 17
      let (name, offset, today) = HealthDemonstration.lateZone(now)
      let zone = try #require(ZoneRules(named: name))
      let local = now + zone.offset(at: now)
      #expect(zone.offset(at: now) == Int64(offset) * 3600 && local % 86_400 / 3600 == 22)
      #expect(zone.date(at: now) == today)
    }
    let moved = HealthDemonstration.moved(
      "2026-05-02 07:00:00 +0200 2026-05-01T23:10+02:00 2026-05-03", to: CivilDate("2030-01-01")!, offset: -9)
    #expect(moved == "2030-01-01 07:00:00 -0900 2029-12-31T23:10-09:00 2026-05-03")
  }
}
