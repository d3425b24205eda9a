import GatewayProtocol
import NodeKit

/// `device.permissions` (node-commands §9.3): what agents are permitted here. Granted = a person has switched it on, and the system lets
/// this program at the hardware. Which a phone knows and Linux has not (contacts, SMS, …) is left out.
struct PermissionFacts: Sendable {
  let machine: MachineFiles
  let switches: SwitchStore?
  let consents: [Consent]

  /// The names that gateways know, by switch.
  private static let names = ["camera": "camera", "talk": "microphone", "notify": "notifications"]

  func json() async -> JSON {
    var permissions: [String: JSON] = [:]
    for consent in consents {
      let isOn = switches?.isEnabled(consent) ?? consent.isOnByDefault
      let name = Self.names[consent.name] ?? consent.name
      permissions[name] = [
        "status": isOn && isLetIn(name) ? "granted" : "denied",
        // No invoke ever asks a person here: switches are turned with the command line.
        "promptable": false,
      ]
    }
    return ["permissions": .object(permissions)]
  }

  /// Whether the system gives the hardware to this user. No hardware at all is no refusal.
  private func isLetIn(_ name: String) -> Bool {
    let nodes: [String] =
      switch name {
      case "camera": machine.names(in: "dev").filter { $0.hasPrefix("video") && $0.dropFirst(5).allSatisfy(\.isNumber) }
      case "microphone":
        machine.names(in: "dev/snd").filter { $0.hasPrefix("pcm") && $0.hasSuffix("c") }.map { "snd/\($0)" }
      default: []
      }
    return nodes.isEmpty || nodes.contains { machine.isAccessible("dev/\($0)") }
  }
}
