/// Which server certificate is accepted (protocol §8).
public enum Trust: Sendable, Equatable {
  /// The system's trust store and the host's name decide.
  case system
  /// Exactly the leaf with this SHA-256, whatever the system thinks.
  case pinned([UInt8])
}

/// What a client may set for one connection.
public struct ConnectOptions: Sendable {
  public var trust: Trust = .system
  /// Added to the upgrade request, on `wss` only (protocol §1.1). Those of the handshake itself and `Origin` are refused.
  public var headers: [(name: String, value: String)] = []
  /// From the first name look-up to the upgrade.
  public var timeout: Duration = .seconds(15)
  /// The longest message taken, in bytes; more closes with 1009.
  public var maxMessage = 26_214_400
  /// Proxy for this connection; nil = none.
  public var proxy: Proxy?
  public init() {}
}
