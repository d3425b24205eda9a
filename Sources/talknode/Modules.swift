import Configuration
import DeviceModule
import NodeKit
import NotifyModule
import System

/// The one list of what this node can do. A module here, and its demonstration, is all it takes to add a capability.
enum Modules {
  static func all(_ settings: Settings) -> [any CapabilityModule] {
    [
      DeviceModule(deviceName: settings.node.displayNameOrDefault, version: Version.number),
      NotifyModule(),
    ]
  }

  static let demonstrations: [any Demonstration] = [DeviceDemonstration(), NotifyDemonstration()]
}
