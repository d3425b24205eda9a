import Crypto
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing
import Transport

@testable import GatewayClient

/// A web server for one request: gives the same bytes to whoever comes first.
private final class OneAnswer: Sendable {
  let port: UInt16
  private let descriptor: Int32
  let asked = Lock<String>("")

  init(_ answer: [UInt8]) {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var size = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = descriptor
    port = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        precondition(bind(descriptor, $0, size) == 0 && listen(descriptor, 4) == 0)
        getsockname(descriptor, $0, &size)
      }
      return UInt16(bigEndian: $0.pointee.sin_port)
    }
    let asked = asked
    _ = startThread(name: "one answer") {
      let peer = accept(descriptor, nil, nil)
      Glibc.close(descriptor)
      if peer < 0 { return }
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = read(peer, &bytes, bytes.count)
      asked.withLock { $0 = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self) }
      _ = send(peer, answer, answer.count, Int32(MSG_NOSIGNAL))
      shutdown(peer, Int32(SHUT_WR))
      _ = read(peer, &bytes, bytes.count)
      Glibc.close(peer)
    }
  }

  // Somebody asks, always: the thread closes the descriptor when it has accepted.
}

@Suite("A join link")
struct JoinLinkTests {
  let folder = TemporaryFolder()

  private func offer(_ answer: String) async throws -> (GatewayOffer, asked: String) {
    let server = OneAnswer(Array(answer.utf8))
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let pairing = Pairing(registry: GatewayRegistry(state: try folder.state()), loop: loop)
    let offer = try await pairing.offer(parsing: "http://127.0.0.1:\(server.port)/claw/j/Ab-9")
    return (offer, server.asked.withLock { $0 })
  }

  static let payload = #"{"url":"wss://gw.example.com","bootstrapToken":"once"}"#

  @Test("is fetched once and read like a setup code")
  func fetched() async throws {
    let (offer, asked) = try await offer(
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(Self.payload.utf8.count)\r\n\r\n\(Self.payload)"
    )
    #expect(offer.primary.host == "gw.example.com" && offer.bootstrapToken == "once")
    #expect(asked.hasPrefix("GET /claw/j/Ab-9 HTTP/1.0\r\nHost: 127.0.0.1:") && !asked.contains("Origin"))
    // Also when the answer ends with the connection.
    let (again, _) = try await self.offer("HTTP/1.0 200 OK\r\n\r\n\(Self.payload)")
    #expect(again == offer)
  }

  @Test(
    "that leads elsewhere, to too much or to nothing is refused",
    arguments: [
      "HTTP/1.1 302 Found\r\nLocation: https://evil.example.com/\r\n\r\n", "HTTP/1.1 404 Not Found\r\n\r\n", "nonsense",
      "",
      "HTTP/1.1 200 OK\r\nContent-Length: 24577\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
      "HTTP/1.1 200 OK\r\n\r\nnot json", "HTTP/1.1 200 OK\r\n\r\n[]",
      "HTTP/1.1 200 OK\r\n\r\n{\"url\":\"ws://8.8.8.8\"}",
      "HTTP/1.1 200 OK\r\n\r\n" + String(repeating: " ", count: 30_000),
    ])
  func refused(answer: String) async throws {
    await #expect(throws: LinkError.self) { try await offer(answer) }
  }
}
