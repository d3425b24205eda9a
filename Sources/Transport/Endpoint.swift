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
  /// `host:port`; IPv6 in brackets.
  public var authority: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }
  /// The URL, the path only when it is not `/`.
  public var description: String { (isTLS ? "wss://" : "ws://") + authority + (path == "/" ? "" : path) }
}
