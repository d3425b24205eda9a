import GatewayProtocol
import System

/// Our own plain form, for a person's own script: a record a row of CSV, or a record an object of JSON (README.md).
///
///     kind,start,end,value,source
///     steps,2026-05-02T07:00,2026-05-02T08:00,812,my watch
///     asleep,2026-05-01T23:10+02:00,2026-05-02T06:40+02:00,,
///
/// Kinds: `steps`, `asleep`, `awake`, `in_bed`, `night`, `resting_heart_rate`, `heart_rate`, `workout` (value: its minutes without pauses). Times are ISO
/// 8601; without an offset they are by the clocks of the configured zone; a date alone is that whole day.
struct PlainReader: HealthReader {
  let format = "plain"

  func recognizes(_ name: String, head: [UInt8]) -> Bool {
    let lower = name.lowercased()
    let text = String(decoding: head, as: UTF8.self)
    if lower.hasSuffix(".csv") {
      let first = text.prefix { !$0.isNewline }.lowercased()
      return first.contains("kind") && first.contains("start")
    }
    return lower.hasSuffix(".json") && text.contains("\"kind\"") && text.contains("\"start\"")
  }

  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError) {
    if input.name.lowercased().hasSuffix(".json") { return try json(input, gathering) }
    var rows = CSVRows(try input.open(), gathering)
    guard let names = try rows.next()?.map({ $0.lowercased() }), let kind = names.firstIndex(of: "kind"),
      let start = names.firstIndex(of: "start")
    else { return gathering.remark(.damage, "Its first line lacks the columns kind and start.") }
    func column(_ name: String, _ row: [String]) -> String? {
      guard let index = names.firstIndex(of: name), index < row.count, !row[index].isEmpty else { return nil }
      return row[index]
    }
    while let row = try rows.next() {
      let problem =
        row.count <= max(kind, start)
        ? "has too few columns"
        : add(
          row[kind], row[start], column("end", row), column("value", row).map { Double($0) ?? .nan },
          column("source", row), gathering)
      if let problem { gathering.remark(.damage, "Row \(rows.line) \(problem); the others were read.") }
    }
  }

  private func json(_ input: HealthInput, _ gathering: Gathering) throws(HealthError) {
    let elements = JSONElements(try input.open(), gathering)
    var count = 0
    try elements.each(list: "records") { record, header in
      count += 1
      guard let kind = record["kind"]?.string, let start = record["start"]?.string else {
        return gathering.remark(.damage, "Record \(count) lacks kind or start; the others were read.")
      }
      let problem = add(
        kind, start, record["end"]?.string, record["value"].map { $0.double ?? .nan },
        record["source"]?.string ?? header["source"]?.string, gathering)
      if let problem { gathering.remark(.damage, "Record \(count) \(problem); the others were read.") }
    }
  }

  /// Puts one record in; says what is wrong with it otherwise: `has …`.
  private func add(
    _ kind: String, _ start: String, _ end: String?, _ value: Double?, _ source: String?, _ gathering: Gathering
  ) -> String? {
    guard let from = time(start, gathering, isEnd: false) else {
      return "has a start that is no time: \(start.prefix(40))"
    }
    var to = from
    if let end {
      guard let time = time(end, gathering, isEnd: true) else { return "has an end that is no time: \(end.prefix(40))" }
      to = time
    } else if let date = CivilDate(start) {
      to = gathering.zone.start(of: date.adding(days: 1)) * 1000
    }
    if value?.isNaN ?? false { return "has a value that is no number" }
    let index = gathering.index(of: HealthSource(named: source ?? "plain file"))
    switch kind.lowercased() {
    case "steps", "resting_heart_rate", "heart_rate":
      guard let value else { return "has no value" }
      let kind: HealthRecord.Kind =
        kind.lowercased() == "steps" ? .steps : kind.lowercased() == "heart_rate" ? .heartRate : .resting
      gathering.add(kind, index, from, to, value: value)
    case "asleep": gathering.add(.asleep, index, from, to)
    case "awake": gathering.add(.awake, index, from, to)
    case "night": gathering.add(.night, index, from, to)
    case "in_bed": break
    case "workout": gathering.add(.workout, index, from, to, value: value ?? Double(to - from) / 60_000)
    default: return "is of a kind that is not known: \(kind.prefix(40))"
    }
    return nil
  }

  /// A date alone begins at its midnight, and as an end it ends with its last moment.
  private func time(_ text: String, _ gathering: Gathering, isEnd: Bool) -> Int64? {
    if let date = CivilDate(text) { return gathering.zone.start(of: isEnd ? date.adding(days: 1) : date) * 1000 }
    return LocalTime.iso(text, zone: gathering.zone)
  }
}
