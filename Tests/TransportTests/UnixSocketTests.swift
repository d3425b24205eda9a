import Glibc
import System
import TestSupport
import Testing

@testable import Transport

@Suite("Lines over a Unix socket")
struct UnixSocketTests {
  let folder = TemporaryFolder()
  var path: String { folder.path + "/control.sock" }

  /// A server that sends every line back.
  func echo(_ path: String) async throws -> UnixServer {
    let server = try UnixServer(path: path, loop: loop) { connection in
      while let line = try? await connection.readLine(limit: 4 << 20) {
        do { try await connection.writeLine(line) } catch { return }
      }
    }
    await server.start()
    return server
  }

  func connect(_ path: String) async throws(TransportError) -> UnixConnection {
    try await UnixConnection.connect(path: path, loop: loop, timeout: .seconds(15))
  }

  @Test("lines come back as they went, the empty and the long ones too")
  func lines() async throws {
    let server = try await echo(path)
    let client = try await connect(path)
    for count in [0, 1, 100_000, 4 << 20, 5] {
      let line = [UInt8](repeating: 65, count: count)
      async let answer = client.readLine(limit: 4 << 20)
      try await client.writeLine(line)
      #expect(try await answer == line)
    }
    await client.close()
    await server.stop()
  }

  @Test("many lines in one piece are many lines, and a line in many pieces is one")
  func pieces() async throws {
    let server = try await echo(path)
    let peer = RawPeer(path: path)
    let numbers = (0..<2000).map { "\($0)\n" }.joined()
    let answers = await blocking {
      peer.write(numbers)
      let first = peer.read(until: "1999\n")
      for byte in "ab\n".utf8 { peer.write([byte]) }
      return [first, peer.read(until: "ab\n")]
    }
    #expect(answers == [numbers, "ab\n"])
    await server.stop()
  }

  @Test("a client that has ended its side still gets its answers, and the server sees the end")
  func halfClosed() async throws {
    let ended = Seen<Bool>()
    let server = try UnixServer(path: path, loop: loop) { connection in
      var lines: [[UInt8]] = []
      while let line = try? await connection.readLine(limit: 100) { lines.append(line) }
      ended.add(true)
      for line in lines { try? await connection.writeLine(line) }
    }
    await server.start()
    let peer = RawPeer(path: path)
    peer.write("one\ntwo\nhalf")
    peer.endWriting()
    #expect(await blocking { peer.readToEnd() } == Array("one\ntwo\n".utf8))
    #expect(ended.all == [true])
    await server.stop()
  }

  @Test("the end of the peer reads as nil, before and while waiting")
  func peerEnds() async throws {
    let server = try UnixServer(path: path, loop: loop) { try? await $0.writeLine([1]) }
    await server.start()
    let client = try await connect(path)
    #expect(try await client.readLine(limit: 10) == [1])
    #expect(try await client.readLine(limit: 10) == nil)
    #expect(try await client.readLine(limit: 10) == nil)
    await server.stop()
  }

  @Test(
    "a line over the limit ends the connection with 1009, with or without its end",
    arguments: ["0123456789a\n", "0123456789a"])
  func tooLong(text: String) async throws {
    let result = Seen<Closure?>()
    let server = try UnixServer(path: path, loop: loop) { connection in
      result.add(await closure { () async throws(Closure) in try await connection.readLine(limit: 10) })
    }
    await server.start()
    let peer = RawPeer(path: path)
    peer.write(text)
    #expect(await blocking { peer.readToEnd() } == [])
    try await eventually("the reader has its answer") { result.all.map { $0?.code } == [1009] }
    await server.stop()
  }

  @Test("a line of exactly the limit is a line")
  func exactly() async throws {
    let server = try await echo(path)
    let client = try await connect(path)
    try await client.writeLine(Array("0123456789".utf8))
    #expect(try await client.readLine(limit: 10)?.count == 10)
    await server.stop()
  }

  @Test("writing to a peer that is gone throws, and never waits for ever")
  func writingToNobody() async throws {
    let server = try UnixServer(path: path, loop: loop) { connection in _ = try? await connection.readLine(limit: 1) }
    await server.start()
    let client = try await connect(path)
    await server.stop()
    let big = [UInt8](repeating: 65, count: 1 << 20)
    var result: Closure?
    // What was on its way when the server stopped is still taken for a moment.
    let limit = Monotonic.now() + .seconds(30)
    while result == nil, Monotonic.now() < limit {
      result = await closure { () async throws(Closure) in try await client.writeLine(big) }
    }
    #expect(result != nil)
  }

