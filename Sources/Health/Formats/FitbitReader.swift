import GatewayProtocol
import System

/// Fitbit's account archive, as Google Takeout has it in `Global Export Data`: lists of objects, a kind of file a kind of thing. Steps and workouts
/// are written in UTC, nights by the clocks of where they were slept.
struct FitbitReader: HealthReader {
  let format = "Fitbit"

  private enum Part: String, CaseIterable {
    case steps = "steps-"
    case sleep = "sleep-"
    case resting = "resting_heart_rate-"
    case exercise = "exercise-"
  }

  private static func part(_ name: String) -> Part? {
    let file = name.split(separator: "/").last.map { $0.lowercased() } ?? ""
    guard file.hasSuffix(".json") else { return nil }
    return Part.allCases.first { file.hasPrefix($0.rawValue) }
  }

  func recognizes(_ name: String, head: [UInt8]) -> Bool { FitbitReader.part(name) != nil }

  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError) {
    guard let part = FitbitReader.part(input.name) else { return }
    let source = gathering.index(of: HealthSource("Fitbit", .wearable))
    let elements = JSONElements(try input.open(), gathering)
    switch part {
    case .steps:
      try elements.each(list: "") { element, _ in
        guard let time = time(element["dateTime"]), let count = number(element["value"]) else { return }
        // A value a minute.
        gathering.add(.steps, source, time, time + 60_000, value: count)
      }
    case .resting:
      try elements.each(list: "") { element, _ in
        guard let value = element["value"], let rate = value["value"]?.double, rate > 0,
          let date = (value["date"]?.string).flatMap(FitbitReader.date)
        else { return }
        // Of the day as a whole.
        let start = gathering.zone.start(of: date) * 1000
        gathering.add(.resting, source, start, start, value: rate)
      }
    case .sleep: try elements.each(list: "") { element, _ in sleep(element, source, gathering) }
    case .exercise:
      try elements.each(list: "") { element, _ in
        guard let start = time(element["startTime"]), let length = number(element["duration"]), length >= 0,
          length < 1e10
        else { return }
        let active = number(element["activeDuration"]) ?? length
        gathering.add(.workout, source, start, start + Int64(length), value: active / 60_000)
      }
    }
  }

  private func number(_ json: JSON?) -> Double? { json?.double ?? json?.string.flatMap(Double.init) }

  /// `05/02/24 07:11:00`, in UTC.
  private func time(_ json: JSON?) -> Int64? {
    guard let text = json?.string else { return nil }
    if let iso = LocalTime.iso(text, zone: .utc) { return iso }
    guard let date = FitbitReader.date(String(text.prefix(8))), text.utf8.count >= 14,
      let (clock, rest) = LocalTime.clock(Array(text.utf8.dropFirst(9))), rest.isEmpty
    else { return nil }
    return Int64(date.number) * 86_400_000 + clock
  }

  /// `05/02/24`
  private static func date(_ text: String) -> CivilDate? {
    let parts = text.split(separator: "/").map { Int($0) }
    guard parts.count == 3, let month = parts[0], let day = parts[1], let year = parts[2], (0...99).contains(year)
    else {
      return nil
    }
    return CivilDate(year: 2000 + year, month: month, day: day)
  }

  private func sleep(_ night: JSON, _ source: UInt16, _ gathering: Gathering) {
    func local(_ json: JSON?) -> Int64? { json?.string.flatMap { LocalTime.iso($0, zone: gathering.zone) } }
    guard let start = local(night["startTime"]), let end = local(night["endTime"]) else { return }
    gathering.add(.night, source, start, end)
    func stages(_ name: String) -> [(range: Range<Int64>, level: String)] {
      (night["levels"]?[name]?.array ?? []).compactMap { stage in
        guard let from = local(stage["dateTime"]), let seconds = stage["seconds"]?.double, seconds > 0,
          seconds < 200_000, let level = stage["level"]?.string
        else { return nil }
        return (from..<(from + Int64(seconds * 1000)), level)
      }
    }
    // Short spells awake lie over the stages that they interrupt.
    let short = Intervals(stages("shortData").filter { $0.level == "wake" }.map(\.range))
    for (range, level) in stages("data") {
      switch level {
      case "light", "deep", "rem", "asleep":
        for piece in short.gaps(in: range) { gathering.add(.asleep, source, piece.lowerBound, piece.upperBound) }
      case "wake", "awake", "restless": gathering.add(.awake, source, range.lowerBound, range.upperBound)
      default: break
      }
    }
    for range in short.ranges { gathering.add(.awake, source, range.lowerBound, range.upperBound) }
  }
}
