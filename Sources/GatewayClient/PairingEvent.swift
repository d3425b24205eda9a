import GatewayProtocol

/// A step of pairing, as it is told to the person who waits for it.
public enum PairingEvent: Sendable, Equatable {
  case route(url: String, answers: Bool)
  case unreachable(url: String, reason: String)
  /// `fingerprint` in hexadecimal.
  case certificate(url: String, fingerprint: String, isSystemTrusted: Bool)
  case stored(id: String, url: String)
  /// Something the gateway's owner has to do.
  case missing(MissingApproval)
  case approved(MissingApproval.Kind)
  /// Tried again by itself.
  case retrying(Role, reason: String)
  /// Not tried again by itself.
  case stopped(Role, code: String, summary: String, remedy: String)
  /// All three approvals are there.
  case complete

  /// One sentence, with the command for the gateway host where there is one.
  public var sentence: String {
    switch self {
    case .route(let url, let answers): "\(url) \(answers ? "answers" : "does not answer")."
    case .unreachable(let url, let reason): "\(url) can't be reached now: \(reason)"
    case .certificate(let url, let fingerprint, let isSystemTrusted):
      "\(url) shows the certificate \(fingerprint), which this system \(isSystemTrusted ? "trusts" : "does not trust by itself")."
    case .stored(_, let url): "\(url) is now the gateway of this device."
    case .missing(let approval): "Waiting for \(approval.what). On the gateway host: \(approval.command)"
    case .approved(.device): "This device is approved."
    case .approved(.surface): "Its commands are approved."
    case .approved(.operator): "Chat and speech are approved."
    case .retrying(let role, let reason): "The \(role.rawValue) connection is tried again: \(reason)"
    case .stopped(let role, _, let summary, let remedy): "The \(role.rawValue) connection stopped: \(summary) \(remedy)"
    case .complete: "Paired: this machine answers agents, and can chat and speak."
    }
  }

  /// Stable keys: scripts read them.
  public var json: JSON {
    switch self {
    case .route(let url, let answers): ["event": "route", "url": .string(url), "answers": .bool(answers)]
    case .unreachable(let url, let reason):
      ["event": "unreachable", "url": .string(url), "reason": .string(reason)]
    case .certificate(let url, let fingerprint, let isSystemTrusted):
      [
        "event": "certificate", "url": .string(url), "fingerprint": .string(fingerprint),
        "systemTrusted": .bool(isSystemTrusted),
      ]
    case .stored(let id, let url): ["event": "stored", "gateway": .string(id), "url": .string(url)]
    case .missing(let approval): ["event": "missing", "approval": approval.json]
    case .approved(let kind): ["event": "approved", "kind": .string(kind.rawValue)]
    case .retrying(let role, let reason):
      ["event": "retrying", "role": .string(role.rawValue), "reason": .string(reason)]
    case .stopped(let role, let code, let summary, let remedy):
      [
        "event": "stopped", "role": .string(role.rawValue), "code": .string(code), "summary": .string(summary),
        "remedy": .string(remedy),
      ]
    case .complete: ["event": "complete"]
    }
  }
}

extension MissingApproval {
  /// What is waited for, in words.
  public var what: String {
    switch (kind, reason) {
    case (.device, "metadata-upgrade"): "this device to be approved again, because what it says of itself has changed"
    case (.device, _): "this device to be approved"
    case (.surface, "surface-changed"): "the changed list of its commands to be approved"
    case (.surface, _): "its commands to be approved"
    case (.operator, "scope-upgrade"): "more rights for chat and speech to be approved"
    case (.operator, _): "chat and speech (the operator role) to be approved"
    }
  }
}

/// Turns a link's statuses into the steps of pairing: each is told once. Pure; fed from the link itself, or from the JSON of a running
/// daemon's status.
public struct PairingProgress: Sendable {
  private var told: Set<String> = []
  private var approved: Set<MissingApproval.Kind> = []
  public private(set) var isComplete = false

  public init() {}

  /// The steps that are new in `status`.
  public mutating func on(_ status: LinkStatus) -> [PairingEvent] {
    var events: [PairingEvent] = []
    note(.device, status.node.isConnected, &events)
    note(.surface, status.surface == .approved && status.operator.isConnected, &events)
    note(.operator, status.operator.isConnected, &events)
    for approval in status.missing {
      // A request without an id is not told again once it was told with one.
      let key = "missing \(approval.kind.rawValue) \(approval.requestID ?? "")"
      if told.insert(key).inserted { events.append(.missing(approval)) }
      approved.remove(approval.kind)
    }
    for (role, socket) in [(Role.node, status.node), (.operator, status.operator)] { tell(role, socket, &events) }
    if status.isComplete != isComplete {
      isComplete = status.isComplete
      if isComplete { events.append(.complete) }
    }
    return events
  }

  private mutating func note(_ kind: MissingApproval.Kind, _ isThere: Bool, _ events: inout [PairingEvent]) {
    if isThere && approved.insert(kind).inserted { events.append(.approved(kind)) }
  }

  private mutating func tell(_ role: Role, _ socket: SocketStatus, _ events: inout [PairingEvent]) {
    switch socket {
    case .backingOff(_, let reason):
      if told.insert("retry \(role.rawValue) \(reason)").inserted { events.append(.retrying(role, reason: reason)) }
    case .stopped(let code, let summary, let remedy):
      if told.insert("stop \(role.rawValue) \(code)").inserted {
        events.append(.stopped(role, code: code, summary: summary, remedy: remedy))
      }
    case .connected:
      told = told.filter { !$0.hasPrefix("retry \(role.rawValue)") && !$0.hasPrefix("stop \(role.rawValue)") }
    case .idle, .connecting, .waitingForApproval: break
    }
  }
}
