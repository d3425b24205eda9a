/// The rule at the end of a TZif file, and of a TZ variable: standard time, and from when to when in a year the clocks are ahead of it.
/// POSIX's form with RFC 8536's wider hours: `EST5EDT,M3.2.0,M11.1.0`, `<-03>3<-02>,M3.5.0/-2,M10.5.0/-1`.
struct ZoneRule: Sendable, Equatable {
  /// A day of the year and a time in it.
  struct Moment: Sendable, Equatable {
    enum Day: Sendable, Equatable {
      /// From 1 to 365, the leap day never counted.
      case ordinary(Int)
      /// From 0 to 365, the leap day counted.
      case counted(Int)
      /// The nth (5 = last) of a weekday in a month.
      case weekday(month: Int, week: Int, weekday: Int)
    }
    let day: Day
    /// Seconds from that day's midnight by the clocks until then; may be negative or over a day.
    let time: Int64

    /// In seconds since 1970, by the clocks until then.
    func local(in year: Int) -> Int64 {
      let first = CivilDate.number(year, 1, 1)
      let isLeap = CivilDate.number(year + 1, 1, 1) - first == 366
      let number: Int
      switch day {
      case .ordinary(let ordinal): number = first + ordinal - 1 + (isLeap && ordinal >= 60 ? 1 : 0)
      case .counted(let ordinal): number = first + ordinal
      case .weekday(let month, let week, let weekday):
        let start = CivilDate.number(year, month, 1)
        let length = (month == 12 ? CivilDate.number(year + 1, 1, 1) : CivilDate.number(year, month + 1, 1)) - start
        let firstWeekday = ((start + 4) % 7 + 7) % 7
        var day = (weekday - firstWeekday + 7) % 7 + (week - 1) * 7
        while day >= length { day -= 7 }
        number = start + day
      }
      return Int64(number) * 86_400 + time
    }
  }

  /// Seconds east of UTC.
  let standard: Int32
  let summer: Int32
  let begin: Moment
  let end: Moment
  var isFixed: Bool { standard == summer }

  /// The changes of the year of an instant and of those beside it, ascending.
  func changes(around instant: Int64) -> [(Int64, Int32)] {
    if isFixed { return [] }
    let year = CivilDate(number: Int((instant + Int64(standard)).floorDivided(by: 86_400))).year
    var changes: [(Int64, Int32)] = []
    for year in (year - 1)...(year + 1) {
      changes.append((begin.local(in: year) - Int64(standard), summer))
      changes.append((end.local(in: year) - Int64(summer), standard))
    }
    // Where summer time lasts all year it begins at the instant at which it ends: the beginning counts.
    changes.sort { $0.0 < $1.0 || $0.0 == $1.0 && $0.1 == standard && $1.1 == summer }
    return changes
  }

  func offset(at instant: Int64) -> Int32 {
    changes(around: instant).last { $0.0 <= instant }?.1 ?? standard
  }
}

extension ZoneRule {
  /// nil when the text is no such rule.
  init?(_ text: String) {
    var reader = ZoneRuleReader(text)
    guard reader.name(), let west = reader.time(24) else { return nil }
    let standard = Int32(-west)
    if reader.isAtEnd {
      let never = Moment(day: .counted(0), time: 0)
      self.init(standard: standard, summer: standard, begin: never, end: never)
      return
    }
    guard reader.name() else { return nil }
    var summer = standard + 3600
    if reader.next != UInt8(ascii: ",") {
      guard let west = reader.time(24) else { return nil }
      summer = Int32(-west)
    }
    guard reader.take(","), let begin = reader.moment(), reader.take(","), let end = reader.moment(), reader.isAtEnd
    else { return nil }
    self.init(standard: standard, summer: summer, begin: begin, end: end)
  }
}

private struct ZoneRuleReader {
  let bytes: [UInt8]
  var at = 0

  init(_ text: String) { bytes = Array(text.utf8.prefix(257)) }

  var next: UInt8? { at < bytes.count ? bytes[at] : nil }
  var isAtEnd: Bool { at == bytes.count }

  mutating func take(_ character: Unicode.Scalar) -> Bool {
    guard next == UInt8(ascii: character) else { return false }
    at += 1
    return true
  }

  /// At least three letters, or anything between angle brackets.
  mutating func name() -> Bool {
    let start = at
    if take("<") {
      while let byte = next, byte != UInt8(ascii: ">") { at += byte == 0 ? bytes.count : 1 }
      return take(">")
    }
    while let byte = next, (65...90).contains(byte & 0xDF), byte >= 65 { at += 1 }
    return at - start >= 3
  }

  mutating func number(_ range: ClosedRange<Int>) -> Int? {
    let start = at
    var value = 0
    while let byte = next, (48...57).contains(byte), at - start < 4 {
      value = value * 10 + Int(byte - 48)
      at += 1
    }
    return at > start && range.contains(value) ? value : nil
  }

  /// `[+|-]hh[:mm[:ss]]` in seconds.
  mutating func time(_ hours: Int) -> Int64? {
    let isNegative = take("-")
    if !isNegative { _ = take("+") }
    guard let hour = number(0...hours) else { return nil }
    var seconds = Int64(hour) * 3600
    if take(":") {
      guard let minute = number(0...59) else { return nil }
      seconds += Int64(minute) * 60
      if take(":") {
        guard let second = number(0...59) else { return nil }
        seconds += Int64(second)
      }
    }
    return isNegative ? -seconds : seconds
  }

  mutating func moment() -> ZoneRule.Moment? {
    let day: ZoneRule.Moment.Day
    if take("M") {
      guard let month = number(1...12), take("."), let week = number(1...5), take("."), let weekday = number(0...6)
      else { return nil }
      day = .weekday(month: month, week: week, weekday: weekday)
    } else if take("J") {
      guard let ordinal = number(1...365) else { return nil }
      day = .ordinary(ordinal)
    } else {
      guard let ordinal = number(0...365) else { return nil }
      day = .counted(ordinal)
    }
    if !take("/") { return ZoneRule.Moment(day: day, time: 7200) }
    guard let time = time(167) else { return nil }
    return ZoneRule.Moment(day: day, time: time)
  }
}
