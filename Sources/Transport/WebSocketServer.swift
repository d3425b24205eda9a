import CLinux
import Glibc
import System

/// Listens and upgrades. A client has 10 s for its TLS handshake and its request.
public actor WebSocketServer {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  /// The port it listens on, also when 0 was asked for.
  public nonisolated let port: UInt16

  private let listener: Listener
  private let identity: ServerIdentity?
  private let maxMessage: Int
  private let accept: @Sendable (UpgradeRequest) -> Int?
  private let handler: @Sendable (WebSocket) async -> Void
  private var connections: [UInt64: Connection] = [:]
  private var lastID: UInt64 = 0
  private var isStopped = false
  /// Resumed when the last connection has ended.
  private var stoppers: [CheckedContinuation<Void, Never>] = []

  private struct Connection {
    var task: Task<Void, Never>?
    /// Nil during the opening.
    var socket: WebSocket?
  }

  /// More than this at once are turned away.
  private static let mostConnections = 1024
  static let headLimit = Duration.seconds(10)

  /// Binds and listens; connections wait until `start()`.
  ///
  /// - Parameters:
  ///   - host: an address, or `localhost`.
  ///   - port: 0 for a free one.
  ///   - identity: for `wss`; nil for `ws`.
  ///   - maxMessage: the longest message taken, in bytes; `WebSocket.setMaxMessage` changes it for one socket.
  ///   - accept: nil to upgrade, else the HTTP status to refuse with. Runs on the loop.
  ///   - handler: has the socket until it returns; then the socket is closed with 1000 if it is still open. Runs on the loop
  ///     and is cancelled by `stop()`.
  /// - Throws: `.address` for a host that is none, `.refused` when the port is taken.
  public init(
    host: String = "127.0.0.1", port: UInt16 = 0, identity: ServerIdentity? = nil, loop: EventLoop, maxMessage: Int,
    accept: @escaping @Sendable (UpgradeRequest) -> Int? = { _ in nil },
    handler: @escaping @Sendable (WebSocket) async -> Void
  ) throws(TransportError) {
    self.loop = loop
    self.identity = identity
    self.maxMessage = maxMessage
    self.accept = accept
    self.handler = handler
    let numeric = host == "localhost" ? "127.0.0.1" : host
    guard case .success(let addresses) = Address.lookUp(numeric, port, isNumeric: true), let address = addresses.first
    else { throw TransportError(.address, "“\(host)” is no address to listen on.") }
    let descriptor = streamSocket(address.family)
    if descriptor < 0 { throw TransportError(.unreachable, "There is no socket: \(String(cString: strerror(errno))).") }
    var one: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
    guard address.with({ bind(descriptor, $0, $1) }) == 0, listen(descriptor, 128) == 0 else {
      let reason = String(cString: strerror(errno))
      close(descriptor)
      throw TransportError(.refused, "\(host):\(port) can't be listened on: \(reason).")
    }
    self.port = Address.local(of: descriptor)?.port ?? port
    listener = Listener(descriptor: descriptor, loop: loop)
  }

  deinit { loop.perform { [listener] in listener.close() } }

  /// Begins to accept.
  public func start() { listener.start(for: self) { $0.welcome($1) } }

  /// Stops listening, says goodbye (1001) to all sockets, and returns when their handlers have ended, after 4 s at most.
  public func stop() async {
    isStopped = true
    listener.close()
    for connection in connections.values where connection.socket == nil { connection.task?.cancel() }
    let sockets = connections.values.compactMap(\.socket)
    await withTaskGroup(of: Void.self) { group in
      for socket in sockets { group.addTask { await socket.close(code: 1001, reason: "going away") } }
    }
    for connection in connections.values { connection.task?.cancel() }
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
    if isStopped || connections.count >= Self.mostConnections {
      close(descriptor)
      return
    }
    setNoDelay(descriptor)
    let channel = Channel(descriptor: descriptor)
    let address = Address.peer(of: descriptor)?.text ?? "?"
    lastID += 1
    let id = lastID
    connections[id] = Connection()
    connections[id]?.task = Task { await serve(id, channel, from: address) }
  }

  private func serve(_ id: UInt64, _ channel: Channel, from address: String) async {
    do throws(TransportError) {
      let (identity, maxMessage, accept, loop) = (identity, maxMessage, accept, loop)
      let socket = try await Opening.run(loop: loop, limit: Self.headLimit) { opening throws(TransportError) in
        try await WebSocket.accept(
          channel, from: address, identity: identity, loop: loop, maxMessage: maxMessage, opening: opening,
          accept: accept)
      }
      connections[id]?.socket = socket
      await handler(socket)
      await socket.close()
    } catch {
      Log.debug("No WebSocket for \(address): \(error.description)")
    }
    connections[id] = nil
    if connections.isEmpty { resumeStoppers() }
  }
}
