/// Location: where this machine is, from gpsd, from GeoClue2 or from the settings. Nothing here knows commands or gateways.
///
/// What a receiver says becomes a `Fix` only by the judgement in `GpsdReport` and `GeoClueReport`; who waits, and when a fix is an answer, is
/// decided by the value `FixWatch`; `FixSource` performs it over a feed; `Locator` chooses between the sources.
import System

/// Where positions come from.
public enum Provider: String, Sendable, CaseIterable {
  case gpsd, geoclue, fixed

  /// As a person reads it.
  public var name: String {
    switch self {
    case .gpsd: "gpsd"
    case .geoclue: "GeoClue"
    case .fixed: "the fixed position of the settings"
    }
  }
}

/// Which of them are asked.
public enum ProviderChoice: Sendable, Equatable {
  /// A fix of gpsd, else GeoClue, else the fixed position.
  case auto
  case only(Provider)
}

/// A place that does not move, from the settings.
public struct FixedPosition: Sendable, Equatable {
  public var latitude: Double
  public var longitude: Double
  public var accuracyMeters: Double
  public var altitudeMeters: Double?

  /// nil for what is no place on Earth.
  public init?(latitude: Double, longitude: Double, accuracyMeters: Double = 100, altitudeMeters: Double? = nil) {
    guard let place = Plausible.place(latitude, longitude), let accuracy = Plausible.accuracy(accuracyMeters) else {
      return nil
    }
    self.latitude = place.latitude
    self.longitude = place.longitude
    self.accuracyMeters = accuracy
    self.altitudeMeters = altitudeMeters.flatMap(Plausible.altitude)
  }

  /// Always of now, and of no source that could be named.
  public func fix(receivedAt: Duration, receivedMs: Int64) -> Fix {
    Fix(
      latitude: latitude, longitude: longitude, accuracyMeters: accuracyMeters, isAccuracyStated: true,
      altitudeMeters: altitudeMeters, speedMps: nil, headingDeg: nil, timeMs: receivedMs, isTimeFromReceipt: false,
      source: .unknown, satellites: nil, receivedAt: receivedAt)
  }
}

/// How positions are had.
public struct LocationOptions: Sendable, Equatable {
  public var choice = ProviderChoice.auto
  public var gpsd = GpsdAddress()
  public var fixed: FixedPosition?
  /// How long a source is kept open after its last question.
  public var linger: Duration = .seconds(30)
  public init() {}
}

/// One question.
public struct LocationRequest: Sendable, Equatable {
  /// By the monotonic clock.
  public var deadline: Duration
  /// How old the answer may be; nil = present.
  public var maxAge: Duration?
  public var detail: Detail

  public init(deadline: Duration, maxAge: Duration? = nil, detail: Detail = .balanced) {
    self.deadline = deadline
    self.maxAge = maxAge
    self.detail = detail
  }
}

/// An answer, who gave it, and why not another.
public struct Located: Sendable, Equatable {
  public let fix: Fix
  public let provider: Provider
  /// What those said that were asked before.
  public let passedOver: [PassedOver]

  public struct PassedOver: Sendable, Equatable {
    public let provider: Provider
    public let error: LocationError
  }
}
