/// `[location]`
public struct LocationSettings: SettingsSection {
  public static let name = "location"
  public static let summary = "Where this machine is: who is asked, and how well agents may know it."

  public enum Provider: Sendable, Equatable { case auto, gpsd, geoclue, fixed }

  public var provider: Provider?
  public var providerOrDefault: Provider { provider ?? .auto }

  public var gpsdHost: String?
  public var gpsdHostOrDefault: String { gpsdHost ?? "localhost" }
  public var gpsdPort: Int?
  public var gpsdPortOrDefault: Int { gpsdPort ?? 2947 }

  /// In seconds.
  public var linger: Int?
  public var lingerOrDefault: Int { linger ?? 30 }

  /// `latitude, longitude` in degrees; empty = none.
  public var fixed: String?
  public var fixedOrDefault: String { fixed ?? "" }
  public var fixedAccuracy: Int?
  public var fixedAccuracyOrDefault: Int { fixedAccuracy ?? 100 }

  public var roundToMeters: Int?
  public var roundToMetersOrDefault: Int { roundToMeters ?? 0 }

  public static let settings: [Setting<Self>] = [
    .choice(
      "provider", \.provider, default: \.providerOrDefault,
      of: ["auto": .auto, "gpsd": .gpsd, "geoclue": .geoclue, "fixed": .fixed],
      """
      Who is asked. `auto`: a fix of gpsd, else GeoClue, else the fixed position below. Any other word means that one and \
      nobody else. GeoClue may look the names of Wi-Fi networks up at a service in the internet.
      """),
    .text(
      "gpsd_host", \.gpsdHost, default: \.gpsdHostOrDefault, length: 1...253,
      "Where gpsd listens: a name or an address."),
    .integer("gpsd_port", \.gpsdPort, default: \.gpsdPortOrDefault, range: 1...65535, unit: "", "Its TCP port."),
    .integer(
      "linger", \.linger, default: \.lingerOrDefault, range: 0...3600, unit: "seconds",
      "How long a source is kept open after the last question, so that the next answer is there at once. A receiver that is kept open uses power."
    ),
    .text(
      "fixed", \.fixed, default: \.fixedOrDefault, length: 0...64, example: "52.3700, 4.8950",
      "Where a machine stands that does not move: latitude and longitude in degrees."),
    .integer(
      "fixed_accuracy", \.fixedAccuracy, default: \.fixedAccuracyOrDefault, range: 1...1_000_000, unit: "metres",
      "How well that is known."),
    .integer(
      "round_to_meters", \.roundToMeters, default: \.roundToMetersOrDefault, range: 0...100_000, unit: "metres",
      """
      What agents are told is rounded to a grid with fields of this side, and its accuracy says so. 0: it is not. With \
      `talknode capabilities disable location.precise` it is 1000 at least.
      """),
  ]

  /// The fixed position; nil when none is set, or what is set is no place on Earth.
  public var place: (latitude: Double, longitude: Double)? {
    let parts = fixedOrDefault.split(separator: ",", omittingEmptySubsequences: false)
    guard parts.count == 2, let latitude = Self.number(parts[0]), let longitude = Self.number(parts[1]),
      (-90...90).contains(latitude), (-180...180).contains(longitude)
    else { return nil }
    return (latitude, longitude)
  }

  private static func number(_ text: Substring) -> Double? {
    var text = text
    while text.first == " " { text.removeFirst() }
    while text.last == " " { text.removeLast() }
    return Double(text)
  }

  public var contradiction: (setting: String, sentence: String)? {
    if !fixedOrDefault.isEmpty && place == nil {
      return ("fixed", "must be latitude and longitude in degrees, for example \"52.3700, 4.8950\".")
    }
    return providerOrDefault == .fixed && place == nil
      ? ("provider", "is \"fixed\", and location.fixed is not set.") : nil
  }

  public init() {}
}
