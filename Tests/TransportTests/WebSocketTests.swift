import Crypto
import System
import Testing

@testable import Transport

@Suite("A WebSocket between our client and our server")
struct WebSocketTests {
  let loop = EventLoop(name: "test")

  @Test("messages come back as they went, plain and over TLS", arguments: [false, true])
  func echo(isTLS: Bool) async throws {
    let identity = isTLS ? try ServerIdentity.selfSigned(names: ["localhost", "127.0.0.1"]) : nil
    let server = try WebSocketServer(identity: identity, loop: loop, maxMessage: 26_214_400) { socket in
      while let message = try? await socket.receive() {
        do { try await socket.send(message.bytes, text: message.isText) } catch { return }
      }
    }
    await server.start()
    var options = ConnectOptions()
    if let identity { options.trust = .pinned(identity.fingerprint) }
    let client = try await WebSocket.connect(
      to: Endpoint(isTLS: isTLS, host: "127.0.0.1", port: server.port), options: options, loop: loop)
    for size in [0, 1, 125, 126, 65_535, 65_536, 26_214_400] {
      let bytes = [UInt8](repeating: 97, count: size)
      async let answer = client.receive()
      try await client.send(bytes)
      let got = try await answer
      #expect(got == Message(bytes: bytes, isText: true))
    }
    try await client.ping(timeout: .seconds(5))
    await client.close(code: 4000, reason: "bye")
    await server.stop()
    loop.stop()
  }
}
