import GatewayProtocol

/// How one of the two sockets is.
public enum SocketStatus: Sendable, Equatable {
  /// Not started, or the operator socket before the node was let in.
  case idle
  /// `attempt` counts from 1.
  case connecting(attempt: Int)
  /// The gateway's owner has to approve; asked again by itself.
  case waitingForApproval(requestID: String?, reason: String)
  /// Comes back by itself at `untilMs`, milliseconds since 1970.
  case backingOff(untilMs: Int64, reason: String)
  /// Since `sinceMs`, milliseconds since 1970.
  case connected(sinceMs: Int64)
  /// Does not come back until a person has done what `remedy` says.
  case stopped(code: String, summary: String, remedy: String)

  public var isConnected: Bool { if case .connected = self { true } else { false } }

  public var json: JSON {
    switch self {
    case .idle: ["state": "idle"]
    case .connecting(let attempt): ["state": "connecting", "attempt": .int(Int64(attempt))]
    case .waitingForApproval(let requestID, let reason):
      .object(present: ["state": "waiting", "requestId": requestID.map(JSON.string), "reason": .string(reason)])
    case .backingOff(let untilMs, let reason):
      ["state": "backing-off", "untilMs": .int(untilMs), "reason": .string(reason)]
    case .connected(let sinceMs): ["state": "connected", "sinceMs": .int(sinceMs)]
    case .stopped(let code, let summary, let remedy):
      ["state": "stopped", "code": .string(code), "summary": .string(summary), "remedy": .string(remedy)]
    }
  }

  /// Reads what `json` writes; nil when it is something else.
  public init?(json: JSON?) {
    let reason = json?["reason"]?.string ?? ""
    switch json?["state"]?.string {
    case "idle": self = .idle
    case "connecting": self = .connecting(attempt: Int(json?["attempt"]?.int ?? 1))
    case "waiting": self = .waitingForApproval(requestID: json?["requestId"]?.string, reason: reason)
    case "backing-off": self = .backingOff(untilMs: json?["untilMs"]?.int ?? 0, reason: reason)
    case "connected": self = .connected(sinceMs: json?["sinceMs"]?.int ?? 0)
    case "stopped":
      self = .stopped(
        code: json?["code"]?.string ?? "", summary: json?["summary"]?.string ?? "",
        remedy: json?["remedy"]?.string ?? "")
    default: return nil
    }
  }
}

/// One of the three approvals that the gateway's owner has not given yet.
public struct MissingApproval: Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// This device may connect at all.
    case device
    /// Its commands may be called.
    case surface
    /// It may chat and speak.
    case `operator`
  }
  public var kind: Kind
  /// What the gateway calls the request; nil when it did not say.
  public var requestID: String?
  /// To be typed on the gateway host.
  public var command: String
  public var reason: String
  /// Milliseconds since 1970.
  public var sinceMs: Int64

  public init(kind: Kind, requestID: String?, reason: String, sinceMs: Int64) {
    self.kind = kind
    self.requestID = requestID
    self.reason = reason
    self.sinceMs = sinceMs
    let noun = kind == .surface ? "nodes" : "devices"
    command =
      requestID.map { "openclaw \(noun) approve \($0)" } ?? "openclaw \(noun) \(kind == .surface ? "pending" : "list")"
  }

  public var json: JSON {
    .object(present: [
      "kind": .string(kind.rawValue), "requestId": requestID.map(JSON.string), "command": .string(command),
      "reason": .string(reason), "sinceMs": .int(sinceMs),
    ])
  }

  public init?(json: JSON) {
    guard let kind = json["kind"]?.string.flatMap(Kind.init(rawValue:)) else { return nil }
    self.init(
      kind: kind, requestID: json["requestId"]?.string, reason: json["reason"]?.string ?? "",
      sinceMs: json["sinceMs"]?.int ?? 0)
  }
}

