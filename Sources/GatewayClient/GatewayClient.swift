import GatewayProtocol

/// GatewayClient: everything between this machine and one gateway: who we are (identity), where it is (offers, registry, pins), how we
/// get in (handshake, credentials, pairing), how we stay in (two sockets that come back by themselves), and what is missing.
///
/// Decisions are values with tables of tests (`GatewayOffer`, `ConnectVerdict`, `ConnectionMachine`, `NodeDescription`); the actors
/// `GatewayLink`, `GatewaySocket` and `GatewayChannel` only carry them out.

/// Why something between this machine and a gateway can't be done.
public struct LinkError: Error, Sendable, Equatable, CustomStringConvertible {
  /// A stable word. Open: a struct, so that adding one breaks nobody.
  public struct Code: RawRepresentable, Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public init(stringLiteral value: String) { rawValue = value }
    public var description: String { rawValue }

    /// A file or folder of the state folder can't be read or written.
    public static let state: Code = "STATE_UNUSABLE"
    public static let identityDamaged: Code = "IDENTITY_DAMAGED"
    /// The text names no gateway.
    public static let offerInvalid: Code = "OFFER_INVALID"
    public static let offerExpired: Code = "OFFER_EXPIRED"
    /// `ws://` to a host that is not on a local network (protocol §7.3).
    public static let plaintextRefused: Code = "PLAINTEXT_REFUSED"
    /// The text is a join link, which has to be fetched first.
    public static let joinLink: Code = "JOIN_LINK"
    public static let joinLinkFailed: Code = "JOIN_LINK_FAILED"
    public static let unknownGateway: Code = "UNKNOWN_GATEWAY"
    public static let certificateUntrusted: Code = "CERTIFICATE_UNTRUSTED"
    public static let pinMismatch: Code = "PIN_MISMATCH"
    public static let unreachable: Code = "UNREACHABLE"
    public static let notConnected: Code = "NOT_CONNECTED"
    /// No answer within the limit; whether the gateway acted is not known.
    public static let timeout: Code = "TIMEOUT"
    /// The socket ended before the answer; whether the gateway acted is not known.
    public static let connectionLost: Code = "CONNECTION_LOST"
    /// The request is over the gateway's `policy.maxPayload`.
    public static let tooLarge: Code = "PAYLOAD_TOO_LARGE"
    /// More requests are waiting for an answer than the link allows.
    public static let tooManyRequests: Code = "TOO_MANY_REQUESTS"
    /// The gateway answered with an error; `wire` has it.
    public static let refused: Code = "REFUSED"
    /// The gateway said something that is not its protocol.
    public static let protocolViolation: Code = "PROTOCOL_VIOLATION"
    public static let cancelled: Code = "CANCELLED"
  }

  public let code: Code
  /// One sentence a person understands.
  public let summary: String
  /// What to do next: a command that can be pasted where there is one.
  public let remedy: String?
  /// The gateway's own error, for `refused`.
  public let wire: WireError?

  public init(_ code: Code, _ summary: String, remedy: String? = nil, wire: WireError? = nil) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
    self.wire = wire
  }

  public var description: String { summary + (remedy.map { " \($0)" } ?? "") }

  static func refused(_ error: WireError) -> LinkError {
    LinkError(.refused, "The gateway answered \(error.code): \(error.message)", wire: error)
  }
}
