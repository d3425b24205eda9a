import COpenSSL
import Crypto
import Glibc

/// A server's certificate and key.
// @unchecked Sendable: the context is set up in init and only read afterwards, which OpenSSL allows from any thread.
public final class ServerIdentity: @unchecked Sendable {
  /// SHA-256 of the leaf certificate in DER: what clients pin.
  public let fingerprint: [UInt8]
  private let context: OpaquePointer

  /// Reads a PEM certificate chain, leaf first, and its key. Throws `.tls` when a file can't be read or they don't belong together.
  public convenience init(certificateFile: String, keyFile: String) throws(TransportError) {
    let context = try Self.makeContext()
    ERR_clear_error()
    guard SSL_CTX_use_certificate_chain_file(context, certificateFile) == 1 else {
      SSL_CTX_free(context)
      throw TransportError(.tls, "\(certificateFile) is no certificate in PEM form")
    }
    guard SSL_CTX_use_PrivateKey_file(context, keyFile, SSL_FILETYPE_PEM) == 1,
      SSL_CTX_check_private_key(context) == 1
    else {
      SSL_CTX_free(context)
      throw TransportError(.tls, "\(keyFile) is not the key of \(certificateFile)")
    }
    try self.init(context: context)
  }

  /// A new P-256 key and a certificate for it, valid for ten years, in memory only. `names` are DNS names and IP addresses; the
  /// first is the subject.
  public static func selfSigned(names: [String]) throws(TransportError) -> ServerIdentity {
    let entries = try alternativeNames(names)
    guard let key = ossl_new_p256_key(), let certificate = X509_new() else {
      throw TransportError(.tls, "OpenSSL can't make a key")
    }
    defer {
      EVP_PKEY_free(key)
      X509_free(certificate)
    }
    X509_set_version(certificate, 2)
    var serial = Random.bytes(8)
    serial[0] = serial[0] & 0x7F | 1
    let number = BN_bin2bn(serial, Int32(serial.count), nil)
    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate))
    BN_free(number)
    // An hour back, for clocks that are late.
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600)
    X509_gmtime_adj(X509_getm_notAfter(certificate), 10 * 365 * 86400)
    X509_set_pubkey(certificate, key)
    let subject = X509_get_subject_name(certificate)
    let name = Array(names[0].utf8.prefix(64))
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, Int32(name.count), -1, 0)
    X509_set_issuer_name(certificate, subject)
    guard ossl_x509_add_extension(certificate, NID_subject_alt_name, entries) == 1,
      ossl_x509_add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") == 1,
      // Tells it from others of the same name in one trust store.
      ossl_x509_add_extension(certificate, NID_subject_key_identifier, "hash") == 1,
      ossl_x509_add_extension(certificate, NID_authority_key_identifier, "keyid:always") == 1,
      X509_sign(certificate, key, EVP_sha256()) > 0
    else { throw TransportError(.tls, "OpenSSL can't make a certificate for \(names.joined(separator: ", "))") }
    let context = try makeContext()
    guard SSL_CTX_use_certificate(context, certificate) == 1, SSL_CTX_use_PrivateKey(context, key) == 1 else {
      SSL_CTX_free(context)
      throw TransportError(.tls, "OpenSSL refuses its own certificate")
    }
    return try ServerIdentity(context: context)
  }

  private init(context: OpaquePointer) throws(TransportError) {
    self.context = context
    guard let leaf = SSL_CTX_get0_certificate(context), let certificate = Certificate(leaf, verdict: 0) else {
      SSL_CTX_free(context)
      throw TransportError(.tls, "there is no certificate")
    }
    fingerprint = certificate.fingerprint
  }

  deinit { SSL_CTX_free(context) }

  /// The leaf certificate in PEM form, for clients that want to trust a file.
  public var certificatePEM: String {
    guard let memory = BIO_new(BIO_s_mem()) else { return "" }
    defer { BIO_free(memory) }
    PEM_write_bio_X509(memory, SSL_CTX_get0_certificate(context))
    var text = [UInt8](repeating: 0, count: 16_384)
    let count = BIO_read(memory, &text, Int32(text.count))
    return String(decoding: text.prefix(max(0, Int(count))), as: UTF8.self)
  }

  /// A session that waits for a client.
  func session() throws(TransportError) -> OpaquePointer {
    guard let session = SSL_new(context) else { throw TransportError(.tls, "OpenSSL has no memory for TLS") }
    SSL_set_accept_state(session)
    return session
  }

  private static func makeContext() throws(TransportError) -> OpaquePointer {
    guard let context = SSL_CTX_new(TLS_server_method()) else { throw TransportError(.tls, "OpenSSL has no TLS") }
    _ = ossl_ctx_min_tls12(context)
    _ = ossl_ctx_partial_write(context)
    ossl_ctx_no_resumption(context)
    ossl_ctx_read_ahead(context)
    SSL_CTX_set_num_tickets(context, 0)
    return context
  }

  /// OpenSSL's own notation, which a comma in a name would break out of.
  private static func alternativeNames(_ names: [String]) throws(TransportError) -> String {
    if names.isEmpty { throw TransportError(.address, "a certificate needs a name") }
    var entries: [String] = []
    for name in names {
      if Address.bytes(of: name) != nil {
        entries.append("IP:" + name)
      } else if Endpoint.isHostName(name) {
        entries.append("DNS:" + name)
      } else {
        throw TransportError(.address, "“\(name)” is no host name")
      }
    }
    return entries.joined(separator: ",")
  }
}
