import System

/// A local calendar day as an interval of time, in milliseconds since 1970. Today ends now.
public struct DayWindow: Sendable, Equatable {
  public let date: CivilDate
  public let zone: ZoneRules
  public let start: Int64
  /// Left out.
  public let end: Int64
  /// Nothing has happened after it.
  public let now: Int64

  /// - Parameter now: in milliseconds since 1970; nothing counts that is later.
  public init(_ date: CivilDate, zone: ZoneRules, now: Int64) {
    self.date = date
    self.zone = zone
    self.now = now
    start = zone.start(of: date) * 1000
    end = max(start, min(zone.start(of: date.adding(days: 1)) * 1000, now))
  }

  /// From midnight to now.
  public static func today(zone: ZoneRules, now: Int64) -> DayWindow {
    DayWindow(zone.date(at: now.floorDivided(by: 1000)), zone: zone, now: now)
  }

  /// `2026-05-02T00:00:00Z`
  public var startISO: String { DayWindow.iso(start) }
  public var endISO: String { DayWindow.iso(end) }

  /// To the second: a day's end is no more exact than that.
  private static func iso(_ milliseconds: Int64) -> String { WallClock.iso8601(milliseconds).dropLast(5) + "Z" }
}

/// The figures of a day. What nobody recorded is absent, never 0.
public struct DaySummary: Sendable, Equatable {
  public var stepCount: Int?
  public var sleepMinutes: Int?
  /// Beats a minute, to 0.1.
  public var restingHeartRate: Double?
  public var workoutCount: Int?
  public var workoutMinutes: Int?

  public init(
    stepCount: Int? = nil, sleepMinutes: Int? = nil, restingHeartRate: Double? = nil, workoutCount: Int? = nil,
    workoutMinutes: Int? = nil
  ) {
    self.stepCount = stepCount
    self.sleepMinutes = sleepMinutes
    self.restingHeartRate = restingHeartRate
    self.workoutCount = workoutCount
    self.workoutMinutes = workoutMinutes
  }

  public var isEmpty: Bool { self == DaySummary() }
}
