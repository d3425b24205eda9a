import Conversation
import GatewayClient
import GatewayProtocol
import NodeKit
import Triggers

/// What `talknode status` shows. Never a token, never what was said.
struct NodeStatus: Sendable, Equatable {
  var version: String
  var pid: Int32
  /// Milliseconds since 1970.
  var startedAtMs: Int64
  /// The state folder.
  var state: String
  var deviceID: String
  var displayName: String
  /// nil before the first pairing.
  var link: LinkStatus?
  /// What push-to-talk is doing; never what is said.
  var talk = TalkNotice.Phase.idle
  /// The key and the shortcut that start a capture, those that the settings name.
  var triggers: [TriggerState] = []
  var capabilities: [CapabilityState]

  /// Both sockets are up and all three approvals given.
  var isReady: Bool { link?.isComplete ?? false }

  /// One line, for systemd and for bars.
  var sentence: String {
    if talk != .idle { return talk.rawValue }
    guard let link else { return "not paired with a gateway" }
    if link.isComplete { return "ready at \(link.name)" }
    if let approval = link.missing.first { return "waiting at \(link.name) for \(approval.what)" }
    switch link.node {
    case .idle, .connecting: return "connecting to \(link.name)"
    case .waitingForApproval: return "waiting at \(link.name) for an approval"
    case .backingOff(_, let reason): return "not connected to \(link.name): \(reason)"
    case .stopped(_, let summary, _): return "stopped: \(summary)"
    case .connected: return "connected to \(link.name), without the operator connection"
    }
  }

  /// How what is said reaches the agent now.
  enum TalkPath: String, Sendable {
    /// By the operator connection: chat, the gateway's recogniser and its voice.
    case full
    /// By the node connection alone: words go there, and this machine recognises and speaks.
    case reduced
    /// Not at all: what is said is kept.
    case none
  }

  var talkPath: TalkPath {
    if link?.operator.isConnected == true { return .full }
    return link?.node.isConnected == true ? .reduced : .none
  }

  /// One word, for a bar's colours: what a capture is doing, else `ready`, `waiting` for an approval, or `offline`.
  var word: String {
    if talk != .idle { return talk.rawValue }
    if isReady { return "ready" }
    return link.map { $0.node.isConnected || !$0.missing.isEmpty } ?? false ? "waiting" : "offline"
  }

  /// Keys that stay. `text` and `class` are what waybar and others show.
  var json: JSON {
    .object(present: [
      "version": .string(version), "pid": .int(Int64(pid)), "startedAtMs": .int(startedAtMs), "state": .string(state),
      "deviceId": .string(deviceID), "displayName": .string(displayName), "ready": .bool(isReady),
      "summary": .string(sentence), "text": .string(sentence), "class": .string(word), "talk": .string(talk.rawValue),
      "talkPath": .string(talkPath.rawValue), "link": link?.json, "triggers": .array(triggers.map(\.json)),
      "capabilities": .array(capabilities.map(\.json)),
    ])
  }

  /// Reads what `json` writes; nil when it is something else.
  init?(json: JSON) {
    guard let pid = json["pid"]?.int.flatMap({ Int32(exactly: $0) }), let deviceID = json["deviceId"]?.string else {
      return nil
    }
    self.init(
      version: json["version"]?.string ?? "", pid: pid, startedAtMs: json["startedAtMs"]?.int ?? 0,
      state: json["state"]?.string ?? "", deviceID: deviceID, displayName: json["displayName"]?.string ?? "",
      link: json["link"].flatMap(LinkStatus.init(json:)),
      talk: json["talk"]?.string.flatMap(TalkNotice.Phase.init(rawValue:)) ?? .idle,
      triggers: (json["triggers"]?.array ?? []).compactMap(TriggerState.init(json:)),
      capabilities: (json["capabilities"]?.array ?? []).compactMap(CapabilityState.init(json:)))
  }

  init(
    version: String, pid: Int32, startedAtMs: Int64, state: String, deviceID: String, displayName: String,
    link: LinkStatus?, talk: TalkNotice.Phase = .idle, triggers: [TriggerState] = [], capabilities: [CapabilityState]
  ) {
    self.talk = talk
    self.triggers = triggers
    self.version = version
    self.pid = pid
    self.startedAtMs = startedAtMs
    self.state = state
    self.deviceID = deviceID
    self.displayName = displayName
    self.link = link
    self.capabilities = capabilities
  }
}

extension TriggerState {
  var json: JSON {
    .object(present: [
      "name": .string(name), "ready": .bool(isReady), "detail": .string(detail), "remedy": remedy.map(JSON.string),
    ])
  }

  init?(json: JSON) {
    guard let name = json["name"]?.string, let isReady = json["ready"]?.bool else { return nil }
    self.init(name: name, isReady: isReady, detail: json["detail"]?.string ?? "", remedy: json["remedy"]?.string)
  }
}

/// One switch, as the user left it, and what it gates.
struct CapabilityState: Sendable, Equatable {
  let name: String
  let isEnabled: Bool
  /// Whether there is a switch at all.
  let isSwitchable: Bool
  /// One sentence: what it allows when it is on.
  let allows: String
  let commands: [String]

  /// A row a switch, in the modules' order; commands without one under their module's own name.
  static func all(_ modules: [any CapabilityModule], _ switches: SwitchStore) -> [CapabilityState] {
    var rows: [CapabilityState] = []
    var seen: Set<String> = []
    for module in modules {
      for command in module.commands {
        let name = command.consent?.name ?? module.capability.rawValue
        if !seen.insert(name).inserted { continue }
        let commands = modules.flatMap { other in
          other.commands.filter { ($0.consent?.name ?? other.capability.rawValue) == name }.map(\.name)
        }
        rows.append(
          CapabilityState(
            name: name, isEnabled: command.consent.map(switches.isEnabled) ?? true,
            isSwitchable: command.consent != nil,
            allows: command.consent?.allows ?? "", commands: commands))
      }
      for consent in module.switches where seen.insert(consent.name).inserted {
        rows.append(
          CapabilityState(
            name: consent.name, isEnabled: switches.isEnabled(consent), isSwitchable: true, allows: consent.allows,
            commands: []))
      }
    }
    return rows
  }

  var json: JSON {
    [
      "name": .string(name), "enabled": .bool(isEnabled), "switchable": .bool(isSwitchable), "allows": .string(allows),
      "commands": .strings(commands),
    ]
  }

  init?(json: JSON) {
    guard let name = json["name"]?.string, let isEnabled = json["enabled"]?.bool else { return nil }
    self.init(
      name: name, isEnabled: isEnabled, isSwitchable: json["switchable"]?.bool ?? false,
      allows: json["allows"]?.string ?? "", commands: json["commands"]?.strings ?? [])
  }

  init(name: String, isEnabled: Bool, isSwitchable: Bool, allows: String, commands: [String]) {
    self.name = name
    self.isEnabled = isEnabled
    self.isSwitchable = isSwitchable
    self.allows = allows
    self.commands = commands
  }
}
