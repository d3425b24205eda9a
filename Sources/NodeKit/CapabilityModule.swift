import GatewayProtocol
import System

/// A thing this machine can do for agents: its commands, and the code that answers them (ARCHITECTURE.md §3).
///
/// Adding a module to the one list in `talknode` is all it takes: the declared caps, commands and permissions, help, `gateway-config`
/// and `doctor` are computed from what it says here. It answers for hardware at the invoke, never in what it declares: a change of
/// the declaration re-opens the approval at the gateway.
public protocol CapabilityModule: Sendable {
  /// The word in `caps`, for example `device`.
  var capability: Capability { get }
  var commands: [Command] { get }
  /// Keys of the `permissions` map that this module stands for, for example `camera`.
  var permissions: [String] { get }
  /// Switches of its own beside those of its commands, named after one of them (`location.precise`): what more, or less, it gives away.
  var switches: [Consent] { get }

  /// Which other switches of its own go with the turning of this one, on this machine.
  func alsoTurned(with name: String, on: Bool) async -> [String: Bool]
  /// Whether it could answer now. Asked by `doctor`, `status` and the demo; never changes what is declared.
  func availability() async -> Availability
  /// Called once before the first invoke.
  func start() async
  /// Called once at the end: give up devices, end what is running.
  func stop() async
  /// A person has switched it off: remove what was kept for it. May be called in another process than the one that answers.
  func forget() async
  /// Answers one invoke. Runs on the caller's executor: work that blocks or computes for long says `@concurrent` or has a thread of
  /// its own. Is cancelled at the deadline and by `node.invoke.cancel`.
  func handle(_ invocation: Invocation) async throws(CommandError) -> Payload
}

extension CapabilityModule {
  public var permissions: [String] { [] }
  public var switches: [Consent] { [] }
  public func alsoTurned(with name: String, on: Bool) async -> [String: Bool] { [:] }
  public func start() async {}
  public func stop() async {}
  public func forget() async {}

  /// Whether one of its commands asks for the switch of that name.
  public func has(switch name: String) -> Bool { commands.contains { $0.consent?.name == name } }
}

/// A word of the `caps` list. Open: the gateway knows others.
public struct Capability: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  public let rawValue: String
  public init(rawValue: String) { self.rawValue = rawValue }
  public init(stringLiteral value: String) { rawValue = value }
  public var description: String { rawValue }
}

/// A command as its module declares it.
public struct Command: Sendable, Equatable {
  /// What a gateway does with this command from a `linux` node when its owner has configured nothing (node-commands §2.3, §14).
  public enum GatewayDefault: String, Sendable {
    /// Usable once the surface is approved.
    case allowed
    /// Needs an entry in `gateway.nodes.commands.allow`.
    case needsAllow
    /// Needs that entry, and is named dangerous by the gateway.
    case dangerous
  }

  public let name: String
  /// One sentence for help and the README's table.
  public let summary: String
  public let gatewayDefault: GatewayDefault
  /// The switch that must be on; nil = it can't be switched off.
  public let consent: Consent?
  /// Whether a call is a use that a person is shown: yes for what reveals one, unless the module says that this command of the
  /// family does not (a list of devices, a cancel).
  public let isShown: Bool
  /// The module's own limit, when the gateway sets no deadline (`timeoutMs` 0). At most 10 minutes.
  public let limit: Duration
  /// Whether it ends what others began, and so never waits behind them for a place (node-commands §4.2).
  public let isImmediate: Bool

  public init(
    _ name: String, summary: String, gatewayDefault: GatewayDefault, consent: Consent? = nil, isShown: Bool? = nil,
    limit: Duration = .seconds(30), isImmediate: Bool = false
  ) {
    self.name = name
    self.summary = summary
    self.gatewayDefault = gatewayDefault
    self.consent = consent
    self.isShown = isShown ?? (consent?.isOnByDefault == false)
    self.limit = limit
    self.isImmediate = isImmediate
  }
}

/// A switch that a person turns with `talknode capabilities enable` and `disable`. What reveals a person is off until then.
public struct Consent: Sendable, Hashable {
  /// The switch's name, for example `camera`.
  public let name: String
  /// One sentence: what switching it on allows.
  public let allows: String
  /// The wire code of a refusal, for example `CAMERA_DISABLED`.
  public let refusalCode: String
  /// Whether it is on for somebody who has never turned it: only what reveals nobody.
  public let isOnByDefault: Bool

  public init(name: String, allows: String, refusalCode: String, isOnByDefault: Bool = false) {
    self.name = name
    self.allows = allows
    self.refusalCode = refusalCode
    self.isOnByDefault = isOnByDefault
  }

