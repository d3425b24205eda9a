import Crypto
import System

/// An HTTP proxy that is asked to CONNECT.
public struct Proxy: Sendable, Equatable {
  /// Where it is. With TLS the system's trust store judges its certificate.
  public var endpoint: Endpoint
  /// `user:password`, or nil.
  public var credentials: String?
  public init(endpoint: Endpoint, credentials: String? = nil) {
    self.endpoint = endpoint
    self.credentials = credentials
  }

  /// What asks the proxy for a tunnel.
  func request(for target: Endpoint) -> [UInt8] {
    var head = "CONNECT \(target.authority) HTTP/1.1\r\nHost: \(target.authority)\r\n"
    if let credentials { head += "Proxy-Authorization: Basic \(Base64.encode(Array(credentials.utf8)))\r\n" }
    return Array((head + "\r\n").utf8)
  }
}
