import Configuration
import Location
import LocationModule
import System

extension Locator {
  /// As the settings want it. Nothing is opened before somebody asks.
  convenience init(_ section: LocationSettings, systemBus: SharedBus) {
    var options = LocationOptions()
    options.choice =
      switch section.providerOrDefault {
      case .auto: .auto
      case .gpsd: .only(.gpsd)
      case .geoclue: .only(.geoclue)
      case .fixed: .only(.fixed)
      }
    options.gpsd = GpsdAddress(
      host: section.gpsdHostOrDefault, port: UInt16(exactly: section.gpsdPortOrDefault) ?? GpsdAddress().port)
    options.linger = .seconds(section.lingerOrDefault)
    options.fixed = section.place.flatMap { place in
      FixedPosition(
        latitude: place.latitude, longitude: place.longitude, accuracyMeters: Double(section.fixedAccuracyOrDefault))
    }
    self.init(options: options, systemBus: systemBus)
  }
}

extension LocationModule.Privacy {
  init(_ section: LocationSettings) { self.init(roundToMeters: Double(section.roundToMetersOrDefault)) }
}