/// A command that this node declares and the gateway does not let agents call.
public struct WithheldCommand: Sendable, Equatable {
  public enum Reason: String, Sendable, CaseIterable {
    /// It waits for the approval of the command surface.
    case notApproved = "not-approved"
    /// The gateway's allow-list for this platform lacks it.
    case notAllowlisted = "not-allowlisted"
    /// The allow-list lacks it, and the gateway names it dangerous: it is in no default (protocol §11.3).
    case dangerous
    /// The gateway does not show it as declared by this node: it has not seen the newest surface yet.
    case notDeclared = "not-declared"
  }
  public var command: String
  public var reason: Reason
  /// What to do on the gateway host.
  public var remedy: String

  public init(command: String, reason: Reason, remedy: String) {
    self.command = command
    self.reason = reason
    self.remedy = remedy
  }

  public var json: JSON {
    ["command": .string(command), "reason": .string(reason.rawValue), "remedy": .string(remedy)]
  }

  public init?(json: JSON) {
    guard let command = json["command"]?.string, let reason = json["reason"]?.string.flatMap(Reason.init(rawValue:))
    else {
      return nil
    }
    self.init(command: command, reason: reason, remedy: json["remedy"]?.string ?? "")
  }
}

/// What is known about the approval of the command surface.
public enum SurfaceState: String, Sendable {
  case unknown, pending, approved
}

/// All that can be said about the link at one moment. Holds no secret.
public struct LinkStatus: Sendable, Equatable {
  public var gatewayID: String
  public var name: String
  public var url: String
  /// The gateway's version; nil before the first hello-ok.
  public var serverVersion: String?
  public var node: SocketStatus
  public var `operator`: SocketStatus
  public var surface: SurfaceState
  public var missing: [MissingApproval]
  public var withheld: [WithheldCommand]
  /// Declared and not known to be withheld.
  public var effectiveCommands: [String]
  /// How the gateway answered `node.presence.alive`: `persisted`, `throttled`, …; nil when it did not say `handled`.
  public var presence: String?

  public init(
    gatewayID: String, name: String, url: String, serverVersion: String? = nil, node: SocketStatus = .idle,
    operator: SocketStatus = .idle, surface: SurfaceState = .unknown, missing: [MissingApproval] = [],
    withheld: [WithheldCommand] = [], effectiveCommands: [String] = [], presence: String? = nil
  ) {
    self.gatewayID = gatewayID
    self.name = name
    self.url = url
    self.serverVersion = serverVersion
    self.node = node
    self.operator = `operator`
    self.surface = surface
    self.missing = missing
    self.withheld = withheld
    self.effectiveCommands = effectiveCommands
    self.presence = presence
  }

  /// Both sockets are up and the commands approved.
  public var isComplete: Bool { node.isConnected && `operator`.isConnected && surface == .approved && missing.isEmpty }

  /// Stable keys: scripts read them.
  public var json: JSON {
    .object(present: [
      "gateway": .string(gatewayID), "name": .string(name), "url": .string(url),
      "serverVersion": serverVersion.map(JSON.string), "node": node.json, "operator": `operator`.json,
      "surface": .string(surface.rawValue), "missing": .array(missing.map(\.json)),
      "withheld": .array(withheld.map(\.json)), "effectiveCommands": .strings(effectiveCommands),
      "presence": presence.map(JSON.string), "complete": .bool(isComplete),
    ])
  }

  /// Reads what `json` writes; nil when it is something else.
  public init?(json: JSON) {
    guard let gatewayID = json["gateway"]?.string, let node = SocketStatus(json: json["node"]),
      let `operator` = SocketStatus(json: json["operator"])
    else { return nil }
    self.init(
      gatewayID: gatewayID, name: json["name"]?.string ?? "", url: json["url"]?.string ?? "",
      serverVersion: json["serverVersion"]?.string, node: node, operator: `operator`,
      surface: json["surface"]?.string.flatMap(SurfaceState.init(rawValue:)) ?? .unknown,
      missing: (json["missing"]?.array ?? []).compactMap(MissingApproval.init(json:)),
      withheld: (json["withheld"]?.array ?? []).compactMap(WithheldCommand.init(json:)),
      effectiveCommands: json["effectiveCommands"]?.strings ?? [], presence: json["presence"]?.string)
  }
}
