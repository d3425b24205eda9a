import System

/// Gadgetbridge's data base, as its "Export database" and its automatic export write it. Each kind of device has a table of its own; all those of
/// samples of a minute end in `_ACTIVITY_SAMPLE` and share some columns.
struct GadgetbridgeReader: HealthReader {
  let format = "Gadgetbridge"

  func recognizes(_ name: String, head: [UInt8]) -> Bool {
    let file = name.split(separator: "/").last.map { $0.lowercased() } ?? ""
    return file.contains("gadgetbridge") && head.starts(with: Array("SQLite format 3\0".utf8))
  }

  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError) {
    try input.withDatabase(gathering) { database throws(HealthError) in
      var pass = Pass(database, gathering)
      try pass.run()
    }
  }
}

private struct Pass {
  private let database: SQLiteDatabase
  private let gathering: Gathering
  private var devices: [Int64: HealthSource] = [:]

  init(_ database: SQLiteDatabase, _ gathering: Gathering) {
    self.database = database
    self.gathering = gathering
  }

  mutating func run() throws(HealthError) {
    let tables = try database.tables()
    if tables.contains("DEVICE") { try readDevices() }
    var failure: HealthError?
    for table in tables.sorted() {
      do throws(HealthError) { try read(table) } catch {
        if error.code == .cancelled { throw error }
        // A damaged page is one table's; the others may be whole.
        gathering.remark(.damage, "\(error.description)")
        failure = error
      }
    }
    if let failure, gathering.records.isEmpty { throw failure }
  }

  private func read(_ table: String) throws(HealthError) {
    let columns = try database.columns(table)
    guard columns.contains("TIMESTAMP") || columns.contains("START_TIME") else { return }
    if table.hasSuffix("_ACTIVITY_SAMPLE") { try readSamples(table, columns) }
    if table.hasSuffix("_SLEEP_STAGE_SAMPLE") { try readSleepStages(table, columns) }
    if table.hasSuffix("_HEART_RATE_RESTING_SAMPLE") { try readResting(table, columns) }
    if table == "BASE_ACTIVITY_SUMMARY" { try readWorkouts(columns) }
  }

  private mutating func readDevices() throws(HealthError) {
    let columns = try database.columns("DEVICE")
    guard columns.isSuperset(of: ["_ID", "NAME"]) else { return }
    let alias = columns.contains("ALIAS") ? "ALIAS" : "NULL"
    var found: [Int64: HealthSource] = [:]
    try database.each("SELECT _id, NAME, \(alias) FROM DEVICE LIMIT 1000", table: "DEVICE") { row in
      // What lies on a wrist is all that Gadgetbridge knows.
      found[row.int(0)] = HealthSource(row.isNull(2) || row.text(2).isEmpty ? row.text(1) : row.text(2), .wearable)
    }
    devices = found
  }

  private func source(_ device: Int64) -> UInt16 {
    gathering.index(of: devices[device] ?? HealthSource("Gadgetbridge device \(device)", .wearable))
  }

  // MARK: Samples

  /// Seconds or milliseconds: newer tables have the latter.
  private func scale(_ table: String) throws(HealthError) -> Int64 {
    // By what can be: a single absurd time must not decide.
    var isSeconds = false
    let name = SQLiteDatabase.name(table)
    try database.each(
      "SELECT EXISTS (SELECT 1 FROM \(name) WHERE TIMESTAMP BETWEEN ? AND ?)",
      [Gathering.earliest / 1000, gathering.now / 1000 + 86_400], table: table
    ) { isSeconds = $0.int(0) != 0 }
    return isSeconds ? 1000 : 1
  }

  /// The rows around the span, with their time in milliseconds; `TIMESTAMP` leads the table's key. Those whose times are absurd are counted.
  private func each(
    _ table: String, _ scale: Int64, _ columns: String, _ body: (SQLiteDatabase.Row, _ time: Int64) -> Void
  ) throws(HealthError) {
    let name = SQLiteDatabase.name(table)
    let kept = gathering.kept
    try database.each(
      "SELECT TIMESTAMP, DEVICE_ID, \(columns) FROM \(name) WHERE TIMESTAMP >= ? AND TIMESTAMP < ? ORDER BY TIMESTAMP",
      [kept.lowerBound / scale, min(kept.upperBound, gathering.now + 86_400_000) / scale], table: table
    ) { row in
      // The file chooses what its columns are: what compares as lying in between need not do so as a number.
      let (time, isTooLarge) = row.int(0).multipliedReportingOverflow(by: scale)
      if isTooLarge || time > gathering.now + 86_400_000 || time < Gathering.earliest {
        gathering.leaveOut(.absurdTime)
      } else {
        body(row, time)
      }
    }
    var absurd = 0
    try database.each(
      "SELECT (SELECT count(*) FROM \(name) WHERE TIMESTAMP < ?) + (SELECT count(*) FROM \(name) WHERE TIMESTAMP > ?)",
      [Gathering.earliest / scale, (gathering.now + 86_400_000) / scale], table: table
    ) { absurd = Int($0.int(0)) }
    if absurd > 0 { gathering.leaveOut(.absurdTime, absurd) }
  }

