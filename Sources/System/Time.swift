import Glibc

/// The clock that only goes forward and stands still while the machine sleeps.
public enum Monotonic {
  /// Nanoseconds since some moment before the start (CLOCK_MONOTONIC).
  public static func nanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  /// Time since the same moment as a duration.
  public static func now() -> Duration { .nanoseconds(Int64(nanoseconds())) }

  /// Time since boot, sleep included (CLOCK_BOOTTIME): the difference to `now()` grows over a suspend.
  public static func sinceBoot() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }
}

/// The wall clock.
public enum WallClock {
  /// Milliseconds since 1970-01-01T00:00:00Z.
  public static func milliseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// `2026-11-30T12:34:56.789Z` for milliseconds since 1970.
  public static func iso8601(_ milliseconds: Int64) -> String {
    var seconds = time_t(milliseconds.floorDivided(by: 1000))
    var parts = tm()
    gmtime_r(&seconds, &parts)
    let fraction = (milliseconds % 1000 + 1000) % 1000
    func pad(_ value: Int, _ width: Int) -> String {
      let digits = String(value)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return pad(Int(parts.tm_year) + 1900, 4) + "-" + pad(Int(parts.tm_mon) + 1, 2) + "-" + pad(Int(parts.tm_mday), 2)
      + "T" + pad(Int(parts.tm_hour), 2) + ":" + pad(Int(parts.tm_min), 2) + ":" + pad(Int(parts.tm_sec), 2)
      + "." + pad(Int(fraction), 3) + "Z"
  }
}

extension Int64 {
  /// Rounded down, also below zero.
  public func floorDivided(by divisor: Int64) -> Int64 {
    let quotient = self / divisor
    return self % divisor < 0 ? quotient - 1 : quotient
  }
}

extension Duration {
  /// Whole nanoseconds, from 0 to about 290 years.
  var nanosecondsClamped: UInt64 {
    let (seconds, attoseconds) = components
    if seconds < 0 || attoseconds < 0 { return 0 }
    if seconds > 9_000_000_000 { return 9_000_000_000_000_000_000 }
    return UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
  }

  /// Milliseconds as a number, fractions kept.
  public var milliseconds: Double { Double(components.seconds) * 1000 + Double(components.attoseconds) / 1e15 }
  /// Seconds as a number, fractions kept.
  public var inSeconds: Double { milliseconds / 1000 }
}