  /// The refusal of a command whose switch is off.
  public var refusal: CommandError {
    CommandError(
      refusalCode, "\(name) is switched off on this machine.",
      remedy: "Switch it on there: talknode capabilities enable \(name)")
  }
}

/// One use of something that reveals a person, to be shown or sounded while it happens.
public struct UseNotice: Sendable, Equatable {
  public let consent: Consent
  public let command: String
  public let origin: Invocation.Origin
  public init(consent: Consent, command: String, origin: Invocation.Origin) {
    self.consent = consent
    self.command = command
    self.origin = origin
  }
}

/// Whether a module could answer now.
public enum Availability: Sendable, Equatable {
  case ready
  /// What is missing, as a sentence, and a command that mends it, where there is one.
  case absent(reason: String, remedy: String?)
}

/// One call of a command.
public struct Invocation: Sendable {
  public enum Origin: Sendable, Hashable {
    /// An agent or an operator, through the gateway with this id.
    case gateway(String)
    /// A person at this machine, through the command line.
    case local
  }

  public let id: String
  public let command: String
  /// The params' JSON text as it came; nil when the caller sent none.
  public let paramsText: [UInt8]?
  public let origin: Origin
  public let sessionKey: String?
  /// When the caller stops waiting, by the monotonic clock.
  public let deadline: Duration
  /// The largest payload the caller's link takes, in bytes as they stand in the result frame: each `"`, `\` and line end of the JSON
  /// text counts twice there (`escapedCount`), base64 counts once.
  public let payloadLimit: Int

  public init(
    id: String, command: String, paramsText: [UInt8]?, origin: Origin, sessionKey: String? = nil, deadline: Duration,
    payloadLimit: Int
  ) {
    self.id = id
    self.command = command
    self.paramsText = paramsText
    self.origin = origin
    self.sessionKey = sessionKey
    self.deadline = deadline
    self.payloadLimit = payloadLimit
  }
}

extension Invocation {
  /// Params of a command that reads: anything but an object counts as "all defaults" (node-commands §1.2).
  public var lenientParams: JSON {
    guard let paramsText, let json = try? JSON(parsing: paramsText), json.object != nil else { return [:] }
    return json
  }

  /// Params of a command that acts: they must be there and be an object.
  public func requiredParams() throws(CommandError) -> JSON {
    guard let paramsText else { throw .invalidRequest("paramsJSON required") }
    return try Self.object(paramsText)
  }

  /// Params of a command that decodes strictly: absent or null means none, anything else must be an object.
  public func strictParams() throws(CommandError) -> JSON {
    guard let paramsText, !paramsText.isEmpty else { return [:] }
    return try Self.object(paramsText)
  }

  private static func object(_ text: [UInt8]) throws(CommandError) -> JSON {
    let json: JSON
    do { json = try JSON(parsing: text) } catch { throw .invalidRequest("the params are no JSON: \(error)") }
    if json.isNull { return [:] }
    guard json.object != nil else { throw .invalidRequest("expected JSON object") }
    return json
  }
}

/// What a command answers.
public enum Payload: Sendable, Equatable {
  /// `ok` and nothing else.
  case none
  case json(JSON)
  /// JSON text that the module has written itself: for large base64, which should not be copied through values.
  case encoded([UInt8])

  /// The JSON text; nil for `none`.
  public var text: [UInt8]? {
    switch self {
    case .none: nil
    case .json(let json): json.encoded()
    case .encoded(let text): text
    }
  }
}

/// Why a command was not done. On the wire: `code` is the symbol and `message` is `SYMBOL: sentence` (node-commands §1.4).
public struct CommandError: Error, Sendable, Equatable {
  /// The symbol, for example `CAMERA_UNAVAILABLE`. Open: each module has its own.
  public let code: String
  /// One sentence a person understands.
  public let summary: String
  /// What to do next; a command that can be pasted where there is one.
  public let remedy: String?
  public let details: JSON?
  public let retryAfterMs: Int64?

  public init(
    _ code: String, _ summary: String, remedy: String? = nil, details: JSON? = nil, retryAfterMs: Int64? = nil
  ) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
    self.details = details
    self.retryAfterMs = retryAfterMs
  }

  public static func invalidRequest(_ summary: String) -> CommandError { CommandError("INVALID_REQUEST", summary) }
  public static func unavailable(_ summary: String, retryAfterMs: Int64? = nil) -> CommandError {
    CommandError("UNAVAILABLE", summary, retryAfterMs: retryAfterMs)
  }

  /// The `error` object of `node.invoke.result`.
  public var json: JSON {
    .object(present: [
      "code": .string(code),
      "message": .string("\(code): \(summary)" + (remedy.map { " \($0)" } ?? "")),
      "details": details, "retryable": retryAfterMs == nil ? nil : true, "retryAfterMs": retryAfterMs.map(JSON.int),
    ])
  }
}
