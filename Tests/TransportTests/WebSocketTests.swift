import Crypto
import System
import TestSupport
import Testing

@testable import Transport

@Suite("A WebSocket between our client and our server")
struct WebSocketTests {
  private let own = OwnLoop()
  private var loop: EventLoop { own.loop }

  /// A client and the server's end of the same socket, which stays with the test.
  func pair(
    isTLS: Bool = false, maxMessage: Int = 26_214_400
  ) async throws -> (client: WebSocket, far: WebSocket, server: WebSocketServer) {
    let identity = isTLS ? try ServerIdentity.selfSigned(names: ["localhost"]) : nil
    let (ends, arrived) = AsyncStream.makeStream(of: WebSocket.self)
    let server = try WebSocketServer(identity: identity, loop: loop, maxMessage: maxMessage) { socket in
      arrived.yield(socket)
      while await !socket.hasEnded {
        do { try await Task.sleep(for: .milliseconds(5)) } catch { return }
      }
    }
    await server.start()
    let trust = identity.map { Trust.pinned($0.fingerprint) } ?? .system
    let client = try await WebSocket.connect(
      to: .local(server.port, tls: isTLS, path: "/context"), options: ConnectOptions(trust), loop: loop)
    var iterator = ends.makeAsyncIterator()
    return (client, await iterator.next()!, server)
  }

  // MARK: Messages

  @Test("messages of every size come back as they went, plain and over TLS", arguments: [false, true])
  func echo(isTLS: Bool) async throws {
    let identity = isTLS ? try ServerIdentity.selfSigned(names: ["localhost"]) : nil
    let server = try await echoServer(identity: identity, on: loop)
    let trust = identity.map { Trust.pinned($0.fingerprint) } ?? .system
    let client = try await WebSocket.connect(
      to: .local(server.port, tls: isTLS), options: ConnectOptions(trust), loop: loop)
    for size in [0, 1, 125, 126, 65_535, 65_536, 26_214_400] {
      let isText = size % 2 == 0
      let bytes = [UInt8](repeating: 97, count: size)
      async let answer = client.receive()
      try await client.send(bytes, text: isText)
      #expect(try await answer == Message(bytes: bytes, isText: isText))
    }
    #expect(client.peerFingerprint == identity?.fingerprint)
    await client.close()
    await server.stop()
  }

  @Test("many small messages keep their order, sent by one task and read by another")
  func order() async throws {
    let (client, far, server) = try await pair()
    let count = 5000
    async let numbers: [String] = {
      var numbers: [String] = []
      while numbers.count < count { numbers.append(String(decoding: try await far.receive().bytes, as: UTF8.self)) }
      return numbers
    }()
    for number in 0..<count { try await client.send(Array("\(number)".utf8)) }
    #expect(try await numbers == (0..<count).map { "\($0)" })
    await client.close()
    await server.stop()
  }

  @Test("the server sees the path, the headers and the address of the request, and no Origin and no extension")
  func request() async throws {
    let (client, far, server) = try await pair()
    let request = try #require(far.request)
    #expect(request.path == "/context" && request.remoteAddress == "127.0.0.1")
    #expect(request.headers["host"] == "127.0.0.1:\(server.port)")
    #expect(request.headers["origin"] == nil && request.headers["sec-websocket-extensions"] == nil)
    await client.close()
    await server.stop()
  }

