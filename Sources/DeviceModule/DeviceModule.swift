/// DeviceModule: this machine's own facts for agents: `device.info`, `device.status`, `device.health`, `device.permissions`
/// (node-commands §9). Read when asked, from sysfs, /proc, UPower and NetworkManager; a fact the machine does not have is left out.
import GatewayProtocol
import NodeKit
import System

public struct DeviceModule: CapabilityModule {
  public static let consent = Consent(
    name: "device", allows: "Agents may read this machine's name, model, battery, network, storage and memory.",
    refusalCode: "DEVICE_DISABLED", isOnByDefault: true)

  public let capability: Capability = "device"
  public let commands = [
    Command(
      "device.info", summary: "Name, model and system of this machine.", gatewayDefault: .needsAllow,
      consent: Self.consent,
      limit: .seconds(10)),
    Command(
      "device.status", summary: "Battery, heat, storage, network and up-time.", gatewayDefault: .needsAllow,
      consent: Self.consent, limit: .seconds(10)),
    Command(
      "device.health", summary: "Memory pressure, battery details and power mode.", gatewayDefault: .needsAllow,
      consent: Self.consent, limit: .seconds(10)),
    Command(
      "device.permissions", summary: "What agents are permitted on this machine.", gatewayDefault: .needsAllow,
      consent: Self.consent, limit: .seconds(10)),
  ]

  let identity: DeviceIdentityFacts
  private let machine: MachineFiles
  private let home: String
  private let services: DesktopServices?
  private let permissions: PermissionFacts
  /// Reads the files of `status` and `health`: some of sysfs ask firmware and take long.
  private let files = OwnThreadReader<MachineState>(name: "device facts")
  /// Asks the file system of `home`, which may be a network's and not answer at all.
  private let storage = OwnThreadReader<StorageFacts?>(name: "device storage")

  /// - Parameters:
  ///   - deviceName: what a person calls this machine.
  ///   - version: the program's own; `build` likewise.
  ///   - locale: the user's, as in LANG; nil = the machine's.
  ///   - home: the folder whose file system is reported.
  ///   - root: where the machine's files lie; another than `/` for tests.
  ///   - systemBus: for UPower, NetworkManager and the power profile; nil = files only.
  ///   - switches: which of `consents` are given, for `device.permissions`; nil = each has its default.
  ///   - consents: of the other modules.
  public init(
    deviceName: String, version: String, build: String = "0", locale: String? = nil, home: String = "/",
    root: String = "/",
    systemBus: SharedBus? = nil, switches: SwitchStore? = nil, consents: [Consent] = []
  ) {
    machine = MachineFiles(root: root)
    identity = DeviceIdentityFacts(
      deviceName: deviceName, version: version, build: build, locale: locale, machine: machine)
    self.home = home
    services = systemBus.map { DesktopServices(systemBus: $0) }
    permissions = PermissionFacts(machine: machine, switches: switches, consents: consents)
  }

  /// Takes over another name.
  public func rename(_ deviceName: String) { identity.rename(deviceName) }

  /// What this machine is, for example `Raspberry Pi 4 Model B Rev 1.4`; at least its processor family.
  public var modelIdentifier: String { identity.model }
  /// The user's language, for example `de-AT`.
  public var languageTag: String { identity.languageTag }

  public func availability() async -> Availability { .ready }

  public func handle(_ invocation: Invocation) async throws(CommandError) -> Payload {
    // None of the commands has params; whatever comes as such is ignored (node-commands §1.2).
    switch invocation.command {
    case "device.info": return .encoded(identity.encoded)
    case "device.status": return .json(try await status())
    case "device.health": return .json(try await health())
    case "device.permissions": return .json(await permissions.json())
    default: throw .invalidRequest("unknown command")
    }
  }

  private func status() async throws(CommandError) -> JSON {
    async let desktop = services?.read() ?? DesktopFacts()
    async let disk = storage.read(within: .seconds(1)) { [home, machine] in StorageFacts(path: machine.path(home)) }
    let state = try await state()
    return await .object(present: [
      "battery": state.power.merged(with: desktop).statusJSON,
      "thermal": ["state": .string(state.heat.rawValue)],
      "storage": disk??.json,
      "network": state.network.merged(with: desktop.network).json,
      "uptimeSeconds": state.uptimeSeconds.map(JSON.double),
    ])
  }

  private func health() async throws(CommandError) -> JSON {
    async let desktop = services?.read() ?? DesktopFacts()
    let state = try await state()
    let power = await state.power.merged(with: desktop)
    return .object(present: [
      "memory": state.memory.json,
      "battery": power.healthJSON,
      // Doze is Android's; no Linux has it.
      "power": ["dozeModeEnabled": false, "lowPowerModeEnabled": .bool(power.isSaving)],
      "system": [:],
    ])
  }

  private func state() async throws(CommandError) -> MachineState {
    guard let state = await files.read(within: .seconds(5), { [machine] in MachineState(machine) }) else {
      throw .unavailable("the machine's facts can't be read: an earlier reading has not ended", retryAfterMs: 5000)
    }
    return state
  }
}

/// What `status` and `health` tell of files.
struct MachineState: Sendable {
  let power: PowerFacts
  let heat: Heat
  let network: NetworkFacts
  let memory: MemoryFacts
  let uptimeSeconds: Double?

  init(_ machine: MachineFiles) {
    power = PowerFacts(machine)
    heat = Heat(machine)
    network = NetworkFacts(machine)
    memory = MemoryFacts(machine)
    uptimeSeconds = machine.text("proc/uptime")?.split(separator: " ").first.flatMap { Double($0) }
  }
}
