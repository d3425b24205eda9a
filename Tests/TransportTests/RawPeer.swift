import CLinux
import Glibc
import System

@testable import Transport

/// The other end of a connection, with nothing of ours between the test and the socket: blocking calls on a thread of its own,
/// each with a time limit, so that a test may send any bytes at any moment.
// @unchecked Sendable: handed from the thread that accepts to the one that talks.
final class RawPeer: @unchecked Sendable {
  private let channel: Channel
  private(set) var heard: [UInt8] = []

  /// Takes over a connected descriptor that blocks.
  init(descriptor: Int32) {
    var limit = timeval(tv_sec: 20, tv_usec: 0)
    let length = socklen_t(MemoryLayout<timeval>.size)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, length)
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, length)
    setNoDelay(descriptor)
    channel = Channel(descriptor: descriptor)
  }

  /// Connects to a port of this machine.
  convenience init(port: UInt16, host: String = "127.0.0.1") {
    guard case .success(let addresses) = Address.lookUp(host, port, isNumeric: true) else { fatalError("no address") }
    let descriptor = socket(addresses[0].family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    precondition(addresses[0].with { connect(descriptor, $0, $1) } == 0, "nobody listens")
    self.init(descriptor: descriptor)
  }

  /// Connects to a Unix socket.
  convenience init(path: String) {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    precondition(withUnixAddress(path) { connect(descriptor, $0, $1) } == 0, "nobody listens")
    self.init(descriptor: descriptor)
  }

  /// The handshake of a server, or of a client when there is a session for one. False when it fails.
  func secure(_ session: OpaquePointer) -> Bool {
    channel.secure(session)
    if case .done = channel.handshake() { return true }
    return false
  }

  func write(_ bytes: [UInt8]) {
    var offset = 0
    while offset < bytes.count {
      let transfer = bytes.withUnsafeBytes { channel.write(UnsafeRawBufferPointer(rebasing: $0[offset...])) }
      guard case .done(let count) = transfer else { return }
      offset += count
    }
  }

  func write(_ text: String) { write(Array(text.utf8)) }

  /// More bytes; none at the end of the connection.
  func read() -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let transfer = buffer.withUnsafeMutableBytes { channel.read($0) }
    guard case .done(let count) = transfer else { return [] }
    heard += buffer[0..<count]
    return Array(buffer[0..<count])
  }

  /// Reads until what was heard ends with `end`, or the connection ends.
  @discardableResult
  func read(until end: String) -> String {
    while !heard.suffix(end.utf8.count).elementsEqual(end.utf8), !read().isEmpty {}
    defer { heard = [] }
    return String(decoding: heard, as: UTF8.self)
  }

  /// Reads at least `count` bytes, or to the end of the connection, and returns all that was heard.
  func read(atLeast count: Int) -> [UInt8] {
    while heard.count < count, !read().isEmpty {}
    defer { heard = [] }
    return heard
  }

  /// Reads to the end of the connection.
  func readToEnd() -> [UInt8] { read(atLeast: .max) }

  /// Carries bytes both ways until either side ends. On the caller's thread alone: a TLS session is one thread's. It is read until it
  /// has nothing more, for poll(2) does not see what TLS has read already.
  func relay(with other: RawPeer) {
    for channel in [channel, other.channel] {
      _ = fcntl(channel.descriptor, F_SETFL, fcntl(channel.descriptor, F_GETFL) | O_NONBLOCK)
    }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      var hasMoved = false
      for (from, to) in [(self, other), (other, self)] {
        switch buffer.withUnsafeMutableBytes({ from.channel.read($0) }) {
        case .done(let count):
          hasMoved = true
          guard to.push(buffer[..<count]) else { return }
        case .wantsRead, .wantsWrite: continue
        case .ended, .failed: return to.endWriting()
        }
      }
      guard hasMoved || RawPeer.wait(for: [channel, other.channel], POLLIN) else { return }
    }
  }

  /// Writes all of it to a descriptor that does not block; false when that takes too long or fails.
  private func push(_ bytes: ArraySlice<UInt8>) -> Bool {
    var rest = bytes
    while !rest.isEmpty {
      switch rest.withUnsafeBytes({ channel.write($0) }) {
      case .done(let count): rest = rest.dropFirst(count)
      case .wantsRead, .wantsWrite: guard RawPeer.wait(for: [channel], POLLOUT) else { return false }
      case .ended, .failed: return false
      }
    }
    return true
  }

  private static func wait(for channels: [Channel], _ event: Int32) -> Bool {
    var ready = channels.map { pollfd(fd: $0.descriptor, events: Int16(event), revents: 0) }
    return poll(&ready, UInt(ready.count), 20_000) > 0
  }

  func endWriting() { channel.endWriting() }
  func close() { channel.close() }

  /// Ends it with a reset instead of an end.
  func reset() {
    var linger = linger(l_onoff: 1, l_linger: 0)
    setsockopt(channel.descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
    channel.close()
  }

  /// Reads a client's request and answers as a WebSocket server should. Returns the request.
  @discardableResult
  func upgrade() -> String {
    let request = read(until: "\r\n\r\n")
    write(RawPeer.answer(to: request))
    return request
  }

  /// The right answer to a request.
  static func answer(to request: String) -> String {
    let line = request.split(separator: "\r\n").first { $0.lowercased().hasPrefix("sec-websocket-key:") }
    let key = line.map { String($0.split(separator: " ")[1]) } ?? ""
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      + "Sec-WebSocket-Accept: \(WebSocket.acceptance(of: key))\r\n\r\n"
  }

  /// A client's request for an upgrade, right in every respect.
  static let request =
    "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
}

/// A server of raw peers: `talk` has each connection on a thread of its own.
final class RawServer: Sendable {
  let port: UInt16
  private let descriptor: Int32
  private let count = Lock(0)

  init(host: String = "127.0.0.1", _ talk: @escaping @Sendable (RawPeer) -> Void) {
    guard case .success(let addresses) = Address.lookUp(host, 0, isNumeric: true) else { fatalError("no address") }
    let descriptor = socket(addresses[0].family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    precondition(addresses[0].with { bind(descriptor, $0, $1) } == 0 && listen(descriptor, 16) == 0, "can't listen")
    self.descriptor = descriptor
    port = Address.local(of: descriptor)!.port
    let count = count
    _ = startThread(name: "raw server") {
      while true {
        let connection = accept4(descriptor, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
        if connection < 0 {
          // Only the end shuts it down; short of descriptors, for one, it goes on.
          if errno != EINVAL {
            usleep(1000)
            continue
          }
          close(descriptor)
          return
        }
        count.withLock { $0 += 1 }
        let peer = RawPeer(descriptor: connection)
        _ = startThread(name: "raw peer") {
          talk(peer)
          peer.close()
        }
      }
    }
  }

  // Wakes the thread that accepts, which closes the descriptor.
  deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

  /// How many have connected.
  var connections: Int { count.withLock { $0 } }
}
