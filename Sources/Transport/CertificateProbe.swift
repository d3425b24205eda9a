import System

/// What a server shows before anybody trusts it (protocol §8).
public struct CertificateSighting: Sendable, Equatable {
  /// SHA-256 of the leaf in DER.
  public let fingerprint: [UInt8]
  /// In RFC 2253 form; the server's own words.
  public let subject: String
  /// Whether the system's trust store accepts it for this host.
  public let isSystemTrusted: Bool
}

/// Shakes hands with a TLS endpoint, looks at its certificate, and hangs up without having said a word of HTTP.
/// Throws `.address` for an endpoint without TLS.
public func probeCertificate(
  of endpoint: Endpoint, timeout: Duration, loop: EventLoop, proxy: Proxy?
) async throws(TransportError) -> CertificateSighting {
  guard endpoint.isTLS else { throw TransportError(.address, "\(endpoint) has no certificate: it is plain.") }
  return try await Opening.run(loop: loop, limit: timeout) { opening throws(TransportError) in
    let channel = try await opening.dial(endpoint, proxy: proxy)
    let certificate = try await opening.secure(channel, host: endpoint.host, judges: true)
    channel.endWriting()
    return CertificateSighting(
      fingerprint: certificate.fingerprint, subject: certificate.subject, isSystemTrusted: certificate.complaint == nil)
  }
}

/// Whether something accepts TCP connections there. Never through a proxy.
public func isReachable(_ endpoint: Endpoint, timeout: Duration, loop: EventLoop) async -> Bool {
  do throws(TransportError) {
    return try await Opening.run(loop: loop, limit: timeout) { opening throws(TransportError) in
      _ = try await opening.connect(endpoint.host, endpoint.port)
      return true
    }
  } catch { return false }
}
