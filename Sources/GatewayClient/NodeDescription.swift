import Crypto
import GatewayProtocol
import System

/// What `node.describe` says about this node (protocol §10.9), and what follows from it: whether the command surface is approved, and
/// which commands the gateway keeps from agents.
struct NodeDescription: Sendable, Equatable {
  /// Those the gateway counts as this node's.
  var commands: Set<String>
  /// `approved`, `pending-approval`, `pending-reapproval`, `unapproved`; nil from gateways that don't say.
  var approvalState: String?
  var pendingRequestID: String?
  /// Declared and waiting for approval; nil from gateways that don't say.
  var pendingCommands: Set<String>?
  var isConnected: Bool

  /// Nil when the payload describes another node, or nothing.
  init?(payload: JSON, nodeID: String) {
    guard payload["nodeId"]?.string == nodeID else { return nil }
    commands = Set(payload["commands"]?.strings ?? [])
    approvalState = payload["approvalState"]?.string
    pendingRequestID = payload["pendingRequestId"]?.string.flatMap(ConnectVerdict.validRequestID)
    pendingCommands = payload["pendingDeclaredCommands"]?.strings.map { Set($0) }
    isConnected = payload["connected"]?.bool ?? true
  }

  /// What follows for a node that declares `surface`. `invoked` are commands that agents have called on this node: those are
  /// certainly allowed.
  func judge(_ surface: NodeSurface, invoked: Set<String>) -> (
    state: SurfaceState, withheld: [WithheldCommand], effective: [String]
  ) {
    let declared = surface.commands.sorted()
    let state: SurfaceState =
      switch approvalState {
      case "approved": .approved
      case "pending-approval", "pending-reapproval", "unapproved": .pending
      // A gateway that does not say: nothing at all is effective before the approval (protocol §6.6).
      default: pendingRequestID != nil || (commands.isEmpty && !declared.isEmpty && isConnected) ? .pending : .approved
      }
    var withheld: [WithheldCommand] = []
    for command in declared where !invoked.contains(command) {
      guard let reason = reason(command, state) else { continue }
      withheld.append(WithheldCommand(command: command, reason: reason, remedy: remedy(reason)))
    }
    let names = Set(withheld.map(\.command))
    return (state, withheld, declared.filter { !names.contains($0) })
  }

  private func reason(_ command: String, _ state: SurfaceState) -> WithheldCommand.Reason? {
    if commands.contains(command) { return nil }
    if !isConnected { return .notDeclared }
    let cut: WithheldCommand.Reason = Self.dangerous.contains(command) ? .dangerous : .notAllowlisted
    if state == .pending {
      // Commands outside the allow-list are cut before the approval; gateways that don't name the pending ones leave open which.
      return pendingCommands.map { $0.contains(command) } ?? true ? .notApproved : cut
    }
    return Self.isDefault(command) ? .notApproved : cut
  }

  private func remedy(_ reason: WithheldCommand.Reason) -> String {
    switch reason {
    case .notApproved:
      "On the gateway host: " + (pendingRequestID.map { "openclaw nodes approve \($0)" } ?? "openclaw nodes pending")
    case .notAllowlisted, .dangerous:
      "Add it to gateway.nodes.commands.allow on the gateway host; talknode gateway-config prints the entry."
    case .notDeclared: "It is seen when the node socket is connected again."
    }
  }

  /// Protocol §11.3.
  static let dangerous: Set<String> = [
    "camera.snap", "camera.clip", "camera.ptz.control", "screen.record", "contacts.add", "calendar.add",
    "reminders.add",
    "sms.send", "sms.search", "health.summary",
  ]

  /// What a `linux` node may offer without an entry in the allow-list (protocol §11.2).
  static func isDefault(_ command: String) -> Bool {
    command == "system.notify" || command.hasPrefix("talk.ptt.") || command == "screen.snapshot"
      || command == "computer.act"
      || command == "system.run" || command == "system.which"
  }
}

extension NodeSurface {
  /// Names this surface: another one has another digest.
  var digest: String {
    let json: JSON = [
      "caps": .strings(caps), "commands": .strings(commands), "permissions": .object(permissions.mapValues(JSON.bool)),
    ]
    return hexadecimal(sha256(json.encoded()).prefix(16))
  }
}