  private func readSamples(_ table: String, _ columns: Set<String>) throws(HealthError) {
    guard columns.isSuperset(of: ["TIMESTAMP", "DEVICE_ID"]) else { return }
    func column(_ name: String) -> String { columns.contains(name) ? name : "NULL" }
    let scale = try scale(table)
    let codes = SleepCodes(table)
    if codes == nil, columns.contains("RAW_KIND") {
      gathering.remark(.note, "What \(table) says about sleep is not known here; its steps and heart rates are read.")
    }
    // One row a minute; what is asleep runs on to the next row, or for a minute.
    var night = Night()
    try each(table, scale, "\(column("STEPS")), \(column("HEART_RATE")), \(column("RAW_KIND"))") { row, time in
      let device = source(row.int(1))
      let steps = row.int(2)
      if !row.isNull(2) {
        if (0...1000).contains(steps) {
          gathering.add(.steps, device, time, time + 60_000, value: Double(steps))
        } else if steps != -1 {
          gathering.leaveOut(.absurdValue)
        }
      }
      if !row.isNull(3) { gathering.add(.heartRate, device, time, time, value: Double(row.int(3))) }
      if let codes, !row.isNull(4) {
        night.on(codes.isAsleep(row.int(4)), device, time) { gathering.add(.asleep, device, $0, $1) }
      }
    }
    night.end { source, start, end in gathering.add(.asleep, source, start, end) }
  }

  private func readSleepStages(_ table: String, _ columns: Set<String>) throws(HealthError) {
    guard columns.isSuperset(of: ["TIMESTAMP", "DEVICE_ID", "STAGE"]) else { return }
    let scale = try scale(table)
    var night = Night(longest: 4 * 3_600_000)
    try each(table, scale, "STAGE") { row, time in
      // As in FIT files: 1 awake, 2 light, 3 deep, 4 REM.
      night.on((2...4).contains(row.int(2)), source(row.int(1)), time) {
        gathering.add(.asleep, source(row.int(1)), $0, $1)
      }
    }
    night.end { source, start, end in gathering.add(.asleep, source, start, end) }
  }

  private func readResting(_ table: String, _ columns: Set<String>) throws(HealthError) {
    guard columns.isSuperset(of: ["TIMESTAMP", "DEVICE_ID", "HEART_RATE"]) else { return }
    let scale = try scale(table)
    try each(table, scale, "HEART_RATE") { row, time in
      gathering.add(.resting, source(row.int(1)), time, time, value: Double(row.int(2)))
    }
  }

  private func readWorkouts(_ columns: Set<String>) throws(HealthError) {
    guard columns.isSuperset(of: ["START_TIME", "END_TIME", "DEVICE_ID"]) else { return }
    try database.each(
      "SELECT START_TIME, END_TIME, DEVICE_ID FROM BASE_ACTIVITY_SUMMARY", table: "BASE_ACTIVITY_SUMMARY"
    ) {
      row in
      let (start, end) = (row.int(0), row.int(1))
      gathering.add(.workout, source(row.int(2)), start, end, value: Double(end &- start) / 60_000)
    }
  }
}

/// Joins samples asleep that follow each other.
private struct Night {
  /// A sample says nothing about what is later than this.
  let longest: Int64
  private var open: [UInt16: (start: Int64, last: Int64)] = [:]

  init(longest: Int64 = 60_000) { self.longest = longest }

  mutating func on(_ isAsleep: Bool, _ device: UInt16, _ time: Int64, _ found: (Int64, Int64) -> Void) {
    if let night = open[device] {
      if isAsleep, time - night.last <= longest {
        open[device] = (night.start, time)
        return
      }
      found(night.start, min(time, night.last + longest))
      open[device] = nil
    }
    if isAsleep { open[device] = (time, time) }
  }

  mutating func end(_ found: (UInt16, Int64, Int64) -> Void) {
    for (device, night) in open.sorted(by: { $0.key < $1.key }) {
      found(device, night.start, night.last + min(longest, 60_000))
    }
    open = [:]
  }
}

/// Which raw kinds of a table mean asleep. Each family of devices has numbers of its own.
private struct SleepCodes {
  private let mask: Int64
  private let asleep: Set<Int64>

  init?(_ table: String) {
    switch table {
    // The low four bits: 9 light, 11 deep; the first generation has 4 deep and 5 light.
    case "MI_BAND_ACTIVITY_SAMPLE": (mask, asleep) = (0x0F, [4, 5, 9, 11])
    case "HUAMI_EXTENDED_ACTIVITY_SAMPLE": (mask, asleep) = (0xFF, [120, 121, 122, 123])
    default: return nil
    }
  }

  func isAsleep(_ kind: Int64) -> Bool { asleep.contains(kind & mask) }
}
