import Configuration
import HealthModule
import NodeKit
import System

extension HealthDesk.Options {
  /// As the settings say.
  init(_ settings: HealthSection, _ instance: Instance, _ environment: Environment, keepsIndex: Bool = true) {
    let home = environment.homeFolder
    let paths = settings.filesOrDefault.map { $0.hasPrefix("~/") ? home + $0.dropFirst() : $0 }
    let name = settings.timeZoneOrDefault
    let variable = environment.variables["TZ"]
    self.init(
      paths: paths.isEmpty ? [environment.dataFolder + "/health"] : paths,
      zone: { Self.zone(name) ?? .machine(variable: variable) },
      index: keepsIndex ? instance.healthIndex : nil, scratch: instance.unpacked,
      // From its file: another process may turn it.
      mayKeep: { [path = instance.switches] in SwitchStore(path: path).isEnabled(HealthModule.consent) },
      priority: settings.sourcesOrDefault,
      estimatesResting: settings.estimateRestingOrDefault)
  }

  /// The configured zone; nil when none is, or the system does not know it.
  private static func zone(_ name: String) -> ZoneRules? {
    if name.isEmpty { return nil }
    if let zone = ZoneRules(named: name) { return zone }
    Log.once("health-zone", .warning, "This system knows no time zone \(name): [health] time_zone is not followed.")
    return nil
  }
}
