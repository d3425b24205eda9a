/// GatewayProtocol: what goes over the wire, as values: JSON, frames, connect and hello-ok, error codes, the device-auth payload.
/// Coding only, no IO, no clock.

/// Numbers of protocol 4 (protocol reference, appendix B).
public enum ProtocolLimits {
  public static let version = 4
  /// The oldest version a node may offer.
  public static let oldestNodeVersion = 3
  public static let defaultPort: UInt16 = 18789
  /// Any frame before hello-ok, in bytes.
  public static let preAuthPayload = 65_536
  /// Any frame after it, unless `policy.maxPayload` says otherwise.
  public static let payload = 26_214_400
  public static let bufferedBytes = 52_428_800
  public static let tickInterval: Duration = .seconds(30)
  public static let handshakeTimeout: Duration = .seconds(15)
  public static let pongDeadline: Duration = .seconds(25)
  /// How far a signature's time may be off.
  public static let signatureSkewMs: Int64 = 120_000
  public static let invokeTimeout: Duration = .seconds(30)
}

/// Which half of a device a socket is.
public enum Role: String, Sendable, CaseIterable {
  case node
  case `operator`
}
