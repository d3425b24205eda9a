import System

/// A position that was judged fit to be told: every number in it is finite and possible, and what a receiver did not say, or said wrongly,
/// is absent.
public struct Fix: Sendable, Equatable {
  /// Where it comes from, in the words of the wire (node-commands §5). What is not known is `unknown`.
  public enum Source: String, Sendable { case gps, wifi, cell, unknown }

  /// Satellites that a receiver uses, of those it sees.
  public struct Satellites: Sendable, Equatable {
    public let used: Int
    public let visible: Int
    public init(used: Int, visible: Int) {
      self.used = used
      self.visible = visible
    }
  }

  /// Degrees, −90…90.
  public var latitude: Double
  /// Degrees, −180…180.
  public var longitude: Double
  /// How far off it may be, horizontally, in metres; over 0.
  public var accuracyMeters: Double
  /// Whether the receiver gave that estimate. When it did not, the figure is a cautious one of ours.
  public var isAccuracyStated: Bool
  /// Metres above the sea; above the ellipsoid where a receiver knows no better.
  public var altitudeMeters: Double?
  /// Metres a second.
  public var speedMps: Double?
  /// Degrees from north, 0..<360; only while moving.
  public var headingDeg: Double?
  /// When it was taken, in milliseconds since 1970.
  public var timeMs: Int64
  /// The receiver told no time, or an absurd one: `timeMs` is when its report came in.
  public var isTimeFromReceipt: Bool
  public var source: Source
  public var satellites: Satellites?
  /// When it came in, by the monotonic clock.
  public var receivedAt: Duration
  /// How old it was then already, as far as it told: something kept by a service.
  public var ageAtReceipt: Duration = .zero

  /// When it was taken, by the monotonic clock.
  package var measuredAt: Duration { receivedAt - ageAtReceipt }

  /// How old it is.
  public func age(at now: Duration) -> Duration { max(.zero, now - measuredAt) }

  /// Good enough to find somebody's door (node-commands §5: `accuracyMeters` ≤ 100). Never by a figure of ours.
  public var isPrecise: Bool { isAccuracyStated && accuracyMeters <= 100 }
}

// MARK: Judging what a receiver says

/// What the numbers of a receiver or a service are worth, field by field.
enum Plausible {
  /// A receiver that moves slower than this has no course, only noise. Metres a second.
  static let walking = 0.5
  /// How far a live fix's time may be from this machine's clock before it is not believed: a week roll-over (1024 weeks), or a machine
  /// without a clock of its own.
  static let clockTolerance: Int64 = 10_000

  /// Coordinates; nil when either is no place on Earth.
  static func place(_ latitude: Double, _ longitude: Double) -> (latitude: Double, longitude: Double)? {
    // A NaN is in no range.
    guard (-90...90).contains(latitude), (-180...180).contains(longitude) else { return nil }
    return (latitude, longitude)
  }

  /// From below the deepest trench to where the air ends, in metres.
  static func altitude(_ metres: Double) -> Double? { (-12_000...100_000).contains(metres) ? metres : nil }

  /// Up to twice what a civil receiver may show, in metres a second.
  static func speed(_ value: Double) -> Double? { (0...1_100).contains(value) ? value : nil }

  /// A course, for something that moves.
  static func heading(_ degrees: Double, speed: Double?) -> Double? {
    guard let speed, speed >= walking, (0...360).contains(degrees) else { return nil }
    return degrees == 360 ? 0 : degrees
  }

  /// An estimate of the error in metres; nil when there is none. One that is larger than the Earth says no more than that.
  static func accuracy(_ metres: Double) -> Double? {
    guard metres.isFinite, metres > 0 else { return nil }
    return min(max(metres, 0.01), 20_037_508)
  }

  /// A live fix's time: its own, when it is near this machine's clock, else that of its receipt.
  static func time(_ timeMs: Int64?, receivedMs: Int64) -> (timeMs: Int64, isFromReceipt: Bool) {
    guard let timeMs, timeMs.distance(to: receivedMs).magnitude <= UInt(clockTolerance) else {
      return (receivedMs, true)
    }
    return (timeMs, false)
  }

  /// Milliseconds since 1970 of whole seconds and a fraction; nil for what is no date of this age, and outside of arithmetic.
  static func milliseconds(seconds: Int64, nanoseconds: Int64) -> Int64? {
    guard (0...253_402_300_799).contains(seconds), (0..<1_000_000_000).contains(nanoseconds) else { return nil }
    return seconds * 1000 + nanoseconds / 1_000_000
  }
}
