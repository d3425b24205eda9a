import System

/// One report of a position (`TPV`) as libgps hands it over: not judged yet. What a receiver did not say is NaN.
///
/// libgps takes `null`, a text in place of a number and half a line without a word, and passes NaN, infinity and coordinates of no
/// place on. So nothing of it is believed before `fix` has looked at it.
public struct GpsdReport: Sendable, Equatable {
  /// 0 and 1: no fix; 2: without altitude; 3: with.
  public var mode: Int
  /// As it stands in the record, when the report had a time at all.
  public var time: (seconds: Int64, nanoseconds: Int64)?
  public var latitude = Double.nan
  public var longitude = Double.nan
  /// Metres above the sea, and above the ellipsoid.
  public var altitudeMSL = Double.nan
  public var altitudeHAE = Double.nan
  /// Metres a second.
  public var speed = Double.nan
  /// Degrees from north.
  public var track = Double.nan
  /// The estimated error: horizontal, eastward, northward; metres.
  public var eph = Double.nan
  public var epx = Double.nan
  public var epy = Double.nan

  public init(mode: Int) { self.mode = mode }

  public static func == (left: GpsdReport, right: GpsdReport) -> Bool {
    left.mode == right.mode && left.time?.seconds == right.time?.seconds
      && left.time?.nanoseconds == right.time?.nanoseconds && left.numbers == right.numbers
  }
  private var numbers: [UInt64] {
    [latitude, longitude, altitudeMSL, altitudeHAE, speed, track, eph, epx, epy].map(\.bitPattern)
  }

  /// What is stated for a receiver that gives no estimate: what a poor one reaches under a bad sky, in metres.
  static let cautious3D = 100.0
  static let cautious2D = 500.0

  /// The position in it, or nil when there is none: decided by the mode, never by the coordinates, for 0° 0' is a place, and an old place may
  /// stand in a report without a fix. `receivedMs` is the wall clock at `receivedAt`.
  public func fix(receivedAt: Duration, receivedMs: Int64, satellites: Fix.Satellites? = nil) -> Fix? {
    guard mode == 2 || mode == 3, let place = Plausible.place(latitude, longitude) else { return nil }
    let speed = Plausible.speed(speed)
    let stated = Plausible.accuracy(eph) ?? bothWays()
    let told = time.flatMap { Plausible.milliseconds(seconds: $0.seconds, nanoseconds: $0.nanoseconds) }
    let time = Plausible.time(told, receivedMs: receivedMs)
    return Fix(
      latitude: place.latitude, longitude: place.longitude,
      accuracyMeters: stated ?? (mode == 3 ? Self.cautious3D : Self.cautious2D), isAccuracyStated: stated != nil,
      altitudeMeters: mode == 3 ? Plausible.altitude(altitudeMSL) ?? Plausible.altitude(altitudeHAE) : nil,
      speedMps: speed, headingDeg: Plausible.heading(track, speed: speed), timeMs: time.timeMs,
      isTimeFromReceipt: time.isFromReceipt, source: .gps, satellites: satellites, receivedAt: receivedAt)
  }

  private func bothWays() -> Double? {
    guard let east = Plausible.accuracy(epx), let north = Plausible.accuracy(epy) else { return nil }
    return Plausible.accuracy((east * east + north * north).squareRoot())
  }
}
