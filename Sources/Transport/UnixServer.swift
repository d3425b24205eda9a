import CLinux
import Glibc
import System

/// Listens on a Unix socket that only its own user may reach (0600).
public actor UnixServer {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  public nonisolated let path: String

  private let listener: Listener
  private let handler: @Sendable (UnixConnection) async -> Void
  /// Which file is ours: another server may have put its own there since.
  private let file: (device: UInt, number: UInt)
  private var connections: [UInt64: Connection] = [:]
  private var lastID: UInt64 = 0
  private var isStopped = false
  private var stoppers: [CheckedContinuation<Void, Never>] = []

  private struct Connection {
    let connection: UnixConnection
    var task: Task<Void, Never>?
  }

  /// More than this at once are turned away.
  private static let mostConnections = 256

  /// Binds and listens; connections wait until `start()`. A socket that nobody listens on any more is replaced. `handler` has each
  /// connection until it returns, then it is closed; it runs on the loop and is cancelled by `stop()`.
  ///
  /// Throws `.refused` when somebody listens there, and `.address` for a path that is too long, is no socket, or can't be written.
  public init(
    path: String, loop: EventLoop, handler: @escaping @Sendable (UnixConnection) async -> Void
  ) throws(TransportError) {
    self.path = path
    self.loop = loop
    self.handler = handler
    try Self.removeDead(path)
    let descriptor = streamSocket(AF_UNIX)
    if descriptor < 0 { throw TransportError(.unreachable, "There is no socket: \(String(cString: strerror(errno))).") }
    // Until listen(2) nobody can connect, so nobody gets in before the mode is set.
    var status = stat()
    guard withUnixAddress(path, { bind(descriptor, $0, $1) }) == 0, chmod(path, 0o600) == 0, lstat(path, &status) == 0,
      listen(descriptor, 64) == 0
    else {
      let reason = path.utf8.count > 107 ? "the path is too long" : String(cString: strerror(errno))
      close(descriptor)
      throw TransportError(.address, "\(path) can't be listened on: \(reason).")
    }
    file = (UInt(status.st_dev), UInt(status.st_ino))
    listener = Listener(descriptor: descriptor, loop: loop)
  }

  deinit {
    if !isStopped { Self.remove(path, file) }
    loop.perform { [listener] in listener.close() }
  }

  /// Begins to accept.
  public func start() { listener.start(for: self) { $0.welcome($1) } }

  /// Stops listening, removes the socket, ends all connections, and returns when their handlers have ended, after 2 s at most.
  public func stop() async {
    if !isStopped { Self.remove(path, file) }
    isStopped = true
    listener.close()
    for connection in connections.values {
      await connection.connection.close()
      connection.task?.cancel()
    }
    if connections.isEmpty { return }
    let timer = loop.after(.seconds(2)) { [weak self] in self?.assumeIsolated { $0.resumeStoppers() } }
    await withCheckedContinuation { stoppers.append($0) }
    loop.cancel(timer)
  }

  private func resumeStoppers() {
    for stopper in stoppers { stopper.resume() }
    stoppers = []
  }

  private func welcome(_ descriptor: Int32) {
    let connection = UnixConnection(Channel(descriptor: descriptor), loop: loop)
    if isStopped || connections.count >= Self.mostConnections { return }
    lastID += 1
    let id = lastID
    connections[id] = Connection(connection: connection)
    connections[id]?.task = Task { await serve(id, connection) }
  }

  private func serve(_ id: UInt64, _ connection: UnixConnection) async {
    await connection.start()
    await handler(connection)
    await connection.close()
    connections[id] = nil
    if connections.isEmpty { resumeStoppers() }
  }

  private static func remove(_ path: String, _ file: (device: UInt, number: UInt)) {
    var status = stat()
    if lstat(path, &status) == 0 && (UInt(status.st_dev), UInt(status.st_ino)) == file { unlink(path) }
  }

  private static func removeDead(_ path: String) throws(TransportError) {
    var status = stat()
    if lstat(path, &status) != 0 { return }
    if status.st_mode & S_IFMT != S_IFSOCK { throw TransportError(.address, "\(path) is there and no socket.") }
    let descriptor = streamSocket(AF_UNIX)
    defer { close(descriptor) }
    let code = withUnixAddress(path) { connect(descriptor, $0, $1) == 0 ? 0 : errno }
    if code == 0 || code == EAGAIN { throw TransportError(.refused, "Somebody listens at \(path) already.") }
    if code == ECONNREFUSED { unlink(path) }
  }
}
