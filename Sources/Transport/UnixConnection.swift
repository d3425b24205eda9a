import CLinux
import Glibc
import System

/// One end of a Unix stream socket that carries lines. Pinned to its loop; ends when nobody holds it any more.
public actor UnixConnection {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  /// The user of the process at the other end when it connected or listened (SO_PEERCRED); `UInt32.max` when unknown.
  public nonisolated let peerUser: UInt32

  /// A write that would leave more than this unsent throws `Closure.tooMuchUnsent`, except for one line alone.
  private static let mostUnsent = 64 << 20
  /// Reading pauses when this much waits and nobody reads.
  private static let mostUnread = 1 << 18

  private let stream: ByteStream
  private let readers: Waiters<Void>
  private let writers: Waiters<Void>
  private var lines = LineBuffer()
  private var peerHasEnded = false
  private var closure: Closure?

  init(_ channel: Channel, loop: EventLoop) {
    self.loop = loop
    var credentials = ucred_talknode()
    peerUser = talknode_peer_credentials(channel.descriptor, &credentials) == 0 ? credentials.uid : .max
    stream = ByteStream(channel, loop: loop)
    readers = Waiters(loop: loop)
    writers = Waiters(loop: loop)
  }

  deinit { loop.perform { [stream] in stream.drop() } }

  /// Connects to the socket at `path`. Throws `.address` for a path that is too long, `.refused` when nobody listens, `.timedOut`.
  public static func connect(
    path: String, loop: EventLoop, timeout: Duration
  ) async throws(TransportError) -> UnixConnection {
    try await Opening.run(loop: loop, limit: timeout) { opening throws(TransportError) in
      let channel = Channel(descriptor: streamSocket(AF_UNIX))
      if channel.descriptor < 0 {
        throw TransportError(.unreachable, "There is no socket: \(String(cString: strerror(errno))).")
      }
      while true {
        let code = withUnixAddress(path) { Glibc.connect(channel.descriptor, $0, $1) == 0 ? 0 : errno }
        switch code {
        case 0:
          let connection = UnixConnection(channel, loop: loop)
          await connection.start()
          return connection
        // The listener's queue is full, and nothing tells when it no longer is (connect(2)).
        case EAGAIN: try await opening.rest(.milliseconds(10), "a turn at \(path)")
        case nil: throw TransportError(.address, "The path of the socket is too long: \(path)")
        case ENOENT, ECONNREFUSED: throw TransportError(.refused, "Nobody listens at \(path).")
        case let code?: throw TransportError(.unreachable, "\(path): \(String(cString: strerror(code))).")
        }
      }
    }
  }

  func start() {
    stream.start(
      received: { [weak self] input in self?.assumeIsolated { $0.take(input) } },
      sent: { [weak self] ticket in self?.assumeIsolated { $0.writers.resume(ticket, .success(())) } })
  }

  /// Writes `bytes`, which must have no line end in them, and a line end. Returns when all is in the kernel.
  public func writeLine(_ bytes: [UInt8]) async throws(Closure) {
    precondition(!bytes.contains(10), "a line can't have a line end in it")
    if let closure { throw closure }
    if stream.unsent > 0 && stream.unsent + bytes.count > Self.mostUnsent { throw .tooMuchUnsent }
    if Task.isCancelled { throw .cancelled }
    let ticket = writers.newTicket()
    let isGone = stream.write(ticket: ticket) { output in
      output += bytes
      output.append(10)
    }
    if !isGone { try await writers.wait(writers.place(ticket), on: self) }
  }

  /// The next line without its end; nil when the peer has ended, what stood behind the last line end is dropped then. One reader
  /// at a time. A line of over `limit` bytes ends the connection with 1009.
  public func readLine(limit: Int) async throws(Closure) -> [UInt8]? {
    while true {
      let line = lines.take()
      if line?.count ?? lines.count > limit {
        end(Closure(code: 1009, reason: "a line is over \(limit) bytes", isClean: false))
        lines = LineBuffer()
      } else if let line {
        return line
      }
      if let closure { throw closure }
      if peerHasEnded { return nil }
      stream.wantsInput = true
      try await readers.wait(readers.place(), on: self)
    }
  }

  /// Ends it: what waits to be sent still goes out, for 2 s at most.
  public func close() {
    end(Closure(code: 1000, reason: "", isClean: true), isPolite: true)
  }

  private func end(_ closure: Closure, isPolite: Bool = false) {
    if self.closure != nil { return }
    self.closure = closure
    if isPolite { stream.end(within: .seconds(2)) { _ in } } else { stream.drop() }
    readers.resumeAll(.failure(closure))
    writers.resumeAll(.failure(closure))
  }

  private func take(_ input: ByteStream.Input) {
    switch input {
    case .bytes(let bytes):
      lines.add(bytes)
      if !readers.resumeFirst(.success(())) && lines.count >= Self.mostUnread { stream.wantsInput = false }
    case .ended:
      // It may have ended only its own side, and still read the answer.
      peerHasEnded = true
      stream.wantsInput = false
      readers.resumeAll(.success(()))
    case .failed(let reason), .unwritable(let reason): end(.lost(reason))
    }
  }
}

/// Bytes cut into lines.
private struct LineBuffer {
  private var bytes: [UInt8] = []
  private var begin = 0
  /// Up to where there is no line end.
  private var searched = 0

  /// Bytes that have not been taken.
  var count: Int { bytes.count - begin }

  mutating func add(_ piece: UnsafeRawBufferPointer) {
    if begin > 0 {
      bytes.removeSubrange(..<begin)
      searched -= begin
      begin = 0
    }
    bytes.append(contentsOf: piece)
  }

  mutating func take() -> [UInt8]? {
    guard let end = bytes[searched...].firstIndex(of: 10) else {
      searched = bytes.count
      return nil
    }
    let line = Array(bytes[begin..<end])
    begin = end + 1
    searched = begin
    if begin == bytes.count {
      bytes.removeAll(keepingCapacity: bytes.capacity <= 1 << 16)
      begin = 0
      searched = 0
    }
    return line
  }
}
