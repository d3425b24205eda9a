import System

/// A location of GeoClue2 as its properties tell it: not judged yet.
package struct GeoClueReport: Sendable, Equatable {
  var latitude: Double
  var longitude: Double
  /// Metres; GeoClue writes 0 when the source gave none.
  var accuracy: Double
  /// Metres; the lowest Double when it is not known.
  var altitude: Double
  /// Metres a second; −1 when it is not known.
  var speed: Double
  /// Degrees; −1 when it is not known.
  var heading: Double
  /// In words, by some of its sources.
  var description: String
  /// Since 1970; whole seconds as a rule.
  var seconds: UInt64
  var microseconds: UInt64

  /// From `org.freedesktop.GeoClue2.Location`. nil when coordinates are missing.
  package init?(_ properties: [String: DBusValue]) {
    guard let latitude = properties["Latitude"]?.double, let longitude = properties["Longitude"]?.double else {
      return nil
    }
    self.latitude = latitude
    self.longitude = longitude
    accuracy = properties["Accuracy"]?.double ?? 0
    altitude = properties["Altitude"]?.double ?? -.greatestFiniteMagnitude
    speed = properties["Speed"]?.double ?? -1
    heading = properties["Heading"]?.double ?? -1
    description = properties["Description"]?.text ?? ""
    let stamp = properties["Timestamp"]?.fields ?? []
    seconds = stamp.first?.int.flatMap { UInt64(exactly: $0) } ?? 0
    microseconds = stamp.dropFirst().first?.int.flatMap { UInt64(exactly: $0) } ?? 0
  }

  /// What is stated for a source without an estimate, in metres. Of GeoClue's sources only satellite receivers know an altitude.
  static let cautiousReceiver = 100.0
  static let cautiousOther = 5_000.0

  /// The position in it. GeoClue hands over what it has kept, too, so an old time is the truth about an old position, and only one in the
  /// future, or none, is not believed.
  package func fix(receivedAt: Duration, receivedMs: Int64) -> Fix? {
    guard let place = Plausible.place(latitude, longitude) else { return nil }
    let altitude = Plausible.altitude(altitude)
    let speed = Plausible.speed(speed)
    let stated = Plausible.accuracy(accuracy)
    let told = Int64(exactly: seconds).flatMap { seconds in
      Int64(exactly: min(microseconds, 999_999)).flatMap {
        Plausible.milliseconds(seconds: seconds, nanoseconds: $0 * 1000)
      }
    }
    let known = told.flatMap { $0 > 0 && $0 <= receivedMs + Plausible.clockTolerance ? $0 : nil }
    return Fix(
      latitude: place.latitude, longitude: place.longitude,
      accuracyMeters: stated ?? (altitude == nil ? Self.cautiousOther : Self.cautiousReceiver),
      isAccuracyStated: stated != nil, altitudeMeters: altitude, speedMps: speed,
      headingDeg: Plausible.heading(heading, speed: speed), timeMs: known ?? receivedMs,
      isTimeFromReceipt: known == nil,
      source: source, satellites: nil, receivedAt: receivedAt,
      ageAtReceipt: known.map { .milliseconds(max(0, receivedMs - $0)) } ?? .zero)
  }

  /// Only what it says itself: the description's first word.
  private var source: Fix.Source {
    switch description.split(separator: " ").first?.lowercased() {
    case "gps", "gnss": .gps
    case "wifi", "wi-fi": .wifi
    case "3g", "3gpp", "cdma", "gsm", "cell": .cell
    default: .unknown
    }
  }
}
