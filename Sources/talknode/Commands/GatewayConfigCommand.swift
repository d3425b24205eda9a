import Configuration
import GatewayProtocol
import NodeKit
import System

enum GatewayConfigCommand {
  private static let legacy = Option("legacy", "the key that older gateways know")

  static let verb = Verb(
    "gateway-config", "the entry that the gateway's configuration needs for what is switched on",
    options: [legacy, .json],
    notes: [
      """
      A gateway lets agents call few commands of a Linux node by itself; the others have to stand in its \
      gateway.nodes.commands.allow. Merge the printed object into the gateway's configuration, restart the gateway, and let \
      this node connect anew. Older gateways know the list as gateway.nodes.allowCommands: --legacy.
      """
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let loop = context.loop()
    defer { loop.stop() }
    let modules = Modules.all(Settings(), context.services(loop))
    let commands = needed(modules, SwitchStore(path: context.instance.switches))
    terminal.print(entry(commands, isLegacy: arguments.has(legacy)))
    let dangerous = modules.flatMap(\.commands).filter { $0.gatewayDefault == .dangerous && commands.contains($0.name) }
    if !dangerous.isEmpty {
      terminal.note(
        "The gateway counts as dangerous, because it reveals a person: \(dangerous.map(\.name).joined(separator: ", "))"
      )
    }
    return .ok
  }

  /// The commands that are on and not allowed by a gateway's own defaults, sorted.
  static func needed(_ modules: [any CapabilityModule], _ switches: SwitchStore) -> [String] {
    let declared = Set(modules.surface(under: switches).commands)
    return modules.flatMap(\.commands).filter { $0.gatewayDefault != .allowed && declared.contains($0.name) }.map(
      \.name
    )
    .sorted()
  }

  static func entry(_ commands: [String], isLegacy: Bool) -> JSON {
    let nodes: JSON =
      isLegacy ? ["allowCommands": .strings(commands)] : ["commands": ["allow": .strings(commands)]]
    return ["gateway": ["nodes": nodes]]
  }
}
