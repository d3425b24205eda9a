import GatewayProtocol
import System

/// Google Fit's part of a Takeout: `All Data` (streams of points), `All Sessions`, `Daily activity metrics` (a row a quarter of an hour) and
/// `Activities` (TCX). They tell the same steps and workouts several times over: the best telling of each counts.
struct GoogleFitReader: HealthReader {
  let format = "Google Fit"

  private enum Part {
    case points, session
    case daily(CivilDate)
    case workout
  }

  private static func part(_ name: String) -> Part? {
    let words = name.split(separator: "/")
    let lower = words.last.map { $0.lowercased() } ?? ""
    let folder = words.dropLast().last.map { $0.lowercased() } ?? ""
    if lower.hasSuffix(".tcx") { return .workout }
    if lower.hasSuffix(".json") {
      if lower.contains("com.google.") { return .points }
      if folder == "all sessions" || lower.hasPrefix("20") && lower.contains("t") && folder.contains("session") {
        return .session
      }
    }
    // One a day; `Daily activity metrics.csv` has a row a day and says less.
    if lower.hasSuffix(".csv"), folder == "daily activity metrics", let date = CivilDate(lower.dropLast(4)) {
      return .daily(date)
    }
    return nil
  }

  func recognizes(_ name: String, head: [UInt8]) -> Bool { GoogleFitReader.part(name) != nil }

  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError) {
    switch GoogleFitReader.part(input.name) {
    case .points?: try points(input, gathering)
    case .session?: try session(input, gathering)
    case .daily(let date)?: try daily(input, date, gathering)
    case .workout?: try tcx(input, gathering)
    case nil: break
    }
  }

  // MARK: All Data

  private static let family = "Google Fit"

  /// The stream that Google has made of all others is the best, then any merged one, then raw ones.
  private func stream(_ name: String) -> HealthSource {
    let isEstimate = name.contains("estimated_steps")
    let isMerged = name.contains("merge_step_deltas")
    let short = isEstimate ? "estimated steps" : isMerged ? "merged steps" : String(name.suffix(48))
    return HealthSource(
      "Google Fit, \(short)", .phone, family: GoogleFitReader.family, preference: isEstimate ? 0 : isMerged ? 1 : 2)
  }

  private func points(_ input: HealthInput, _ gathering: Gathering) throws(HealthError) {
    let file = input.name.split(separator: "/").last.map(String.init) ?? input.name
    let elements = JSONElements(try input.open(), gathering)
    try elements.each(list: "Data Points") { point, header in
      guard let from = nanoseconds(point["startTimeNanos"]), let to = nanoseconds(point["endTimeNanos"]),
        let value = point["fitValue"]?.array?.first?["value"]
      else { return }
      let type = point["dataTypeName"]?.string ?? file
      let stream = header["Data Source"]?.string ?? file
      let whole = value["intVal"]?.double
      if type.contains("step_count.delta"), let steps = whole {
        gathering.add(.steps, gathering.index(of: self.stream(stream)), from, to, value: steps)
      } else if type.contains("sleep.segment"), let stage = value["intVal"]?.int {
        let source = gathering.index(of: HealthSource("Google Fit", .phone))
        // 1 awake, 3 out of bed; 2 asleep, 4 light, 5 deep, 6 REM.
        if [2, 4, 5, 6].contains(stage) { gathering.add(.asleep, source, from, to) }
        if [1, 3].contains(stage) { gathering.add(.awake, source, from, to) }
      } else if stream.contains("resting_heart_rate"), let rate = value["fpVal"]?.double ?? whole {
        gathering.add(.resting, gathering.index(of: HealthSource("Google Fit", .phone)), from, from, value: rate)
      }
    }
  }

  private func nanoseconds(_ json: JSON?) -> Int64? {
    (json?.int ?? json?.string.flatMap(Int64.init)).map { $0 / 1_000_000 }
  }

  // MARK: All Sessions

  private func session(_ input: HealthInput, _ gathering: Gathering) throws(HealthError) {
    let elements = JSONElements(try input.open(), gathering)
    try elements.each(list: "") { session, _ in
      guard let start = session["startTime"]?.string.flatMap({ LocalTime.iso($0, zone: .utc) }),
        let end = session["endTime"]?.string.flatMap({ LocalTime.iso($0, zone: .utc) })
      else { return }
      let source = gathering.index(of: HealthSource("Google Fit", .phone))
      let activity = session["fitnessActivity"]?.string ?? ""
      if activity == "sleep" { return gathering.add(.night, source, start, end) }
      var minutes = Double(end - start) / 60_000
      if let text = session["duration"]?.string, text.hasSuffix("s"), let seconds = Double(text.dropLast()) {
        minutes = seconds / 60
      }
      gathering.add(.workout, source, start, end, value: minutes)
    }
  }

  // MARK: Daily activity metrics

  private func daily(_ input: HealthInput, _ date: CivilDate, _ gathering: Gathering) throws(HealthError) {
    let source = gathering.index(
      of: HealthSource("Google Fit, daily metrics", .phone, family: GoogleFitReader.family, preference: 3))
    var rows = CSVRows(try input.open(), gathering)
    guard let names = try rows.next(), let start = names.firstIndex(of: "Start time"),
      let end = names.firstIndex(of: "End time"), let steps = names.firstIndex(of: "Step count")
    else { return gathering.remark(.damage, "Its first line lacks Start time, End time or Step count.") }
    while let row = try rows.next() {
      guard row.count > max(start, end, steps), let count = Double(row[steps]) else { continue }
      guard let from = LocalTime.iso("\(date)T\(row[start])", zone: gathering.zone),
        var to = LocalTime.iso("\(date)T\(row[end])", zone: gathering.zone)
      else {
        gathering.leaveOut(.absurdTime)
        continue
      }
      // The last row ends at 00:00 of the next day.
      if to <= from { to += 86_400_000 }
      gathering.add(.steps, source, from, to, value: count)
    }
  }

  // MARK: Activities

  private func tcx(_ input: HealthInput, _ gathering: Gathering) throws(HealthError) {
    let scanner = XMLScanner(BufferedInput(try input.open(), check: gathering.check))
    // Another source than that of the sessions, for it repeats them.
    let source = gathering.index(of: HealthSource("Google Fit, TCX", .other))
    var start: Int64?
    var seconds = 0.0
    func finish() {
      if let start { gathering.add(.workout, source, start, start + Int64(seconds * 1000), value: seconds / 60) }
      (start, seconds) = (nil, 0)
    }
    while try scanner.next({ tag, count in
      count > 10
        && (tag[1] == 0x41 || tag[1] == 0x4C || tag[1] == 0x54 && tag[6] == 0x54 || tag[1] == 0x2F && tag[2] == 0x41)
    }) {
      let name = scanner.tag.dropFirst().prefix { $0 > 0x20 && $0 != 0x3E }
      switch String(decoding: name, as: UTF8.self) {
      case "Activity", "/Activity": finish()
      case "Lap":
        var time: Int64?
        XMLScanner.attributes(scanner.tag) { name, value in
          if name.equals("StartTime") { time = LocalTime.iso(XMLScanner.decode(value), zone: .utc) }
        }
        if let time { start = min(start ?? time, time) }
      case "TotalTimeSeconds":
        if let lap = Double(try scanner.text()), lap >= 0, lap < 1_000_000 {
          // Beyond what a workout can last it is left out whatever it is.
          seconds = min(seconds + lap, 10_000_000)
        }
      default: break
      }
    }
    finish()
    if let broken = scanner.broken { gathering.remark(.damage, "An element at byte \(broken) is broken or not ended.") }
  }
}
