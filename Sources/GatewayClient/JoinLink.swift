import GatewayProtocol
import System
import Transport

/// A link `https://host/…/j/CODE` behind which a gateway keeps the payload of a setup code (protocol §7.2).
public struct JoinLink: Sendable, Equatable {
  /// Where to ask; its path is the whole path of the link.
  public let endpoint: Endpoint

  /// The longest answer that is read, in bytes.
  static let longestAnswer = 24_576
  static let timeout: Duration = .seconds(15)

  /// Nil when the text is no join link. Plain `http` is one for this machine only.
  public init?(_ text: String) {
    guard let endpoint = Endpoint(url: text.trimmed) else { return nil }
    let scheme = text.trimmed.prefix { $0 != ":" }.lowercased()
    guard scheme == "https" || (scheme == "http" && PlaintextPolicy.isLoopback(endpoint.host)) else { return nil }
    let parts = endpoint.path.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count >= 3, parts[parts.count - 2] == "j", let code = parts.last, !code.isEmpty,
      code.utf8.allSatisfy({ ($0 >= 48 && $0 <= 57) || ($0 >= 65 && $0 <= 90) || ($0 >= 97 && $0 <= 122) || $0 == 45 || $0 == 95 })
    else { return nil }
    self.endpoint = endpoint
  }
}
