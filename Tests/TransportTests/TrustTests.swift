import COpenSSL
import Crypto
import Glibc
import System
import TestSupport
import Testing

@testable import Transport

@Suite("Which certificate is accepted")
struct TrustTests {
  /// Connects and drops; the error if it fails.
  func connect(
    _ port: UInt16, host: String = "127.0.0.1", _ trust: Trust, proxy: Proxy? = nil
  ) async -> TransportError? {
    await failure { () async throws(TransportError) in
      let socket = try await WebSocket.connect(
        to: .local(port, tls: true, host: host), options: ConnectOptions(trust, proxy: proxy), loop: loop)
      await socket.drop("done")
    }
  }

  /// A TLS server that takes down what it hears after the handshake.
  func listening(_ identity: ServerIdentity, heard: Seen<[UInt8]>) -> RawServer {
    RawServer { peer in
      guard let session = try? identity.session(), peer.secure(session) else { return heard.add([]) }
      heard.add(peer.readToEnd())
    }
  }

  // MARK: Pins

  @Test("the pinned certificate is accepted though nobody else trusts it")
  func rightPin() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["elsewhere.example"])
    let server = try await echoServer(identity: identity)
    #expect(await connect(server.port, .pinned(identity.fingerprint)) == nil)
    await server.stop()
  }

  @Test("another certificate than the pinned one is refused before the server hears a byte of HTTP")
  func wrongPin() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["localhost"])
    let heard = Seen<[UInt8]>()
    let server = listening(identity, heard: heard)
    let error = await connect(server.port, .pinned([UInt8](repeating: 7, count: 32)))
    #expect(error?.kind == .pinMismatch(identity.fingerprint))
    #expect(error?.description.contains(hexadecimal(identity.fingerprint)) == true)
    try await eventually("the connection ends") { heard.all.count == 1 }
    #expect(heard.all == [[]])
    #expect(await connect(server.port, .pinned([])) != nil)
  }

  @Test("a session that could be resumed does not bypass a changed pin", arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
  func noResumption(version: Int32) async throws {
    // A server that resumes whatever it can: tickets, session cache, one context for all connections.
    let folder = TemporaryFolder()
    let (certificate, key) = try writeIdentity(in: folder)
    let context = SSL_CTX_new(TLS_server_method())!
    SSL_CTX_use_certificate_chain_file(context, certificate)
    SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM)
    SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(version), nil)
    SSL_CTX_set_session_id_context(context, [1], 1)
    defer { SSL_CTX_free(context) }
    let pin = Certificate(SSL_CTX_get0_certificate(context), verdict: 0)!.fingerprint
    let resumed = Seen<Bool>()
    let shared = SharedContext(context)
    let server = RawServer { peer in
      let session = SSL_new(shared.context)!
      SSL_set_accept_state(session)
      guard peer.secure(session) else { return }
      resumed.add(SSL_session_reused(session) == 1)
      peer.upgrade()
      _ = peer.readToEnd()
    }
    for _ in 0..<3 { #expect(await connect(server.port, .pinned(pin)) == nil) }
    #expect(await connect(server.port, .pinned([UInt8](repeating: 1, count: 32)))?.kind == .pinMismatch(pin))
    #expect(await connect(server.port, .system)?.kind == .untrusted(pin))
    try await eventually("all handshakes are over") { resumed.all.count == 5 }
    #expect(resumed.all == [false, false, false, false, false])
  }

  // MARK: System trust

  @Test("a self-signed certificate is refused by the system's trust, before a byte of HTTP, with its fingerprint")
  func selfSigned() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["127.0.0.1"])
    let heard = Seen<[UInt8]>()
    let server = listening(identity, heard: heard)
    #expect(await connect(server.port, .system)?.kind == .untrusted(identity.fingerprint))
    try await eventually("the connection ends") { heard.all.count == 1 }
    #expect(heard.all == [[]])
  }

  @Test("a certificate that the system trusts is accepted for its own names and addresses only")
  func names() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["localhost", "127.0.0.1"])
    try TrustStore.shared.add(identity)
    let server = try await echoServer(identity: identity)
    #expect(await connect(server.port, host: "127.0.0.1", .system) == nil)
    #expect(await connect(server.port, host: "localhost", .system) == nil)
    await server.stop()

    let other = try ServerIdentity.selfSigned(names: ["gw.example.com", "127.0.0.2"])
    try TrustStore.shared.add(other)
    let otherServer = try await echoServer(identity: other)
    #expect(await connect(otherServer.port, host: "127.0.0.1", .system)?.kind == .untrusted(other.fingerprint))
    #expect(await connect(otherServer.port, host: "localhost", .system)?.kind == .untrusted(other.fingerprint))
    await otherServer.stop()
  }

  @Test("a probe reports fingerprint, subject and the system's opinion, and says no word of HTTP")
  func probe() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["localhost", "a\u{2e}b"])
    let heard = Seen<[UInt8]>()
    let server = listening(identity, heard: heard)
    let endpoint = Endpoint.local(server.port, tls: true, host: "localhost")
    let sighting = try await probeCertificate(of: endpoint, timeout: .seconds(15), loop: loop, proxy: nil)
    #expect(
      sighting
        == CertificateSighting(fingerprint: identity.fingerprint, subject: "CN=localhost", isSystemTrusted: false))
    try await eventually("the connection ends") { heard.all.count == 1 }
    #expect(heard.all == [[]])
    try TrustStore.shared.add(identity)
    let again = try await probeCertificate(of: endpoint, timeout: .seconds(15), loop: loop, proxy: nil)
    #expect(again.isSystemTrusted)
    let plain = await failure { () async throws(TransportError) in
      try await probeCertificate(of: .local(server.port), timeout: .seconds(15), loop: loop, proxy: nil)
    }
    #expect(plain?.kind == .address)
  }

  // MARK: The handshake

  @Test("a name is sent as server name, an address is not", arguments: [("localhost", true), ("127.0.0.1", false)])
  func serverName(host: String, isSent: Bool) async throws {
    let heard = Seen<[UInt8]>()
    let server = RawServer { heard.add($0.read()) }
    #expect(await connect(server.port, host: host, .system)?.kind == .lost)
    let hello = try #require(heard.all.first)
    #expect(hello.first == 0x16)
    #expect(hello.contains(Array(host.utf8)) == isSent)
  }

  @Test("a server that speaks no TLS, or hangs up in the handshake, is an error that says so")
  func noTLS() async throws {
    let plain = RawServer {
      _ = $0.read()
      $0.write("HTTP/1.1 400 Bad Request\r\n\r\n")
    }
    let error = await connect(plain.port, .system)
    #expect(error?.kind == .tls && error?.description.contains("does not speak TLS") == true)
    let gone = RawServer { _ = $0.read() }
    #expect(await connect(gone.port, .system)?.kind == .lost)
    let silent = RawServer { _ = $0.readToEnd() }
    let late = await failure { () async throws(TransportError) in
      try await WebSocket.connect(
        to: .local(silent.port, tls: true), options: ConnectOptions(timeout: .milliseconds(100)), loop: loop)
    }
    #expect(late?.kind == .timedOut)
  }

  @Test("a server of TLS 1.1 is refused")
  func oldTLS() async throws {
    let folder = TemporaryFolder()
    let (certificate, key) = try writeIdentity(in: folder)
    let context = SSL_CTX_new(TLS_server_method())!
    SSL_CTX_use_certificate_chain_file(context, certificate)
    SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM)
    SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(TLS1_VERSION), nil)
    SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, Int(TLS1_1_VERSION), nil)
    SSL_CTX_set_security_level(context, 0)
    defer { SSL_CTX_free(context) }
    let shared = SharedContext(context)
    let server = RawServer { peer in
      let session = SSL_new(shared.context)!
      SSL_set_accept_state(session)
      _ = peer.secure(session)
    }
    #expect(await connect(server.port, .system)?.kind == .tls)
  }

  // MARK: Identities

  @Test("an identity is read from files, and files that don't fit are refused")
  func files() async throws {
    let folder = TemporaryFolder()
    let (certificate, key) = try writeIdentity(in: folder)
    let identity = try ServerIdentity(certificateFile: certificate, keyFile: key)
    let server = try await echoServer(identity: identity)
    #expect(await connect(server.port, .pinned(identity.fingerprint)) == nil)
    await server.stop()
    let other = TemporaryFolder()
    let (_, otherKey) = try writeIdentity(in: other)
    #expect(throws: TransportError.self) { try ServerIdentity(certificateFile: certificate, keyFile: otherKey) }
    #expect(throws: TransportError.self) { try ServerIdentity(certificateFile: key, keyFile: key) }
    #expect(throws: TransportError.self) { try ServerIdentity(certificateFile: folder.path, keyFile: key) }
  }

  @Test(
    "names that could say more than a name are refused",
    arguments: [[], [""], ["a,DNS:b"], ["a b"], ["a\0b"], ["email:a"]])
  func badNames(names: [String]) {
    #expect(throws: TransportError.self) { try ServerIdentity.selfSigned(names: names) }
  }

  // MARK: Support

  /// Writes a certificate and its key as the `openssl` command would. Returns their paths.
  func writeIdentity(in folder: TemporaryFolder) throws -> (certificate: String, key: String) {
    let identity = try ServerIdentity.selfSigned(names: ["localhost"])
    let certificate = folder.path + "/certificate.pem"
    let key = folder.path + "/key.pem"
    try Files.writeAtomically(Array(identity.certificatePEM.utf8), to: certificate)
    let session = try identity.session()
    defer { SSL_free(session) }
    let file = BIO_new_file(key, "w")
    PEM_write_bio_PrivateKey(file, SSL_get_privatekey(session), nil, nil, 0, nil, nil)
    BIO_free(file)
    return (certificate, key)
  }
}

/// OpenSSL's default trust store for this process (SSL_CERT_FILE), to which tests add what they want to be trusted.
final class TrustStore: Sendable {
  static let shared = TrustStore()
  private let folder = TemporaryFolder()
  private let certificates = Lock("")

  private init() { setenv("SSL_CERT_FILE", folder.path + "/trusted.pem", 1) }

  func add(_ identity: ServerIdentity) throws {
    try certificates.withLock { certificates in
      certificates += identity.certificatePEM
      try Files.writeAtomically(Array(certificates.utf8), to: folder.path + "/trusted.pem")
    }
  }
}

/// A context for several threads.
// @unchecked Sendable: set up before, then only used to make sessions, which OpenSSL allows from any thread.
final class SharedContext: @unchecked Sendable {
  let context: OpaquePointer
  init(_ context: OpaquePointer) {
    SSL_CTX_up_ref(context)
    self.context = context
  }
  deinit { SSL_CTX_free(context) }
}