  @Test("a peer that floods without being read fills no memory")
  func flood() async throws {
    let server = try UnixServer(path: path, loop: loop) { _ in try? await Task.sleep(for: .seconds(600)) }
    await server.start()
    let peer = RawPeer(path: path)
    let written = Lock(0)
    _ = startThread(name: "flood") {
      for _ in 0..<100 {
        peer.write([UInt8](repeating: 10, count: 1 << 20))
        written.withLock { $0 += 1 }
      }
    }
    var before = -1
    try await eventually("the writer is stuck") {
      let now = written.withLock { $0 }
      defer { before = now }
      try await Task.sleep(for: .milliseconds(50))
      return now == before
    }
    #expect(written.withLock { $0 } < 10)
    await server.stop()
  }

  @Test("only its owner may reach it, and the peer's user is known on both sides")
  func owner() async throws {
    let users = Seen<UInt32>()
    let server = try UnixServer(path: path, loop: loop) { users.add($0.peerUser) }
    await server.start()
    var status = stat()
    #expect(lstat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    let client = try await connect(path)
    #expect(client.peerUser == getuid())
    #expect(try await client.readLine(limit: 1) == nil)
    #expect(users.all == [getuid()])
    await server.stop()
    #expect(!Files.exists(path))
  }

  @Test("a socket that a killed program left behind is replaced, one that somebody listens on is not")
  func dead() async throws {
    let left = streamSocket(AF_UNIX)
    #expect(withUnixAddress(path) { bind(left, $0, $1) } == 0)
    close(left)
    #expect(await failure { () async throws(TransportError) in try await connect(path) }?.kind == .refused)
    let server = try await echo(path)
    let second = await failure { () async throws(TransportError) in
      try UnixServer(path: path, loop: loop) { _ in }
    }
    #expect(second?.kind == .refused)
    await server.stop()
    #expect(await failure { () async throws(TransportError) in try await connect(path) }?.kind == .refused)
  }

  @Test("a file that is no socket is left alone, and a path that is too long is told")
  func noSocket() async throws {
    try Files.writeAtomically([1], to: path)
    let error = await failure { () async throws(TransportError) in try UnixServer(path: path, loop: loop) { _ in } }
    #expect(error?.kind == .address)
    #expect(try Files.read(path) == [1])
    let long = folder.path + "/" + String(repeating: "a", count: 100)
    let tooLong = await failure { () async throws(TransportError) in try UnixServer(path: long, loop: loop) { _ in } }
    #expect(tooLong?.kind == .address && tooLong?.description.contains("too long") == true)
    #expect(await failure { () async throws(TransportError) in try await connect(long) }?.kind == .address)
  }

  @Test("a server that was replaced does not remove its successor's socket")
  func successor() async throws {
    let first = try await echo(path)
    unlink(path)
    let second = try await echo(path)
    await first.stop()
    let client = try await connect(path)
    try await client.writeLine([1])
    #expect(try await client.readLine(limit: 10) == [1])
    await second.stop()
  }

  @Test("stopping ends the connections and cancels their handlers")
  func stopping() async throws {
    let ends = Seen<String>()
    let server = try UnixServer(path: path, loop: loop) { connection in
      try? await connection.writeLine([1])
      do { try await Task.sleep(for: .seconds(600)) } catch { ends.add("cancelled") }
    }
    await server.start()
    let client = try await connect(path)
    #expect(try await client.readLine(limit: 1) == [1])
    await server.stop()
    #expect(ends.all == ["cancelled"])
    #expect(try await client.readLine(limit: 1) == nil)
  }

  @Test("a cancelled reader returns at once, and the next one gets the line")
  func cancelledReader() async throws {
    let server = try await echo(path)
    let client = try await connect(path)
    let reader = Task { await closure { () async throws(Closure) in try await client.readLine(limit: 10) } }
    reader.cancel()
    #expect(await reader.value == .cancelled)
    try await client.writeLine([7])
    #expect(try await client.readLine(limit: 10) == [7])
    await server.stop()
  }
}
