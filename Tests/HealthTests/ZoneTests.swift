import Foundation
import System
import TestSupport
import Testing

@Suite("time zones") struct ZoneTests {
  /// Zones with every kind of oddity: half hours, midnight jumps, a skipped day, negative summer time, rules for ever and none.
  static let names = [
    "UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "America/Sao_Paulo", "America/Godthab",
    "America/Caracas", "America/Havana", "Africa/Casablanca", "Africa/Cairo", "Africa/Monrovia", "Asia/Kolkata",
    "Asia/Kathmandu", "Asia/Beirut", "Asia/Gaza", "Asia/Tehran", "Asia/Pyongyang", "Australia/Lord_Howe",
    "Australia/Sydney", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati", "Antarctica/Troll", "Europe/Dublin",
    "Europe/Istanbul", "America/Asuncion", "Etc/GMT+12", "Etc/GMT-14",
  ]

  @Test("offsets and midnights are those that Python's zoneinfo knows, from 1880 to 2480")
  func againstPython() throws {
    var random = SeededRandom()
    let instants = (0..<250).map { _ in Int64(random.below(18_900_000_000)) - 2_840_000_000 }
    let answers = try python(
      """
      import sys, json, zoneinfo, datetime
      utc = datetime.timezone.utc
      epoch = datetime.datetime(1970, 1, 1, tzinfo=utc)
      names, instants = json.load(sys.stdin)
      out = {}
      def local(zone, t): return (epoch + datetime.timedelta(seconds=t)).astimezone(zone)
      for name in names:
        zone = zoneinfo.ZoneInfo(name)
        rows = []
        for t in instants:
          here = local(zone, t)
          day = here.date()
          # The day's first instant: found by looking, from a day and a half before on.
          low = t - 60 * 3600
          while local(zone, low).date() >= day: low -= 3600
          high = low + 900
          while local(zone, high).date() < day: low, high = high, high + 900
          while high - low > 1:
            middle = (low + high) // 2
            if local(zone, middle).date() < day: low = middle
            else: high = middle
          rows.append([int(here.utcoffset().total_seconds()), day.isoformat(), high])
        out[name] = rows
      json.dump(out, sys.stdout)
      """, input: try JSONSerialization.data(withJSONObject: [Self.names, instants]))
    let table = try #require(try JSONSerialization.jsonObject(with: answers) as? [String: [[Any]]])
    for name in Self.names {
      let zone = try #require(ZoneRules(named: name))
      for (instant, row) in zip(instants, try #require(table[name])) {
        let date = zone.date(at: instant)
        #expect(
          zone.offset(at: instant) == (row[0] as? NSNumber)?.int64Value, "\(name) \(instant), seed \(random.seed)")
        #expect(date.description == row[1] as? String, "\(name) \(instant), seed \(random.seed)")
        #expect(zone.start(of: date) == (row[2] as? NSNumber)?.int64Value, "\(name) \(date), seed \(random.seed)")
      }
    }
  }

  @Test("what the clocks show is the instant that Python's zoneinfo says, also where they are put back or skip")
  func wallTimes() throws {
    var random = SeededRandom()
    // Near changes, where it matters: every hour of some days on which many zones change.
    var locals: [Int64] = (0..<100).map { _ in Int64(random.below(8_000_000_000)) - 1_000_000_000 }
    for day in ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2018-11-04", "2011-12-30", "2021-10-03"] {
      let first = Int64(try #require(CivilDate(day)).number) * 86_400
      locals += (0..<48).map { first + $0 * 1800 + 60 }
    }
    let answers = try python(
      """
      import sys, json, zoneinfo, datetime
      names, locals_ = json.load(sys.stdin)
      epoch = datetime.datetime(1970, 1, 1)
      out = {}
      for name in names:
        zone = zoneinfo.ZoneInfo(name)
        out[name] = [t - int((epoch + datetime.timedelta(seconds=t)).replace(tzinfo=zone).utcoffset().total_seconds()) for t in locals_]
      json.dump(out, sys.stdout)
      """, input: try JSONSerialization.data(withJSONObject: [Self.names, locals]))
    let table = try #require(try JSONSerialization.jsonObject(with: answers) as? [String: [NSNumber]])
    for name in Self.names {
      let zone = try #require(ZoneRules(named: name))
      for (local, expected) in zip(locals, try #require(table[name])) {
        #expect(zone.instant(local: local) == expected.int64Value, "\(name) \(local), seed \(random.seed)")
      }
    }
  }

  @Test("days in which the clocks change have 23 or 25 hours")
  func oddDays() throws {
    let berlin = try #require(ZoneRules(named: "Europe/Berlin"))
    func hours(_ text: String) throws -> Int64 {
      let date = try #require(CivilDate(text))
      return (berlin.start(of: date.adding(days: 1)) - berlin.start(of: date)) / 3600
    }
    #expect(try hours("2026-03-28") == 24 && hours("2026-03-29") == 23 && hours("2026-10-25") == 25)
    // Far after the last change that its file lists, by its rule.
    #expect(try hours("2399-03-28") == 23 && hours("2399-10-31") == 25)
  }

  @Test("dates are those of the calendar, and nothing else is one")
  func dates() throws {
    for number in stride(from: -200_000, through: 400_000, by: 37) {
      let date = CivilDate(number: number)
      #expect(
        CivilDate(date.description) == date && CivilDate(year: date.year, month: date.month, day: date.day) == date)
    }
    #expect(CivilDate("2026-05-02")?.weekday == 6 && CivilDate("1970-01-01")?.number == 0)
    for text in ["2026-02-29", "2026-13-01", "2026-00-10", "2026-1-1", "26-01-01", "2026-01-01 ", "٢٠٢٦-٠١-٠١", ""] {
      #expect(CivilDate(text) == nil, "\(text)")
    }
  }

  @Test("the machine's zone is what TZ says, else where /etc/localtime leads, else what /etc/timezone names")
  func machine() throws {
    let folder = TemporaryFolder()
    let root = folder.path + "/"
    let zones = folder("usr/share/zoneinfo")
    try Files.makeFolder(zones)
    try FileManager.default.copyItem(atPath: "/usr/share/zoneinfo/Asia", toPath: zones + "/Asia")
    try FileManager.default.createDirectory(atPath: zones + "/Europe", withIntermediateDirectories: true)
    try FileManager.default.copyItem(atPath: "/usr/share/zoneinfo/Europe/Berlin", toPath: zones + "/Europe/Berlin")
    #expect(ZoneRules.machine(variable: nil, root: root) == .utc)
    try folder.write("etc/timezone", "Asia/Tokyo\n")
    #expect(ZoneRules.machine(variable: nil, root: root).identifier == "Asia/Tokyo")
    try FileManager.default.createSymbolicLink(
      atPath: folder("etc/localtime"), withDestinationPath: zones + "/Europe/Berlin")
    #expect(ZoneRules.machine(variable: nil, root: root).identifier == "Europe/Berlin")
    // A copy in place of the link is told by its bytes.
    try FileManager.default.removeItem(atPath: folder("etc/localtime"))
    try FileManager.default.copyItem(atPath: zones + "/Asia/Kolkata", toPath: folder("etc/localtime"))
    try folder.write(
      "usr/share/zoneinfo/zone1970.tab", "# zones\nDE\t+5230+01322\tEurope/Berlin\nIN\t+2232+08822\tAsia/Kolkata\n")
    let copied = ZoneRules.machine(variable: nil, root: root)
    #expect(copied.identifier == "Asia/Kolkata" && copied.offset(at: 0) == 19_800)

    #expect(ZoneRules.machine(variable: "Europe/Berlin", root: root).identifier == "Europe/Berlin")
    #expect(ZoneRules.machine(variable: ":Europe/Berlin", root: root).identifier == "Europe/Berlin")
    #expect(ZoneRules.machine(variable: zones + "/Europe/Berlin", root: root).identifier == "Europe/Berlin")
    #expect(ZoneRules.machine(variable: "", root: root) == .utc)
    #expect(ZoneRules.machine(variable: "../../etc/passwd", root: root) == .utc)
    let eastern = ZoneRules.machine(variable: "EST5EDT,M3.2.0,M11.1.0", root: root)
    #expect(eastern.offset(at: 1_767_225_600) == -18_000 && eastern.offset(at: 1_782_864_000) == -14_400)
    #expect(ZoneRules.machine(variable: "<+0330>-3:30", root: root).offset(at: 0) == 12_600)
    #expect(ZoneRules.machine(variable: "CET-1", root: root).identifier == "Etc/GMT-1")
  }

  @Test("a zone file that is damaged anywhere is no zone, or another one, and never an end of the program")
  func damage() throws {
    let bytes = try Files.read("/usr/share/zoneinfo/Europe/Berlin")
    for length in stride(from: 0, to: bytes.count, by: 7) {
      if let zone = try? ZoneRules(tzif: Array(bytes.prefix(length)), identifier: "x") {
        _ = zone.start(of: CivilDate(number: 20_000))
      }
    }
    #expect(throws: ZoneRules.Damage.self) { try ZoneRules(tzif: Array(bytes.prefix(60)), identifier: "x") }
    #expect(throws: ZoneRules.Damage.self) {
      try ZoneRules(tzif: Array("no zone at all, but longer than 44 bytes are".utf8), identifier: "x")
    }
  }

  private func python(_ program: String, input: Data) throws -> Data {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", program]
    let (stdin, stdout) = (Pipe(), Pipe())
    process.standardInput = stdin
    process.standardOutput = stdout
    try process.run()
    DispatchQueue.global().async {
      stdin.fileHandleForWriting.write(input)
      try? stdin.fileHandleForWriting.close()
    }
    let output = stdout.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0)
    return output
  }
}
