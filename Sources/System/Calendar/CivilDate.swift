/// A day of the proleptic Gregorian calendar, without a place on Earth: `2026-05-02`. Years 1 to 9999.
public struct CivilDate: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// Days since 1970-01-01.
  public let number: Int

  private static let numbers = CivilDate.number(1, 1, 1)...CivilDate.number(9999, 12, 31)

  /// The day that many days after 1970-01-01; the first or last one there is when it lies outside.
  public init(number: Int) {
    self.number = min(max(number, CivilDate.numbers.lowerBound), CivilDate.numbers.upperBound)
  }

  /// nil when there is no such day.
  public init?(year: Int, month: Int, day: Int) {
    guard (1...9999).contains(year), (1...12).contains(month), (1...31).contains(day) else { return nil }
    let date = CivilDate(number: CivilDate.number(year, month, day))
    guard date.parts == (year, month, day) else { return nil }
    self = date
  }

  /// Reads `YYYY-MM-DD` and nothing else.
  public init?(_ text: some StringProtocol) {
    let bytes = Array(text.utf8)
    guard bytes.count == 10, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-") else { return nil }
    func digits(_ range: Range<Int>) -> Int? {
      var value = 0
      for byte in bytes[range] {
        guard (48...57).contains(byte) else { return nil }
        value = value * 10 + Int(byte - 48)
      }
      return value
    }
    guard let year = digits(0..<4), let month = digits(5..<7), let day = digits(8..<10) else { return nil }
    self.init(year: year, month: month, day: day)
  }

  public var year: Int { parts.0 }
  /// 1 to 12.
  public var month: Int { parts.1 }
  /// 1 to 31.
  public var day: Int { parts.2 }
  /// 0 is Sunday.
  public var weekday: Int {
    let rest = (number + 4) % 7
    return rest < 0 ? rest + 7 : rest
  }

  public func adding(days: Int) -> CivilDate { CivilDate(number: number + days) }
  public static func < (left: CivilDate, right: CivilDate) -> Bool { left.number < right.number }

  public var description: String {
    let (year, month, day) = parts
    func pad(_ value: Int, _ width: Int) -> String {
      let digits = String(value)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return pad(year, 4) + "-" + pad(month, 2) + "-" + pad(day, 2)
  }

  /// Days since 1970-01-01 of any year, month 1 to 12, day 1 to 31. Years are counted from March, so that the leap day is their last.
  public static func number(_ year: Int, _ month: Int, _ day: Int) -> Int {
    let shifted = month <= 2 ? year - 1 : year
    let era = (shifted >= 0 ? shifted : shifted - 399) / 400
    let ofEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + dayOfYear - 719_468
  }

  private var parts: (Int, Int, Int) {
    let shifted = number + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let ofEra = shifted - era * 146_097
    let year = (ofEra - ofEra / 1460 + ofEra / 36_524 - ofEra / 146_096) / 365
    let dayOfYear = ofEra - (365 * year + year / 4 - year / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (year + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
  }
}
