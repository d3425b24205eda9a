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
      code.utf8.allSatisfy({
        ($0 >= 48 && $0 <= 57) || ($0 >= 65 && $0 <= 90) || ($0 >= 97 && $0 <= 122) || $0 == 45 || $0 == 95
      })
    else { return nil }
    self.endpoint = endpoint
  }
}

extension JoinLink {
  /// Asks for the payload and reads it: one GET of at most 24,576 bytes within 15 s, without redirects. The system's trust store
  /// decides about the certificate: there is nobody yet who could vouch for another.
  public func fetch(loop: EventLoop, proxy: Proxy? = nil, nowMs: Int64) async throws(LinkError) -> GatewayOffer {
    let answer: [UInt8]
    do throws(TransportError) {
      answer = try await Transport.fetch(
        endpoint, limit: Self.longestAnswer, timeout: Self.timeout, loop: loop, proxy: proxy)
    } catch {
      throw LinkError(
        .joinLinkFailed, "The join link could not be fetched: \(error.description)",
        remedy: "Make a setup code on the gateway host instead: openclaw qr --setup-code-only")
    }
    guard let json = try? JSON(parsing: answer), json.object != nil else {
      throw LinkError(.joinLinkFailed, "The join link leads to something that is no setup code.")
    }
    return try GatewayOffer.payload(json, nowMs: nowMs)
  }
}
