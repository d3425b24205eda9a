import Configuration
import Conversation
import DeviceModule
import HealthModule
import NodeKit
import NotifyModule
import System
import TalkModule

/// The one list of what this node can do. A module here, and its demonstration, is all it takes to add a capability.
enum Modules {
  static func all(_ settings: Settings, _ services: Services) -> [any CapabilityModule] {
    let others: [any CapabilityModule] = [
      NotifyModule(notifier: services.notifier), TalkModule(talk: services.talk),
      HealthModule(desk: services.health),
    ]
    let device = DeviceModule(
      deviceName: settings.node.displayNameOrDefault, version: Version.number, locale: services.environment["LANG"],
      home: services.environment.homeFolder, systemBus: services.systemBus, switches: services.switches,
      consents: others.flatMap(\.commands).compactMap(\.consent))
    return [device] + others
  }

  static let demonstrations: [any Demonstration] = [
    DeviceDemonstration(), NotifyDemonstration(), TalkDemonstration(), HealthDemonstration(),
  ]
}

/// What modules share. Nothing of it is opened before it is used.
struct Services: Sendable {
  let loop: EventLoop
  let switches: SwitchStore
  let environment: Environment
  let sessionBus: SharedBus
  let systemBus: SharedBus
  let notifier: Notifier
  let link = ActiveLink()
  let talk: Talk
  let health: HealthDesk

  init(_ instance: Instance, settings: Settings, environment: Environment, loop: EventLoop) {
    self.loop = loop
    self.environment = environment
    switches = SwitchStore(path: instance.switches)
    sessionBus = SharedBus(.session, loop: loop)
    systemBus = SharedBus(.system, loop: loop)
    notifier = Notifier(session: sessionBus)
    health = HealthDesk(.init(settings.health, instance, environment))
    talk = Talk.made(settings, instance, link, notifier: notifier, loop: loop)
  }

  func close() async {
    await sessionBus.close()
    await systemBus.close()
  }
}
