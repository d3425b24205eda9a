import Configuration
import DeviceModule
import NodeKit
import NotifyModule
import System

/// The one list of what this node can do. A module here, and its demonstration, is all it takes to add a capability.
enum Modules {
  static func all(
    _ settings: Settings, _ services: Services, switches: SwitchStore, environment: Environment
  ) -> [any CapabilityModule] {
    let others: [any CapabilityModule] = [
      NotifyModule(notifier: services.notifier)
    ]
    let device = DeviceModule(
      deviceName: settings.node.displayNameOrDefault, version: Version.number, locale: environment["LANG"],
      home: environment.homeFolder, systemBus: services.systemBus, switches: switches,
      consents: others.flatMap(\.commands).compactMap(\.consent))
    return [device] + others
  }

  static let demonstrations: [any Demonstration] = [DeviceDemonstration(), NotifyDemonstration()]
}

/// What modules share. Nothing of it is opened before it is used.
struct Services: Sendable {
  let loop: EventLoop
  let sessionBus: SharedBus
  let systemBus: SharedBus
  let notifier: Notifier

  init(loop: EventLoop) {
    self.loop = loop
    sessionBus = SharedBus(.session, loop: loop)
    systemBus = SharedBus(.system, loop: loop)
    notifier = Notifier(session: sessionBus)
  }

  func close() async {
    await sessionBus.close()
    await systemBus.close()
  }
}
