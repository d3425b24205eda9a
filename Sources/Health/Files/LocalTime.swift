import System

/// Times as exports write them.
enum LocalTime {
  /// An ISO 8601 time to milliseconds since 1970: date, `T` or a blank, hours and minutes, perhaps seconds with a fraction, perhaps `Z` or an
  /// offset. Without one the clocks of `zone` are meant. nil for anything else.
  static func iso(_ text: some StringProtocol, zone: ZoneRules) -> Int64? {
    let bytes = Array(text.utf8)
    guard bytes.count >= 16, bytes.count <= 40, let date = CivilDate(text.prefix(10)) else { return nil }
    guard bytes[10] == 0x54 || bytes[10] == 0x20 || bytes[10] == 0x74 else { return nil }
    guard let (local, rest) = clock(Array(bytes[11...])) else { return nil }
    let milliseconds = Int64(date.number) * 86_400_000 + local
    if rest.isEmpty {
      let seconds = milliseconds.floorDivided(by: 1000)
      return zone.instant(local: seconds) * 1000 + (milliseconds - seconds * 1000)
    }
    guard let offset = offset(rest) else { return nil }
    return milliseconds - offset
  }

  /// `HH:MM[:SS[.fraction]]` to milliseconds, and what follows.
  static func clock(_ bytes: [UInt8]) -> (Int64, [UInt8])? {
    func two(_ index: Int) -> Int64? {
      guard index + 1 < bytes.count, (48...57).contains(bytes[index]), (48...57).contains(bytes[index + 1]) else {
        return nil
      }
      return Int64(bytes[index] - 48) * 10 + Int64(bytes[index + 1] - 48)
    }
    guard let hour = two(0), hour < 24, bytes.count > 4, bytes[2] == 0x3A, let minute = two(3), minute < 60 else {
      return nil
    }
    var milliseconds = (hour * 60 + minute) * 60_000
    var index = 5
    if index < bytes.count, bytes[index] == 0x3A {
      guard let second = two(6), second <= 60 else { return nil }
      milliseconds += second * 1000
      index = 8
      if index < bytes.count, bytes[index] == 0x2E || bytes[index] == 0x2C {
        index += 1
        var scale: Int64 = 100
        let first = index
        while index < bytes.count, (48...57).contains(bytes[index]) {
          milliseconds += Int64(bytes[index] - 48) * scale
          scale /= 10
          index += 1
        }
        if index == first { return nil }
      }
    }
    return (milliseconds, Array(bytes[index...]))
  }

  /// `Z`, `+02:00`, `+0200` or `+02` to milliseconds.
  static func offset(_ bytes: [UInt8]) -> Int64? {
    if bytes == [0x5A] || bytes == [0x7A] { return 0 }
    guard bytes.count >= 3, bytes[0] == 0x2B || bytes[0] == 0x2D else { return nil }
    let digits = bytes.dropFirst().filter { $0 != 0x3A }
    guard digits.count == 2 || digits.count == 4, digits.allSatisfy({ (48...57).contains($0) }) else { return nil }
    let numbers = digits.map { Int64($0 - 48) }
    let hours = numbers[0] * 10 + numbers[1]
    let minutes = numbers.count == 4 ? numbers[2] * 10 + numbers[3] : 0
    guard hours <= 26, minutes < 60 else { return nil }
    return (hours * 60 + minutes) * 60_000 * (bytes[0] == 0x2D ? -1 : 1)
  }
}
