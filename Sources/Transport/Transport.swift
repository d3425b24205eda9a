/// Transport: WebSocket (RFC 6455) client and server over TCP and OpenSSL, and Unix sockets, on the poll-loop executor.
import Crypto
import System

/// Why a socket could not be opened or was lost. `kind` decides what the link does; `description` is for people.
public struct TransportError: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Kind: Sendable, Equatable {
    /// The URL can't be used.
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
    case lost
  }
  public let kind: Kind
  public let description: String
  public init(_ kind: Kind, _ description: String) {
    self.kind = kind
    self.description = description
  }
}

/// How a socket ended. Codes of RFC 6455 §7.4; 1005 = closed without a code, 1006 = lost without a close frame.
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
  public var description: String { "closed \(code)\(reason.isEmpty ? "" : " \(reason)")" }
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

/// Where a WebSocket is: scheme, host, port and path of a URL.
public struct Endpoint: Sendable, Hashable, CustomStringConvertible {
  public let isTLS: Bool
  /// A name, an IPv4 address, or an IPv6 address without brackets.
  public let host: String
  public let port: UInt16
  /// The context path, with a leading slash.
  public let path: String
  public init(isTLS: Bool, host: String, port: UInt16, path: String = "/") {
    self.isTLS = isTLS
    self.host = host
    self.port = port
    self.path = path
  }
  /// `host:port` as it stands in a `Host` header; IPv6 in brackets.
  public var authority: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }
  /// The URL, the path only when it is not `/`.
  public var description: String { (isTLS ? "wss://" : "ws://") + authority + (path == "/" ? "" : path) }
}

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
  /// Added to the upgrade request, on `wss` only.
  public var headers: [(name: String, value: String)] = []
  /// From the first name look-up to the upgrade.
  public var timeout: Duration = .seconds(15)
  /// The longest message taken, in bytes; more closes with 1009.
  public var maxMessage = 26_214_400
  /// Proxy for this connection; nil = none.
  public var proxy: Proxy?
  public init() {}
}

/// An HTTP proxy that is asked to CONNECT.
public struct Proxy: Sendable, Equatable {
  public var endpoint: Endpoint
  /// `user:password`, or nil.
  public var credentials: String?
  public init(endpoint: Endpoint, credentials: String? = nil) {
    self.endpoint = endpoint
    self.credentials = credentials
  }
}

/// The upgrade request as the server side saw it.
public struct UpgradeRequest: Sendable {
  public let path: String
  /// Names in small letters; a repeated header's values joined with ", ".
  public let headers: [String: String]
  /// The peer's address without port.
  public let remoteAddress: String
  public init(path: String, headers: [String: String], remoteAddress: String) {
    self.path = path
    self.headers = headers
    self.remoteAddress = remoteAddress
  }
}
