import Configuration
import GatewayProtocol
import NodeKit
import System

enum CapabilitiesCommand {
  static let list = Verb(
    "capabilities list", "what agents may ask of this machine, and what is switched off", options: [.json], run: runList
  )
  static let enable = Verb(
    "capabilities enable", "let agents use a capability", operands: [name], options: [.json], run: runEnable)
  static let disable = Verb(
    "capabilities disable", "take a capability back", operands: [name], options: [.json], run: runDisable)

  private static let name = Operand("NAME", "as `talknode capabilities` shows it")

  private static func runList(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let loop = context.loop()
    defer { loop.stop() }
    let rows = context.capabilities(SwitchStore(path: context.instance.switches), loop)
    if context.wantsJSON {
      terminal.print(["capabilities": .array(rows.map(\.json))])
    } else {
      terminal.print(
        table: rows.map { row in
          [row.name, row.isEnabled ? "on" : "off", row.commands.joined(separator: ", ")]
        })
    }
    return .ok
  }

  private static func runEnable(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    try await turn(arguments, terminal, on: true)
  }

  private static func runDisable(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    try await turn(arguments, terminal, on: false)
  }

  private static func turn(_ arguments: Arguments, _ terminal: Terminal, on: Bool) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let switches = SwitchStore(path: context.instance.switches)
    let loop = context.loop()
    defer { loop.stop() }
    let before = context.capabilities(switches, loop)
    let row = try find(arguments[0]!, in: before)
    var status: NodeStatus?
    if let client = try await context.daemon(loop) {
      status = NodeStatus(json: try await client.call(.turn(capability: row.name, on: on)))
    } else {
      try context.instance.makeFolder()
      let services = context.services(loop)
      let modules = Modules.all(Settings(), services)
      let failure: SwitchStore.Failure?
      do throws(SwitchStore.Failure) {
        _ = try await modules.turn(row.name, on: on, in: switches)
        failure = nil
      } catch {
        failure = error
      }
      if !on { for module in modules where module.has(switch: row.name) { await module.forget() } }
      await services.close()
      if let failure { throw Failure("STATE_UNUSABLE", failure.summary, remedy: failure.remedy, exit: .ioError) }
    }
    terminal.note(on ? "\(row.name) is on. \(row.allows)" : "\(row.name) is off.")
    switches.reload()
    let after = context.capabilities(switches, loop)
    for (old, new) in zip(before, after) where old.isEnabled != new.isEnabled && new.name != row.name {
      terminal.note(new.isEnabled ? "\(new.name) is on, too. \(new.allows)" : "\(new.name) is off, too.")
    }
    for line in consequences(status, row, on: on) { terminal.note(line) }
    if context.wantsJSON {
      terminal.print(
        .object(present: [
          "name": .string(row.name), "enabled": .bool(on),
          "missing": status?.link.map { .array($0.missing.map(\.json)) },
          "withheld": status?.link.map { .array($0.withheld.map(\.json)) },
        ]))
    }
    return .ok
  }

  /// What has to happen at the gateway before agents can use it.
  static func consequences(_ status: NodeStatus?, _ row: CapabilityState, on: Bool) -> [String] {
    guard let status else {
      return ["talknode is not running; the gateway hears of it at the next start: talknode run"]
    }
    guard let link = status.link else { return ["No gateway is paired yet: talknode pair CODE"] }
    var lines: [String] = []
    for approval in link.missing {
      lines.append("The gateway waits for \(approval.what); on the gateway host, run:")
      lines.append("    \(approval.command)")
    }
    for command in link.withheld where on && row.commands.contains(command.command) && command.reason != .notApproved {
      lines.append("The gateway withholds \(command.command): \(command.remedy)")
    }
    if !link.node.isConnected { lines.append("\(status.sentence); the gateway hears of it when the connection is up.") }
    return lines
  }

  private static func find(_ name: String, in rows: [CapabilityState]) throws(Failure) -> CapabilityState {
    guard let row = rows.first(where: { $0.name == name }) ?? rows.first(where: { $0.commands.contains(name) }) else {
      let near = nearest(to: name, among: rows.map(\.name))
      throw Failure(
        "UNKNOWN_CAPABILITY", "There is no capability \(name).",
        remedy: near.map { "Did you mean \($0)?" } ?? "talknode capabilities list", exit: .data)
    }
    if !row.isSwitchable {
      throw Failure("NO_SWITCH", "\(row.name) reveals nobody and can't be switched off.", exit: .data)
    }
    return row
  }
}

extension Context {
  /// What the modules of this state folder share; to be closed.
  func services(_ loop: EventLoop, settings: Settings = Settings()) -> Services {
    Services(instance, settings: settings, environment: environment, loop: loop)
  }

  /// What there is to switch.
  func capabilities(_ switches: SwitchStore, _ loop: EventLoop) -> [CapabilityState] {
    CapabilityState.all(Modules.all(Settings(), services(loop)), switches)
  }
}
