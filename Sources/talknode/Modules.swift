import Audio
import Camera
import CameraModule
import Configuration
import Conversation
import DeviceModule
import HealthModule
import Location
import LocationModule
import NodeKit
import NotifyModule
import System
import TalkModule

/// The one list of what this node can do. A module here, and its demonstration, is all it takes to add a capability.
enum Modules {
  static func all(_ settings: Settings, _ services: Services) -> [any CapabilityModule] {
    let others: [any CapabilityModule] = [
      NotifyModule(notifier: services.notifier), TalkModule(talk: services.talk), services.location,
      CameraModule(cameras: services.cameras, sound: services.sound, clipWriter: ClipWriters.maker(services.loop)),
      HealthModule(desk: services.health),
    ]
    let device = DeviceModule(
      deviceName: settings.node.displayNameOrDefault, version: Version.number, locale: services.environment["LANG"],
      home: services.environment.homeFolder, systemBus: services.systemBus, switches: services.switches,
      consents: others.flatMap(\.commands).compactMap(\.consent))
    return [device] + others
  }

  static let demonstrations: [any Demonstration] = [
    DeviceDemonstration(), NotifyDemonstration(), TalkDemonstration(), LocationDemonstration(),
    CameraDemonstration(), HealthDemonstration(),
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
  /// The machine's one microphone and speaker, which talking and clips share.
  let sound: SoundSystem
  let talk: Talk
  let locator: Locator
  let location: LocationModule
  let cameras: Cameras
  let health: HealthDesk

  init(_ instance: Instance, settings: Settings, environment: Environment, loop: EventLoop) {
    self.loop = loop
    self.environment = environment
    switches = SwitchStore(path: instance.switches)
    sessionBus = SharedBus(.session, loop: loop)
    systemBus = SharedBus(.system, loop: loop)
    notifier = Notifier(session: sessionBus)
    sound = SoundSystem(AudioSettings(settings.audio))
    talk = Talk.made(settings, instance, link, sound: sound, notifier: notifier, loop: loop)
    cameras = Cameras(settings: CameraSettings(settings), loop: loop)
    locator = Locator(settings.location, systemBus: systemBus)
    location = LocationModule(
      locator: locator, privacy: LocationModule.Privacy(settings.location), switches: switches,
      sessions: LoginSessions(systemBus: systemBus))
    health = HealthDesk(.init(settings.health, instance, environment))
  }

  func close() async {
    await locator.close()
    await cameras.close()
    await sessionBus.close()
    await systemBus.close()
  }
}
