import System

/// Android's Health Connect: the SQLite data base in the zip that its "Export data" writes. Times are milliseconds since 1970; each record
/// names the app that wrote it and, where known, the device.
struct HealthConnectReader: HealthReader {
  let format = "Health Connect"

  func recognizes(_ name: String, head: [UInt8]) -> Bool {
    let file = name.split(separator: "/").last.map { $0.lowercased() } ?? ""
    return file.contains("health_connect") && head.starts(with: Array("SQLite format 3\0".utf8))
  }

  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError) {
    try input.withDatabase(gathering) { database throws(HealthError) in
      try Pass(database, gathering)?.run()
    }
  }
}

private struct Pass {
  private let database: SQLiteDatabase
  private let gathering: Gathering
  private let tables: Set<String>
  private var apps: [Int64: String] = [:]
  private var devices: [Int64: (model: String, kind: HealthSource.Kind)] = [:]

  /// nil when it holds nothing that is known.
  init?(_ database: SQLiteDatabase, _ gathering: Gathering) throws(HealthError) {
    self.database = database
    self.gathering = gathering
    tables = Set(try database.tables())
    if tables.isDisjoint(with: [
      "steps_record_table", "sleep_session_record_table", "resting_heart_rate_record_table",
      "exercise_session_record_table",
    ]) {
      gathering.remark(.note, "It has none of the tables that are known.")
      return nil
    }
    var apps: [Int64: String] = [:]
    if try has("application_info_table", ["ROW_ID", "PACKAGE_NAME"]) {
      let name = try database.columns("application_info_table").contains("APP_NAME") ? "app_name" : "NULL"
      try database.each(
        "SELECT row_id, package_name, \(name) FROM application_info_table LIMIT 1000", table: "application_info_table"
      ) { row in apps[row.int(0)] = row.text(2).isEmpty ? row.text(1) : row.text(2) }
    }
    var devices: [Int64: (String, HealthSource.Kind)] = [:]
    if try has("device_info_table", ["ROW_ID", "MODEL", "DEVICE_TYPE"]) {
      try database.each(
        "SELECT row_id, model, device_type FROM device_info_table LIMIT 1000", table: "device_info_table"
      ) { row in
        // 1 watch, 2 phone, 4 ring, 5 worn on the head, 6 band, 7 on the chest.
        let kind: HealthSource.Kind =
          [1, 4, 5, 6, 7].contains(row.int(2))
          ? .wearable : row.int(2) == 2 ? .phone : HealthSource.kind(of: row.text(1))
        devices[row.int(0)] = (row.text(1), kind)
      }
    }
    self.apps = apps
    self.devices = devices
  }

  private func has(_ table: String, _ columns: Set<String>) throws(HealthError) -> Bool {
    guard tables.contains(table) else { return false }
    return try database.columns(table).isSuperset(of: columns)
  }

  func run() throws(HealthError) {
    var failure: HealthError?
    let parts: [() throws(HealthError) -> Void] = [readSteps, readResting, readSleep, readWorkouts]
    for part in parts {
      do throws(HealthError) { try part() } catch {
        if error.code == .cancelled { throw error }
        // A damaged page is one table's; the others may be whole.
        gathering.remark(.damage, error.description)
        failure = error
      }
    }
    if let failure, gathering.records.isEmpty { throw failure }
  }

  private func source(_ app: Int64, _ device: Int64) -> UInt16 {
    let name = apps[app] ?? "app \(app)"
    guard let device = devices[device] else { return gathering.index(of: HealthSource(named: name)) }
    return gathering.index(of: HealthSource(device.model.isEmpty ? name : "\(name) (\(device.model))", device.kind))
  }

  private func readSteps() throws(HealthError) {
    let table = "steps_record_table"
    guard try has(table, ["START_TIME", "END_TIME", "COUNT", "APP_INFO_ID", "DEVICE_INFO_ID"]) else { return }
    try database.each(
      "SELECT app_info_id, device_info_id, start_time, end_time, count FROM \(table) WHERE end_time >= ? AND start_time < ?",
      bounds, table: table
    ) { row in gathering.add(.steps, source(row.int(0), row.int(1)), row.int(2), row.int(3), value: row.number(4)) }
  }

  private var bounds: [Int64] { [gathering.kept.lowerBound, gathering.kept.upperBound] }

  private func readResting() throws(HealthError) {
    let table = "resting_heart_rate_record_table"
    guard try has(table, ["TIME", "BEATS_PER_MINUTE", "APP_INFO_ID", "DEVICE_INFO_ID"]) else { return }
    try database.each(
      "SELECT app_info_id, device_info_id, time, beats_per_minute FROM \(table) WHERE time >= ? AND time < ?", bounds,
      table: table
    ) { row in gathering.add(.resting, source(row.int(0), row.int(1)), row.int(2), row.int(2), value: row.number(3)) }
  }

  private func readSleep() throws(HealthError) {
    let table = "sleep_session_record_table"
    guard try has(table, ["ROW_ID", "START_TIME", "END_TIME", "APP_INFO_ID", "DEVICE_INFO_ID"]) else { return }
    var sources: [Int64: UInt16] = [:]
    try database.each(
      "SELECT app_info_id, device_info_id, start_time, end_time, row_id FROM \(table) WHERE end_time >= ? AND start_time < ?",
      bounds, table: table
    ) { row in
      let source = source(row.int(0), row.int(1))
      sources[row.int(4)] = source
      gathering.add(.night, source, row.int(2), row.int(3))
    }
    guard try has("sleep_stages_table", ["PARENT_KEY", "STAGE_START_TIME", "STAGE_END_TIME", "STAGE_TYPE"]) else {
      return
    }
    try database.each(
      """
      SELECT parent_key, stage_start_time, stage_end_time, stage_type FROM sleep_stages_table \
      WHERE stage_end_time >= ? AND stage_start_time < ?
      """, bounds, table: "sleep_stages_table"
    ) { row in
      guard let source = sources[row.int(0)] else { return }
      switch row.int(3) {
      // Asleep, light, deep, REM.
      case 2, 4, 5, 6: gathering.add(.asleep, source, row.int(1), row.int(2))
      // Awake, out of bed, awake in bed.
      case 1, 3, 7: gathering.add(.awake, source, row.int(1), row.int(2))
      default: break
      }
    }
  }

  private func readWorkouts() throws(HealthError) {
    let table = "exercise_session_record_table"
    guard try has(table, ["START_TIME", "END_TIME", "APP_INFO_ID", "DEVICE_INFO_ID"]) else { return }
    try database.each(
      "SELECT app_info_id, device_info_id, start_time, end_time FROM \(table) WHERE end_time >= ? AND start_time < ?",
      bounds, table: table
    ) { row in
      let minutes = Double(row.int(3) &- row.int(2)) / 60_000
      gathering.add(.workout, source(row.int(0), row.int(1)), row.int(2), row.int(3), value: minutes)
    }
  }
}
