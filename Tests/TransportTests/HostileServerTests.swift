import Crypto
import Glibc
import System
import TestSupport
import Testing

@testable import Transport

@Suite("A client against servers that misbehave")
struct HostileServerTests {
  /// How connecting to `server` fails.
  func refusal(by server: RawServer, timeout: Duration = .seconds(15)) async -> TransportError? {
    await failure { () async throws(TransportError) in
      try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(timeout: timeout), loop: loop)
    }
  }

  /// How a socket ends whose server upgrades it and then does as `talk` says.
  func ending(_ talk: @escaping @Sendable (RawPeer) -> Void) async throws -> (messages: [[UInt8]], closure: Closure) {
    let server = RawServer {
      $0.upgrade()
      talk($0)
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    var messages: [[UInt8]] = []
    while true {
      do throws(Closure) { messages.append(try await client.receive().bytes) } catch { return (messages, error) }
    }
  }

  // MARK: The upgrade

  @Test(
    "an answer that is no upgrade is an error with the server's status",
    arguments: [
      ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404),
      ("HTTP/1.1 503 Service Unavailable\r\n\r\nbusy", 503),
      ("HTTP/1.1 200 OK\r\n\r\n<html>", 200),
      ("HTTP/1.1 301 Moved Permanently\r\nLocation: https://elsewhere.example/\r\n\r\n", 301),
      ("HTTP/1.1 302 Found\r\nLocation: /login\r\n\r\n", 302),
      ("HTTP/1.0 400 Bad Request\r\n\r\n", 400),
      ("SSH-2.0-OpenSSH_9.2\r\n", 0),
      ("\u{15}\u{3}\u{1}", 0),
      ("HTTP/1.1 101 Switching Protocols\r\n\r\n", 101),
      (
        "HTTP/1.1 101 X\r\n" + String(repeating: "A: " + String(repeating: "b", count: 1000) + "\r\n", count: 20)
          + "\r\n", 0
      ),
    ])
  func noUpgrade(answer: String, status: Int) async {
    let server = RawServer {
      $0.read(until: "\r\n\r\n")
      $0.write(answer)
      $0.endWriting()
    }
    #expect(await refusal(by: server)?.kind == .notUpgraded(status))
  }

  @Test("a redirect is not followed, and its target is named")
  func redirect() async {
    let other = RawServer { _ in }
    let server = RawServer { [port = other.port] in
      $0.read(until: "\r\n\r\n")
      $0.write("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:\(port)/\r\n\r\n")
    }
    let error = await refusal(by: server)
    #expect(error?.kind == .notUpgraded(307) && error?.description.contains("http://127.0.0.1:\(other.port)/") == true)
    #expect(other.connections == 0)
  }

  @Test(
    "an upgrade must answer this very request",
    arguments: [
      "Sec-WebSocket-Accept: ", "Sec-WebSocket-Accept: x", "Upgrade: ", "Connection: ",
      "Sec-WebSocket-Extensions: permessage-deflate\r\nX: ", "Sec-WebSocket-Protocol: chat\r\nX: ", "lower",
    ])
  func badAccept(change: String) async {
    let server = RawServer { peer in
      var answer = RawPeer.answer(to: peer.read(until: "\r\n\r\n"))
      let name = String(change.prefix { $0 != ":" })
      if change == "lower" {
        // The value is base64: its case counts.
        answer = answer.split(separator: "\r\n", omittingEmptySubsequences: false)
          .map { $0.hasPrefix("Sec-WebSocket-Accept") ? $0.lowercased() : String($0) }.joined(separator: "\r\n")
      } else {
        answer = answer.split(separator: "\r\n", omittingEmptySubsequences: false)
          .map { $0.hasPrefix(name + ":") ? change : String($0) }.joined(separator: "\r\n")
        if name.hasSuffix("Extensions") || name.hasSuffix("Protocol") {
          answer = answer.dropLast(2) + change + "\r\n\r\n"
        }
      }
      peer.write(answer)
      _ = peer.readToEnd()
    }
    #expect(await refusal(by: server)?.kind == .notUpgraded(101))
  }

  @Test("names and lists in the answer count in any case")
  func anyCase() async throws {
    let server = RawServer { peer in
      let answer = RawPeer.answer(to: peer.read(until: "\r\n\r\n"))
      peer.write(
        answer.replacing("Upgrade: websocket", with: "UPGRADE: WebSocket")
          .replacing("Connection: Upgrade", with: "connection: keep-alive, upgrade"))
      _ = peer.readToEnd()
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    await client.drop("done")
  }

  @Test("a server that hangs up in the middle of the answer is a lost connection", arguments: [false, true])
  func hangsUp(withReset: Bool) async {
    let server = RawServer {
      $0.read(until: "\r\n\r\n")
      $0.write("HTTP/1.1 101 Switching")
      if withReset { $0.reset() }
    }
    #expect(await refusal(by: server)?.kind == .lost)
  }

  @Test(
    "a server that accepts and says nothing is a time-out, also in the middle of its answer",
    arguments: ["", "HTTP/1.1 10"])
  func silent(beginning: String) async {
    let server = RawServer {
      $0.write(beginning)
      _ = $0.readToEnd()
    }
    #expect(await refusal(by: server, timeout: .milliseconds(200))?.kind == .timedOut)
  }

  @Test("frames that come in one piece with the answer are read")
  func earlyFrames() async throws {
    let server = RawServer { peer in
      let answer = RawPeer.answer(to: peer.read(until: "\r\n\r\n"))
      peer.write(Array(answer.utf8) + [0x81, 0x02, 0x68, 0x69, 0x88, 0x02, 0x03, 0xE8])
      _ = peer.readToEnd()
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    #expect(try await client.receive().bytes == [0x68, 0x69])
    #expect(await closure { () async throws(Closure) in try await client.receive() }?.code == 1000)
  }

  // MARK: Frames

  @Test(
    "a server that ends in the middle of a frame or between two is a lost connection",
    arguments: [[], [0x81], [0x81, 0x05, 0x68]], [false, true])
  func midFrame(bytes: [UInt8], withReset: Bool) async throws {
    let (messages, closure) = try await ending {
      $0.write([0x81, 0x01, 0x61] + bytes)
      if withReset {
        // The reset overtakes what the kernel has not sent yet.
        usleep(50_000)
        $0.reset()
      }
    }
    #expect(messages == [[0x61]] && closure.code == 1006 && !closure.isClean)
  }

  @Test("a server that breaks the rules gets a close frame that says so")
  func violation() async throws {
    let answer = Seen<[UInt8]>()
    let (messages, closure) = try await ending {
      $0.write([0x81, 0x01, 0x61, 0xFF, 0xFF])
      answer.add($0.readToEnd())
    }
    #expect(messages == [[0x61]] && closure.code == 1002 && !closure.isClean)
    try await eventually("the close frame arrives") { answer.all.count == 1 }
    #expect(answer.all[0].first == 0x88)
    var decoder = FrameDecoder(expectsMask: true, maxMessage: 0)
    var events: [FrameDecoder.Event] = []
    try answer.all[0].withUnsafeBytes { try decoder.feed($0) { events.append($0) } }
    #expect(events == [.close(code: 1002, reason: closure.reason)])
  }

  @Test("text that is no UTF-8 ends with 1007")
  func notText() async throws {
    let (_, closure) = try await ending {
      $0.write([0x81, 0x02, 0xC3, 0x28])
      _ = $0.readToEnd()
    }
    #expect(closure.code == 1007)
  }

  @Test("text that is cut inside a character is whole again")
  func cutCharacter() async throws {
    let (messages, closure) = try await ending {
      for byte in [0x01, 0x02, 0xF0, 0x9F, 0x80, 0x02, 0x98, 0x80, 0x88, 0x00] as [UInt8] {
        $0.write([byte])
        usleep(2000)
      }
      _ = $0.readToEnd()
    }
    #expect(messages == [Array("😀".utf8)] && closure == Closure(code: 1005, reason: "", isClean: true))
  }

  @Test("whatever follows a close frame is nothing")
  func afterClose() async throws {
    let (messages, closure) = try await ending {
      $0.write([0x88, 0x02, 0x03, 0xE9, 0x81, 0x01, 0x61, 0xFF, 0xFF])
      _ = $0.readToEnd()
    }
    #expect(messages == [] && closure == Closure(code: 1001, reason: "", isClean: true))
  }

  @Test("a server that does not answer a goodbye is left after 2 s")
  func unansweredClose() async throws {
    let server = RawServer {
      $0.upgrade()
      _ = $0.readToEnd()
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    await client.close(code: 4000, reason: "tick timeout")
    #expect(
      await closure { () async throws(Closure) in try await client.receive() }
        == Closure(code: 4000, reason: "tick timeout", isClean: false))
  }

  @Test("a server that does not answer a ping is dropped")
  func noPong() async throws {
    let server = RawServer {
      $0.upgrade()
      _ = $0.readToEnd()
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    let result = await closure { () async throws(Closure) in try await client.ping(timeout: .milliseconds(100)) }
    #expect(result?.code == 1006 && result?.reason.contains("pong") == true)
    #expect(await closure { () async throws(Closure) in try await client.receive() } == result)
  }

  @Test("a pong that nobody asked for, or with another's payload, answers nothing")
  func strayPong() async throws {
    let server = RawServer {
      $0.upgrade()
      $0.write([0x8A, 0x00, 0x8A, 0x01, 0x01, 0x8A, 0x08, 0, 0, 0, 0, 0, 0, 0, 0])
      _ = $0.readToEnd()
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    let result = await closure { () async throws(Closure) in try await client.ping(timeout: .milliseconds(100)) }
    #expect(result?.code == 1006)
  }

  @Test("pings are answered with what they carry, also between the fragments of a message")
  func pings() async throws {
    let answers = Seen<[UInt8]>()
    let (messages, _) = try await ending {
      $0.write([0x02, 0x01, 1, 0x89, 0x03, 7, 8, 9, 0x80, 0x01, 2])
      answers.add($0.read(atLeast: 9))
      $0.write([0x88, 0x00])
      _ = $0.readToEnd()
    }
    #expect(messages == [[1, 2]])
    var decoder = FrameDecoder(expectsMask: true, maxMessage: 0)
    var events: [FrameDecoder.Event] = []
    try answers.all[0].withUnsafeBytes { try decoder.feed($0) { events.append($0) } }
    #expect(events == [.pong([7, 8, 9])])
  }

  @Test("a server that floods with tiny frames fills no memory: reading stops until somebody receives")
  func flood() async throws {
    let written = Lock(0)
    let server = RawServer { peer in
      peer.upgrade()
      let frames =
        [UInt8](repeating: 0, count: 100_000).enumerated().map { $0.offset % 2 == 0 ? 0x82 : 0x00 } as [UInt8]
      for _ in 0..<1000 {
        peer.write(frames)
        written.withLock { $0 += frames.count }
      }
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    var before = -1
    try await eventually("the server is stuck") {
      let now = written.withLock { $0 }
      defer { before = now }
      try await Task.sleep(for: .milliseconds(100))
      return now == before && now > 0
    }
    #expect(written.withLock { $0 } < 90_000_000)
    #expect(try await client.receive().bytes == [])
    await client.drop("done")
  }
}
