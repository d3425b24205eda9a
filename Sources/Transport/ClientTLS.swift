import COpenSSL
import Glibc

/// The client side of TLS.
enum ClientTLS {
  /// A session towards `host`, with a context of its own: there is nothing to resume, so the certificate is seen and judged on
  /// every connection.
  ///
  /// The handshake goes on whatever the certificate; `Channel.peerCertificate` then says what the system thinks of it, and the
  /// opening must look before it writes anything. That way one path serves pins, system trust and the probe, each with the
  /// fingerprint at hand. `judges` loads the system's trust store.
  static func session(host: String, judges: Bool) throws(TransportError) -> OpaquePointer {
    guard let context = SSL_CTX_new(TLS_client_method()) else { throw TransportError(.tls, "OpenSSL has no TLS") }
    defer { SSL_CTX_free(context) }
    _ = ossl_ctx_min_tls12(context)
    _ = ossl_ctx_partial_write(context)
    ossl_ctx_no_resumption(context)
    ossl_ctx_read_ahead(context)
    if judges { SSL_CTX_set_default_verify_paths(context) }
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nil)
    guard let session = SSL_new(context) else { throw TransportError(.tls, "OpenSSL has no memory for TLS") }
    let parameters = SSL_get0_param(session)
    let isSet: Bool
    if let address = Address.bytes(of: host) {
      // An address is compared with the certificate's addresses, and is no server name (RFC 6066 §3).
      isSet = X509_VERIFY_PARAM_set1_ip(parameters, address, address.count) == 1
    } else {
      let name = host.hasSuffix(".") ? String(host.dropLast()) : host
      SSL_set_hostflags(session, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
      isSet = SSL_set1_host(session, name) == 1 && ossl_set_sni(session, name) == 1
    }
    guard isSet else {
      SSL_free(session)
      throw TransportError(.address, "“\(host)” can't be checked against a certificate")
    }
    SSL_set_connect_state(session)
    return session
  }
}