  @Test("extra headers go out on wss only")
  func extraHeaders() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["localhost"])
    for isTLS in [false, true] {
      let seen = Seen<String?>()
      let server = try WebSocketServer(
        identity: isTLS ? identity : nil, loop: loop, maxMessage: 100,
        accept: { request in
          seen.add(request.headers["cf-access-client-id"])
          return nil
        }, handler: { _ in })
      await server.start()
      var options = ConnectOptions(.pinned(identity.fingerprint))
      options.headers = [("CF-Access-Client-Id", "abc")]
      _ = try await WebSocket.connect(to: .local(server.port, tls: isTLS), options: options, loop: loop)
      #expect(seen.all == [isTLS ? "abc" : nil])
      await server.stop()
    }
  }

  @Test(
    "headers that would change the request itself are refused before anything is sent",
    arguments: [
      ("Host", "a"), ("Origin", "a"), ("sec-websocket-key", "a"), ("A B", "a"), ("A", "a\r\nB: c"), ("", "a"),
    ])
  func badHeaders(name: String, value: String) async {
    var options = ConnectOptions()
    options.headers = [(name, value)]
    let error = await failure { () async throws(TransportError) in
      try await WebSocket.connect(to: .local(1, tls: true), options: options, loop: loop)
    }
    #expect(error?.kind == .address)
  }

  // MARK: Closing

  @Test("code and reason of a goodbye reach the other side, whoever says it", arguments: [false, true], [false, true])
  func closing(byServer: Bool, isTLS: Bool) async throws {
    let (client, far, server) = try await pair(isTLS: isTLS)
    let (sayer, hearer) = byServer ? (far, client) : (client, far)
    async let heard = closure { () async throws(Closure) in try await hearer.receive() }
    await sayer.close(code: 4001, reason: "gateway auth changed")
    #expect(await heard == Closure(code: 4001, reason: "gateway auth changed", isClean: true))
    let own = await closure { () async throws(Closure) in try await sayer.receive() }
    #expect(own == Closure(code: 4001, reason: "gateway auth changed", isClean: true))
    let sent = await closure { () async throws(Closure) in try await hearer.send([1]) }
    #expect(sent?.code == 4001)
    await server.stop()
  }

  @Test("what came before the goodbye is delivered before the closure is thrown")
  func deliveredFirst() async throws {
    let (client, far, server) = try await pair()
    for number in UInt8(0)..<10 { try await far.send([number], text: false) }
    await far.close(code: 1012, reason: "service restart")
    for number in UInt8(0)..<10 { #expect(try await client.receive().bytes == [number]) }
    let closure = await closure { () async throws(Closure) in try await client.receive() }
    #expect(closure?.code == 1012)
    await server.stop()
  }

  @Test("both saying goodbye at once is two clean goodbyes")
  func simultaneous() async throws {
    let (client, far, server) = try await pair()
    async let first: Void = client.close(code: 4100)
    async let second: Void = far.close(code: 4200)
    _ = await (first, second)
    for socket in [client, far] {
      #expect(await closure { () async throws(Closure) in try await socket.receive() }?.isClean == true)
    }
    await server.stop()
  }

  @Test("closing twice, and closing after the end, returns at once")
  func closingTwice() async throws {
    let (client, _, server) = try await pair()
    await client.close()
    await client.close(code: 4000)
    let closure = await closure { () async throws(Closure) in try await client.receive() }
    #expect(closure?.code == 1000)
    await server.stop()
  }

  @Test("a drop leaves without a goodbye")
  func dropped() async throws {
    let (client, far, server) = try await pair()
    await client.drop("the clock jumped")
    let own = await closure { () async throws(Closure) in try await client.receive() }
    #expect(own == Closure(code: 1006, reason: "the clock jumped", isClean: false))
    let other = await closure { () async throws(Closure) in try await far.receive() }
    #expect(other?.code == 1006 && other?.isClean == false)
    await server.stop()
  }

  @Test("a socket that nobody holds any more ends")
  func released() async throws {
    let (client, far, server) = try await pair()
    var held: WebSocket? = client
    _ = consume client
    try await held?.send([1])
    held = nil
    #expect(try await far.receive().bytes == [1])
    #expect(await closure { () async throws(Closure) in try await far.receive() }?.code == 1006)
    await server.stop()
  }

  @Test("stopping the server says 1001 to all its clients")
  func stopping() async throws {
    let server = try await echoServer(on: loop)
    var clients: [WebSocket] = []
    for _ in 0..<5 {
      clients.append(
        try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop))
    }
    await server.stop()
    for client in clients {
      #expect(await closure { () async throws(Closure) in try await client.receive() }?.code == 1001)
    }
    let refused = await failure { () async throws(TransportError) in
      try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    }
    #expect(refused?.kind == .refused)
  }

  @Test("a server can start again on the port it had, while the old connections still fade")
  func restart() async throws {
    let first = try await echoServer(on: loop)
    let client = try await WebSocket.connect(to: .local(first.port), options: ConnectOptions(), loop: loop)
    await first.stop()
    let second = try WebSocketServer(port: first.port, loop: loop, maxMessage: 100) { _ in }
    await second.start()
    let again = try await WebSocket.connect(to: .local(second.port), options: ConnectOptions(), loop: loop)
    #expect(await closure { () async throws(Closure) in try await again.receive() }?.code == 1000)
    await second.stop()
    _ = client
  }

  @Test("a port that is taken is an error of the server's init")
  func portTaken() async throws {
    let server = try await echoServer(on: loop)
    #expect(throws: TransportError.self) {
      try WebSocketServer(port: server.port, loop: loop, maxMessage: 100) { _ in }
    }
    await server.stop()
  }

  // MARK: Keeping alive

  @Test("a ping is answered, also when several are under way, and moves the last activity")
  func pings() async throws {
    let (client, far, server) = try await pair()
    let before = await client.lastActivity
    async let first: Void = client.ping(timeout: .seconds(20))
    async let second: Void = client.ping(timeout: .seconds(20))
    try await first
    try await second
    try await far.ping(timeout: .seconds(20))
    #expect(await client.lastActivity > before)
    await client.close()
    await server.stop()
  }

  @Test("a ping behind a long message waits for it; only a standstill is taken for death", arguments: [false, true])
  func pingBehind(isReadInTime: Bool) async throws {
    let (client, far, server) = try await pair()
    let message = [UInt8](repeating: 1, count: 100_000)
    let sender = Task { for _ in 0..<300 { try await client.send(message, text: false) } }
    try await eventually("the sender waits") { await client.bufferedBytes > 0 }
    let limit: Duration = isReadInTime ? .seconds(60) : .milliseconds(100)
    let pinger = Task { await closure { () async throws(Closure) in try await client.ping(timeout: limit) } }
    if isReadInTime {
      for _ in 0..<300 { #expect(try await far.receive().bytes == message) }
      try await sender.value
      #expect(await pinger.value == nil)
      await client.close()
    } else {
      #expect(await pinger.value?.reason == "nothing could be sent for 0.1 s")
      _ = await sender.result
    }
    await server.stop()
  }

  // MARK: Limits

  @Test("a message over the limit is refused with 1009, also one from a server to a client")
  func tooLong() async throws {
    let (client, far, server) = try await pair(maxMessage: 65_536)
    try await client.send([UInt8](repeating: 0, count: 65_536))
    #expect(try await far.receive().bytes.count == 65_536)
    try await client.send([UInt8](repeating: 0, count: 65_537))
    #expect(await closure { () async throws(Closure) in try await client.receive() }?.code == 1009)
    await server.stop()
  }

  @Test("the limit can be raised for one socket")
  func raisedLimit() async throws {
    let (client, far, server) = try await pair(maxMessage: 65_536)
    await far.setMaxMessage(1 << 20)
    try await client.send([UInt8](repeating: 0, count: 1 << 20))
    #expect(try await far.receive().bytes.count == 1 << 20)
    await client.close()
    await server.stop()
  }

  @Test("50 MB against a limit of 25 MiB ends with 1009 on the sender's side too", arguments: [false, true])
  func farTooLong(isTLS: Bool) async throws {
    let (client, _, server) = try await pair(isTLS: isTLS)
    let sent = await closure { () async throws(Closure) in
      try await client.send([UInt8](repeating: 0, count: 50_000_000), text: false)
    }
    let heard = await closure { () async throws(Closure) in try await client.receive() }
    #expect(heard?.code == 1009 && (sent == nil || sent?.code == 1009))
    await server.stop()
  }

  @Test("a peer that does not read makes the sender wait, and 64 MiB unsent is the end of patience")
  func backPressure() async throws {
    let (client, far, server) = try await pair()
    let message = [UInt8](repeating: 7, count: 16 << 20)
    // How many it takes depends on how much of the first the other side's socket reads ahead, and the kernel holds.
    let refused = Seen<Closure>()
    var senders: [Task<Bool, Never>] = []
    try await eventually("one is refused") {
      senders.append(
        Task {
          let closure = await closure { () async throws(Closure) in try await client.send(message, text: false) }
          if let closure { refused.add(closure) }
          return closure == nil
        })
      return !refused.all.isEmpty
    }
    #expect(refused.all.first == .tooMuchUnsent)
    // When the other side reads at last, all that was taken arrives.
    let arrived = Seen<Bool>()
    let reader = Task { while let next = try? await far.receive() { arrived.add(next.bytes == message) } }
    let taken = await senders.asyncMap { await $0.value }.count { $0 }
    try await eventually("all that was taken arrives") { arrived.all.count == taken }
    #expect(taken >= 4 && !arrived.all.contains(false))
    await client.drop("done")
    await reader.value
    #expect(arrived.all.count == taken)
    await server.stop()
  }

  @Test("a reader that stops reading stops the sender, not the program", arguments: [false, true])
  func unreadMessages(isTLS: Bool) async throws {
    let (client, far, server) = try await pair(isTLS: isTLS)
    let message = [UInt8](repeating: 1, count: 100_000)
    let sender = Task { for _ in 0..<300 { try await far.send(message, text: false) } }
    try await eventually("the sender waits") { await far.bufferedBytes > 0 }
    for _ in 0..<300 { #expect(try await client.receive().bytes == message) }
    try await sender.value
    await client.close()
    await server.stop()
  }

  // MARK: Cancellation

  @Test("a cancelled receive returns at once, and the next message goes to the next reader")
  func cancelledReceive() async throws {
    let (client, far, server) = try await pair()
    let reader = Task { await closure { () async throws(Closure) in try await client.receive() } }
    reader.cancel()
    #expect(await reader.value == .cancelled)
    try await far.send([5], text: false)
    #expect(try await client.receive().bytes == [5])
    await client.close()
    await server.stop()
  }

  @Test("a cancelled send returns at once and leaves the stream whole")
  func cancelledSend() async throws {
    let (client, far, server) = try await pair()
    let big = [UInt8](repeating: 3, count: 20 << 20)
    let sender = Task { await closure { () async throws(Closure) in try await client.send(big, text: false) } }
    try await eventually("the kernel's buffers are full") { await client.bufferedBytes > 0 }
    sender.cancel()
    #expect(await sender.value == .cancelled)
    async let second: Void = client.send([9], text: false)
    #expect(try await far.receive().bytes == big)
    #expect(try await far.receive().bytes == [9])
    try await second
    await client.close()
    await server.stop()
  }

  @Test("a cancelled ping and a cancelled close leave the socket as it was")
  func cancelledPing() async throws {
    let (client, far, server) = try await pair()
    let pinger = Task { await closure { () async throws(Closure) in try await client.ping(timeout: .seconds(60)) } }
    pinger.cancel()
    let result = await pinger.value
    #expect(result == nil || result == .cancelled)
    try await client.send([1])
    #expect(try await far.receive().bytes == [1])
    await client.close()
    await server.stop()
  }
}

extension Array {
  fileprivate func asyncMap<Result>(_ transform: (Element) async -> Result) async -> [Result] {
    var results: [Result] = []
    for element in self { results.append(await transform(element)) }
    return results
  }
}
