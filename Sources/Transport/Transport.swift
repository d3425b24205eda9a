/// Transport: WebSocket (RFC 6455) client and server over TCP and OpenSSL, and Unix sockets, on the poll-loop executor.
///
/// The walk of a byte: `Dialer` (names, addresses, proxy) → `Channel` (plain or TLS) → `Opening` (handshakes, one deadline) →
/// `ByteStream` (read and write readiness) → `FrameDecoder` → `WebSocket`. Nothing here knows what a gateway is.

/// Why a socket could not be opened. `kind` decides what the caller does; `description` is a sentence for people.
public struct TransportError: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Kind: Sendable, Equatable {
    /// The URL, the path of a socket or a header can't be used.
    case address
    case nameNotFound
    case refused
    case unreachable
    case timedOut
    /// The certificate is not the pinned one. Carries the fingerprint that was seen (SHA-256, 32 bytes).
    case pinMismatch([UInt8])
    /// The system does not trust the certificate. Carries its fingerprint.
    case untrusted([UInt8])
    case tls
    /// The server did not upgrade to WebSocket; carries its HTTP status, 0 when it spoke no HTTP.
    case notUpgraded(Int)
    case proxy
    /// The peer went away in the middle of the opening.
    case lost
    /// The task that wanted the socket was cancelled.
    case cancelled
  }
  public let kind: Kind
  public let description: String
  public init(_ kind: Kind, _ description: String) {
    self.kind = kind
    self.description = description
  }
}

/// How a socket ended, or why one call on it failed.
///
/// Codes of RFC 6455 §7.4; 1005 = closed without a code, 1006 = lost without a close frame. Code 0 is never on the wire: only
/// the call that threw it failed (`cancelled`, `tooMuchUnsent`), and the socket is as it was.
public struct Closure: Error, Sendable, Equatable, CustomStringConvertible {
  public let code: UInt16
  public let reason: String
  /// Whether the peer said goodbye.
  public let isClean: Bool
  public init(code: UInt16, reason: String, isClean: Bool) {
    self.code = code
    self.reason = reason
    self.isClean = isClean
  }

  /// The waiting task was cancelled. What it was sending may still go out.
  public static let cancelled = Closure(code: 0, reason: "cancelled", isClean: false)
  /// More than 64 MiB wait to be sent: the peer reads too slowly, and this message was not taken.
  public static let tooMuchUnsent = Closure(code: 0, reason: "too much is waiting to be sent", isClean: false)

  static func lost(_ why: String) -> Closure { Closure(code: 1006, reason: why, isClean: false) }

  /// Whether the socket itself has ended.
  public var isFinal: Bool { code != 0 }
  public var description: String {
    (isFinal ? "closed \(code)" : "failed") + (reason.isEmpty ? "" : " \(reason)")
  }
}

/// A message as it came: its bytes, and whether it was text (then it is UTF-8, checked).
public struct Message: Sendable, Equatable {
  public let bytes: [UInt8]
  public let isText: Bool
  public init(bytes: [UInt8], isText: Bool) {
    self.bytes = bytes
    self.isText = isText
  }
}
