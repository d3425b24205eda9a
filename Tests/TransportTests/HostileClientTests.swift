import Glibc
import System
import TestSupport
import Testing

@testable import Transport

@Suite("A server against clients that misbehave")
struct HostileClientTests {
  /// What the server answers to a request, on a thread that may block.
  func answer(to request: String, port: UInt16) async -> String {
    await blocking {
      let peer = RawPeer(port: port)
      peer.write(request)
      return String(decoding: peer.readToEnd(), as: UTF8.self)
    }
  }

  @Test(
    "a request that is no upgrade gets a status and the end",
    arguments: [
      ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 426),
      (RawPeer.request.replacing("Version: 13", with: "Version: 8"), 426),
      (RawPeer.request.replacing("Upgrade: websocket", with: "Upgrade: h2c"), 426),
      (RawPeer.request.replacing("GET /", with: "POST /"), 400),
      (RawPeer.request.replacing("GET / ", with: "GET http://a/ "), 400),
      (RawPeer.request.replacing("Host: localhost\r\n", with: ""), 400),
      (RawPeer.request.replacing("Host: localhost", with: "Host: a\r\nHost: b"), 400),
      (RawPeer.request.replacing("Host: localhost", with: "Host: a\r\nContent-Length: 5"), 400),
      (RawPeer.request.replacing("Host: localhost", with: "Host: a\r\nTransfer-Encoding: chunked"), 400),
      (RawPeer.request.replacing("dGhlIHNhbXBsZSBub25jZQ==", with: "short"), 400),
      (RawPeer.request.replacing("dGhlIHNhbXBsZSBub25jZQ==", with: "********************!!=="), 400),
      (RawPeer.request.replacing("HTTP/1.1", with: "HTTP/1.0"), 400),
      ("garbage\r\n\r\n", 400),
      ("\u{16}\u{3}\u{1}\u{2}\r\n\r\n", 400),
      ("GET / HTTP/1.1\r\nA: " + String(repeating: "a", count: 20_000), 431),
      (RawPeer.request.replacing("GET /", with: "GET /secret"), 403),
    ])
  func refused(request: String, status: Int) async throws {
    let server = try WebSocketServer(
      loop: loop, maxMessage: 100, accept: { $0.path == "/secret" ? 403 : nil }, handler: { _ in })
    await server.start()
    let answer = await answer(to: request, port: server.port)
    #expect(answer.hasPrefix("HTTP/1.1 \(status) ") && answer.contains("Connection: close"), "\(answer)")
    await server.stop()
  }

  @Test(
    "a client that never finishes its request, or its TLS handshake, does not keep the others waiting",
    arguments: [false, true])
  func slow(isTLS: Bool) async throws {
    let identity = isTLS ? try ServerIdentity.selfSigned(names: ["localhost"]) : nil
    let server = try await echoServer(identity: identity)
    let slow = (0..<20).map { _ in RawPeer(port: server.port) }
    for peer in slow { peer.write("GET / HT") }
    let trust = identity.map { Trust.pinned($0.fingerprint) } ?? .system
    let client = try await WebSocket.connect(
      to: .local(server.port, tls: isTLS), options: ConnectOptions(trust), loop: loop)
    try await client.send([1])
    #expect(try await client.receive().bytes == [1])
    await server.stop()
    // Stopping ends the half-open ones too.
    for peer in slow { #expect(await blocking { peer.readToEnd() }.count < 10) }
  }

  @Test("a client that opens nothing within its time is hung up on")
  func headDeadline() async throws {
    let error = await failure { () async throws(TransportError) in
      let (near, far) = socketPair()
      let peer = RawPeer(descriptor: far)
      defer { peer.close() }
      peer.write("GET / HTTP/1.1\r\n")
      return try await Opening.run(loop: loop, limit: .milliseconds(100)) { opening throws(TransportError) in
        try await WebSocket.accept(
          Channel(descriptor: near), from: "test", identity: nil, loop: loop, maxMessage: 1, opening: opening,
          accept: { _ in nil })
      }
    }
    #expect(error?.kind == .timedOut)
  }

  @Test("a client that vanishes at any moment leaves the server as it was")
  func vanishing() async throws {
    let server = try await echoServer()
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededRandom(seed: seed)
    let frame: [UInt8] = [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]
    let whole = Array(RawPeer.request.utf8) + frame + frame
    for _ in 0..<60 {
      let peer = RawPeer(port: server.port)
      peer.write(Array(whole.prefix(Int.random(in: 0...whole.count, using: &random))))
      if Bool.random(using: &random) { peer.reset() } else { peer.close() }
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    try await client.send([1])
    #expect(try await client.receive().bytes == [1], "seed \(seed)")
    await client.close()
    await server.stop()
  }

  @Test("a client that does not mask is told 1002")
  func unmasked() async throws {
    let server = try await echoServer()
    let answer = await blocking { [port = server.port] in
      let peer = RawPeer(port: port)
      peer.write(RawPeer.request)
      peer.read(until: "\r\n\r\n")
      peer.write([0x81, 0x01, 0x61])
      return peer.readToEnd()
    }
    #expect(answer.prefix(1) == [0x88] && answer[2...3] == [0x03, 0xEA])
    await server.stop()
  }

  @Test("when no descriptor is left, the listener rests and goes on later")
  func noDescriptors() async throws {
    let attempts = Lock(0)
    let listening = streamSocket(AF_INET)
    guard case .success(let addresses) = Address.lookUp("127.0.0.1", 0, isNumeric: true) else { return }
    #expect(addresses[0].with { bind(listening, $0, $1) } == 0 && listen(listening, 8) == 0)
    let port = try #require(Address.local(of: listening)).port
    let accepted = Seen<Int32>()
    let owner = ListenerOwner()
    @Sendable func accept(_ descriptor: Int32) -> Int32 {
      let count = attempts.withLock { count in
        count += 1
        return count
      }
      if count <= 3 {
        errno = EMFILE
        return -1
      }
      return Listener.acceptNext(descriptor)
    }
    await owner.start(listening, accepted: { accepted.add($0) }, by: accept)
    let peer = RawPeer(port: port)
    try await eventually("the connection is accepted in the end") { accepted.all.count == 1 }
    // Three rests of 100 ms: a listener that spins would have tried thousands of times.
    #expect(attempts.withLock { $0 } <= 6)
    await owner.stop()
    for descriptor in accepted.all { close(descriptor) }
    peer.close()
  }
}

/// Somebody on the loop for a listener to belong to.
private actor ListenerOwner {
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private var listener: Listener?

  func start(
    _ descriptor: Int32, accepted: @escaping @Sendable (Int32) -> Void, by accept: @escaping @Sendable (Int32) -> Int32
  ) {
    listener = Listener(descriptor: descriptor, loop: loop, accept: accept)
    listener?.start(accepted)
  }

  func stop() {
    listener?.close()
    listener = nil
  }
}

/// Two ends of one connection, the first for the loop, the second blocking.
func socketPair() -> (Int32, Int32) {
  var pair: [Int32] = [-1, -1]
  precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &pair) == 0)
  _ = fcntl(pair[0], F_SETFL, O_NONBLOCK)
  return (pair[0], pair[1])
}
