import System
import TestSupport
import Testing

@testable import Transport

@Suite("Messages that are handed over as they come")
struct DeliveryTests {
  private let sockets = WebSocketTests()

  /// What an owner was handed: the first byte of each message.
  private func delivery(
    of socket: WebSocket, to seen: Seen<UInt8>, _ act: @escaping @Sendable (UInt8) -> WebSocket.Taken = { _ in .wholly }
  ) -> Task<Closure, Never> {
    Task {
      await socket.deliver { message in
        seen.add(message.bytes[0])
        return act(message.bytes[0])
      }
    }
  }

  @Test(
    "all come in order, those too that came before there was an owner, and the goodbye last", arguments: [false, true])
  func order(isTLS: Bool) async throws {
    let (client, far, server) = try await sockets.pair(isTLS: isTLS)
    for number in UInt8(0)..<100 { try await far.send([number], text: false) }
    try await eventually("some have come") { await client.inbox.count > 0 }
    let seen = Seen<UInt8>()
    let delivery = delivery(of: client, to: seen)
    for number in UInt8(100)..<200 { try await far.send([number], text: false) }
    await far.close(code: 1012, reason: "service restart")
    #expect(await delivery.value == Closure(code: 1012, reason: "service restart", isClean: true))
    #expect(seen.all == Array(0..<200))
    await server.stop()
  }

  @Test("what is held waits, and the sender with it; then all of it comes, and the goodbye behind it")
  func held() async throws {
    let (client, far, server) = try await sockets.pair()
    let seen = Seen<UInt8>()
    let delivery = delivery(of: client, to: seen) { $0 % 50 == 0 ? .andHold : .wholly }
    let sender = Task {
      for number in UInt8(0)..<250 { try await far.send([UInt8](repeating: number, count: 200_000), text: false) }
      await far.close(code: 4000, reason: "done")
    }
    for held in UInt8(0)..<5 {
      try await eventually("the next is held") { seen.all.last == held * 50 }
      if held == 0 { try await eventually("the sender waits") { await far.bufferedBytes > 0 } }
      #expect(await client.inbox.count <= 64 + 1)
      #expect(seen.all.count == Int(held) * 50 + 1)
      await client.goOn()
    }
    try await sender.value
    #expect(await delivery.value.code == 4000)
    #expect(seen.all == Array(0..<250))
    await server.stop()
  }

  @Test("a socket that ends while its message is held: the rest is handed over before the end is told")
  func endsHeld() async throws {
    let (client, far, server) = try await sockets.pair()
    let seen = Seen<UInt8>()
    let delivery = delivery(of: client, to: seen) { $0 == 0 ? .andHold : .wholly }
    for number in UInt8(0)..<3 { try await far.send([number], text: false) }
    await far.close(code: 4000)
    try await eventually("it has ended") { await client.hasEnded }
    #expect(seen.all == [0])
    await client.goOn()
    #expect(await delivery.value.code == 4000)
    #expect(seen.all == [0, 1, 2])
    await client.goOn()
    await server.stop()
  }

  @Test("an owner may change, answer on and drop its socket while it is handed a message")
  func actsAtOnce() async throws {
    let (client, far, server) = try await sockets.pair()
    await far.setMaxMessage(10)
    let seen = Seen<UInt8>()
    let delivery = delivery(of: far, to: seen) { number in
      far.assumeIsolated { far in
        switch number {
        case 1: far.setMaxMessage(1000)
        case 2: try? far.post([42], text: false)
        default: far.drop("enough")
        }
      }
      return .wholly
    }
    try await client.send([1], text: false)
    try await eventually("it is taken") { seen.all == [1] }
    try await client.send([UInt8](repeating: 2, count: 900), text: false)
    #expect(try await client.receive().bytes == [42])
    try await client.send([3], text: false)
    #expect(await delivery.value == Closure(code: 1006, reason: "enough", isClean: false))
    #expect(seen.all == [1, 2, 3])
    await server.stop()
  }

  @Test("a cancelled delivery returns at once, and what comes then is for the next reader", arguments: [false, true])
  func cancelled(beforeItBegins: Bool) async throws {
    let (client, far, server) = try await sockets.pair()
    let seen = Seen<UInt8>()
    let delivery = delivery(of: client, to: seen)
    if !beforeItBegins {
      try await far.send([1], text: false)
      try await eventually("it goes on") { seen.all == [1] }
    }
    delivery.cancel()
    #expect(await delivery.value == .cancelled)
    try await far.send([5], text: false)
    #expect(try await client.receive().bytes == [5])
    await client.close()
    await server.stop()
  }

  @Test("who goes on while it is still handed a message, and after the end, goes on")
  func goesOnAtOnce() async throws {
    let (client, far, server) = try await sockets.pair()
    let seen = Seen<UInt8>()
    let delivery = delivery(of: client, to: seen) { _ in
      client.assumeIsolated { $0.goOn() }
      return .andHold
    }
    for number in UInt8(0)..<200 { try await far.send([number], text: false) }
    await far.close(code: 4000)
    #expect(await delivery.value.code == 4000)
    #expect(seen.all == Array(0..<200))
    await client.goOn()
    await server.stop()
  }

  @Test("a peer that breaks the rules: what came before is handed over, then the violation")
  func violation() async throws {
    let server = RawServer { peer in
      peer.upgrade()
      peer.write([0x82, 0x01, 7, 0x82, 0x01, 8, 0xFF, 0xFF])
      _ = peer.readToEnd()
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: loop)
    let seen = Seen<UInt8>()
    #expect(await delivery(of: client, to: seen).value.code == 1002)
    #expect(seen.all == [7, 8])
  }

  @Test("a peer that floods its owner leaves the others on the loop their turn")
  func flood() async throws {
    let own = OwnLoop()
    let written = Lock(0)
    let count = 200_000
    let server = RawServer { peer in
      peer.upgrade()
      let frames = [UInt8]((0..<2000).flatMap { _ in [0x82, 38] + [UInt8](repeating: 1, count: 38) })
      for _ in 0..<(count / 2000) {
        peer.write(frames)
        written.withLock { $0 += frames.count }
      }
    }
    let client = try await WebSocket.connect(to: .local(server.port), options: ConnectOptions(), loop: own.loop)
    try await eventually("much waits in the kernel") { written.withLock { $0 } > 300_000 }
    let turns = Turns(loop: own.loop)
    let closure = await client.deliver { _ in
      turns.note()
      return .wholly
    }
    #expect(closure.code == 1006)
    #expect(turns.all == count)
    // What one read(2) brings, and what was left of the one before.
    #expect(turns.longest <= (128 << 10) / 40 + 64 + 1)
    turns.end()
  }

  /// How much happens between two turns of something else on the same loop.
  private final class Turns: Sendable {
    private let counts = Lock((all: 0, now: 0, longest: 0, isOver: false))
    private let loop: EventLoop

    init(loop: EventLoop) {
      self.loop = loop
      turn()
    }

    private func turn() {
      counts.withLock { $0.now = 0 }
      if !counts.withLock({ $0.isOver }) { loop.perform { self.turn() } }
    }

    func note() {
      counts.withLock {
        $0.all += 1
        $0.now += 1
        $0.longest = max($0.longest, $0.now)
      }
    }

    var all: Int { counts.withLock { $0.all } }
    var longest: Int { counts.withLock { $0.longest } }
    func end() { counts.withLock { $0.isOver = true } }
  }
}
