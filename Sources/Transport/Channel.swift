import COpenSSL
import Glibc

/// A non-blocking byte stream over a descriptor that it owns: plain, TLS, or TLS inside a proxy's TLS.
// @unchecked Sendable: touched on its loop's thread only. An opening hands it to the socket that it becomes; both are pinned to
// that loop.
final class Channel: @unchecked Sendable {
  /// What became of one read, write or step of a handshake.
  enum Transfer {
    case done(Int)
    case wantsRead
    case wantsWrite
    /// The peer has ended its side.
    case ended
    case failed(String)
  }

  let descriptor: Int32
  private var ssl: OpaquePointer?
  private var isClosed = false

  /// Takes over a connected, non-blocking descriptor.
  init(descriptor: Int32) { self.descriptor = descriptor }

  deinit { close() }

  /// Ends it at once. The owner must have unwatched the descriptor.
  func close() {
    if isClosed { return }
    isClosed = true
    if let ssl { SSL_free(ssl) }
    ssl = nil
    Glibc.close(descriptor)
  }

  var isTLS: Bool { ssl != nil }

  /// Speaks TLS from now on through `session`, which it takes over; inside the present TLS if there is one.
  func secure(_ session: OpaquePointer) {
    if let outer = ssl {
      let link = ossl_bio_over(outer)
      SSL_set_bio(session, link, link)
    } else {
      SSL_set_fd(session, descriptor)
    }
    ssl = session
  }

  /// One step of the TLS handshake.
  func handshake() -> Transfer {
    guard let ssl, !isClosed else { return .done(0) }
    ERR_clear_error()
    let code = SSL_do_handshake(ssl)
    return code == 1 ? .done(0) : outcome(code)
  }

  func read(_ buffer: UnsafeMutableRawBufferPointer) -> Transfer {
    if isClosed { return .ended }
    if let ssl {
      ERR_clear_error()
      var count = 0
      let code = SSL_read_ex(ssl, buffer.baseAddress, buffer.count, &count)
      return code == 1 ? .done(count) : outcome(code)
    }
    while true {
      let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
      if count > 0 { return .done(count) }
      if count == 0 { return .ended }
      switch errno {
      case EINTR: continue
      case EAGAIN: return .wantsRead
      case ECONNRESET: return .ended
      default: return .failed(String(cString: strerror(errno)))
      }
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer) -> Transfer {
    if isClosed { return .ended }
    if let ssl {
      ERR_clear_error()
      var count = 0
      let code = SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &count)
      return code == 1 ? .done(count) : outcome(code)
    }
    while true {
      let count = send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
      if count >= 0 { return .done(count) }
      switch errno {
      case EINTR: continue
      case EAGAIN: return .wantsWrite
      case EPIPE, ECONNRESET: return .ended
      default: return .failed(String(cString: strerror(errno)))
      }
    }
  }

  /// Tells the peer that nothing more comes, as far as that goes without waiting.
  func endWriting() {
    if isClosed { return }
    if let ssl {
      ERR_clear_error()
      SSL_shutdown(ssl)
    }
    shutdown(descriptor, Int32(SHUT_WR))
  }

  /// The peer's certificate, after the handshake.
  func peerCertificate() -> Certificate? {
    guard let ssl, let certificate = SSL_get1_peer_certificate(ssl) else { return nil }
    defer { X509_free(certificate) }
    let verdict = SSL_get_verify_result(ssl)
    return Certificate(certificate, verdict: verdict)
  }

  private func outcome(_ code: Int32) -> Transfer {
    let systemError = errno
    switch SSL_get_error(ssl, code) {
    case SSL_ERROR_WANT_READ: return .wantsRead
    case SSL_ERROR_WANT_WRITE: return .wantsWrite
    case SSL_ERROR_ZERO_RETURN: return .ended
    case SSL_ERROR_SYSCALL:
      if systemError == 0 || systemError == ECONNRESET || systemError == EPIPE { return .ended }
      return .failed(String(cString: strerror(systemError)))
    default:
      let error = ERR_get_error()
      if ossl_is_unexpected_eof(error) != 0 { return .ended }
      if ossl_is_no_tls(error) != 0 { return .failed("the other side does not speak TLS") }
      return .failed(ERR_reason_error_string(error).map { String(cString: $0) } ?? "TLS error \(error)")
    }
  }
}

/// What is to be known of a peer's certificate.
struct Certificate: Sendable {
  /// SHA-256 of the leaf in DER (protocol §8).
  let fingerprint: [UInt8]
  /// In RFC 2253 form.
  let subject: String
  /// Why the system does not trust it for this host; nil when it does.
  let complaint: String?

  init?(_ certificate: OpaquePointer, verdict: Int) {
    var digest = [UInt8](repeating: 0, count: 32)
    var count: UInt32 = 0
    guard X509_digest(certificate, EVP_sha256(), &digest, &count) == 1, count == 32 else { return nil }
    fingerprint = digest
    var text = [CChar](repeating: 0, count: 512)
    let length = ossl_x509_subject(certificate, &text, Int32(text.count))
    subject = String(decoding: text.prefix(Int(length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    complaint = verdict == Int(X509_V_OK) ? nil : String(cString: X509_verify_cert_error_string(verdict))
  }
}
