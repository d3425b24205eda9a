import CLinux
import Glibc
import System

extension Opening {
  /// A TCP connection to the endpoint, through `proxy` if there is one. TLS to the endpoint itself is not begun.
  func dial(_ endpoint: Endpoint, proxy: Proxy?) async throws(TransportError) -> Channel {
    guard let proxy else { return try await connect(endpoint.host, endpoint.port) }
    let channel: Channel
    do throws(TransportError) {
      channel = try await connect(proxy.endpoint.host, proxy.endpoint.port)
      if proxy.endpoint.isTLS {
        let certificate = try await secure(channel, host: proxy.endpoint.host, judges: true)
        try judge(certificate, .system, host: proxy.endpoint.host)
      }
    } catch {
      if error.kind == .cancelled || error.kind == .timedOut { throw error }
      throw TransportError(.proxy, "The proxy \(proxy.endpoint.authority) can't be used: \(error.description)")
    }
    try await tunnel(through: proxy, on: channel, to: endpoint)
    return channel
  }

  private func tunnel(through proxy: Proxy, on channel: Channel, to endpoint: Endpoint) async throws(TransportError) {
    let step = "the proxy \(proxy.endpoint.authority)"
    try await write(proxy.request(for: endpoint), to: channel, step)
    let head: HTTPHead
    let rest: [UInt8]
    do throws(TransportError) {
      switch try await readHead(.response, from: channel, step) {
      case .success(let found): (head, rest) = found
      case .failure(let error):
        throw TransportError(.proxy, "The proxy \(proxy.endpoint.authority) speaks no HTTP: \(error.what).")
      }
    } catch {
      if error.kind != .lost { throw error }
      throw TransportError(.proxy, "The proxy \(proxy.endpoint.authority) ended the connection.")
    }
    if !(200..<300).contains(head.status) {
      throw TransportError(
        .proxy, "The proxy \(proxy.endpoint.authority) refuses \(endpoint.authority): \(head.statusText).")
    }
    // The far end has been told nothing yet, so nothing can have come from it.
    if !rest.isEmpty { throw TransportError(.proxy, "The proxy \(proxy.endpoint.authority) sent bytes of its own.") }
  }

  /// Connects to the first address of `host` that answers: families take turns, a new attempt begins 250 ms after the last or as
  /// soon as one fails (RFC 8305).
  func connect(_ host: String, _ port: UInt16) async throws(TransportError) -> Channel {
    let addresses = Resolver.interleaved(try await resolve(host, port))
    let race = ConnectRace(addresses, loop: loop) { [weak self] in self?.assumeIsolated { $0.signal() } }
    defer { race.end() }
    race.startNext()
    while true {
      if let descriptor = race.takeWinner() { return Channel(descriptor: descriptor) }
      if let code = race.failure {
        let kind: TransportError.Kind
        switch code {
        case ECONNREFUSED: kind = .refused
        case ETIMEDOUT: kind = .timedOut
        default: kind = .unreachable
        }
        throw TransportError(kind, "\(host):\(port) can't be reached: \(String(cString: strerror(code))).")
      }
      try await pause("a connection to \(host):\(port)")
    }
  }

  private func resolve(_ host: String, _ port: UInt16) async throws(TransportError) -> [Address] {
    final class Box: Sendable {
      let result = Lock<Result<[Address], LookUpFailure>?>(nil)
    }
    let box = Box()
    let loop = loop
    Resolver.lookUp(host, port) { [weak self] result in
      box.result.withLock { $0 = result }
      loop.perform { [weak self] in self?.assumeIsolated { $0.signal() } }
    }
    while true {
      switch box.result.withLock({ $0 }) {
      case .success(let addresses) where !addresses.isEmpty: return addresses
      case .success: throw TransportError(.nameNotFound, "\(host) has no address.")
      case .failure(let failure): throw TransportError(.nameNotFound, "\(host) is not found: \(failure.reason).")
      case nil: try await pause("the address of \(host)")
      }
    }
  }
}

/// Attempts to connect to the addresses of one host, side by side. Used on the loop only.
private final class ConnectRace {
  private let addresses: [Address]
  private let loop: EventLoop
  private let changed: () -> Void
  private var next = 0
  private var attempts: [Int32: EventLoop.Token] = [:]
  private var winner: Int32?
  private var lastCode: Int32 = EADDRNOTAVAIL
  private var stagger: EventLoop.Token?

  init(_ addresses: [Address], loop: EventLoop, changed: @escaping () -> Void) {
    self.addresses = addresses
    self.loop = loop
    self.changed = changed
  }

  /// Why none could be reached, when all have been tried.
  var failure: Int32? { attempts.isEmpty && winner == nil && next == addresses.count ? lastCode : nil }

  /// The descriptor that is connected; the caller's from now on.
  func takeWinner() -> Int32? {
    defer { winner = nil }
    return winner
  }

  /// Ends what is left of the race.
  func end() {
    if let stagger { loop.cancel(stagger) }
    stagger = nil
    for (descriptor, token) in attempts {
      loop.unwatch(token)
      close(descriptor)
    }
    attempts = [:]
    if let winner { close(winner) }
    winner = nil
    next = addresses.count
  }

  func startNext() {
    if let stagger { loop.cancel(stagger) }
    stagger = nil
    while next < addresses.count && winner == nil {
      let address = addresses[next]
      next += 1
      if !start(address) { continue }
      if winner == nil && next < addresses.count {
        stagger = loop.after(.milliseconds(250)) { [weak self] in
          self?.startNext()
          self?.changed()
        }
      }
      return
    }
  }

  /// False when the attempt has failed already.
  private func start(_ address: Address) -> Bool {
    let descriptor = streamSocket(address.family)
    if descriptor < 0 {
      lastCode = errno
      return false
    }
    setNoDelay(descriptor)
    if address.with({ Glibc.connect(descriptor, $0, $1) }) == 0 {
      win(descriptor)
      return winner != nil
    }
    if errno != EINPROGRESS {
      lastCode = errno
      close(descriptor)
      return false
    }
    attempts[descriptor] = loop.watch(descriptor, .writable) { [weak self] _ in self?.ready(descriptor) }
    return true
  }

  private func ready(_ descriptor: Int32) {
    guard let token = attempts.removeValue(forKey: descriptor) else { return }
    loop.unwatch(token)
    var code: Int32 = 0
    var length = socklen_t(4)
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    if winner != nil {
      close(descriptor)
    } else if code != 0 {
      lastCode = code
      close(descriptor)
      startNext()
    } else {
      win(descriptor)
      if winner == nil { startNext() }
    }
    changed()
  }

  private func win(_ descriptor: Int32) {
    // With nobody listening on a local port from the range for outgoing connections, the kernel may pick that very port as the
    // source and connect the socket to itself, and then nobody can listen there any more.
    if let local = Address.local(of: descriptor), local == Address.peer(of: descriptor) {
      lastCode = ECONNREFUSED
      close(descriptor)
      return
    }
    winner = descriptor
  }
}

/// A stream socket that neither blocks nor is inherited; -1 with `errno` when there is none.
func streamSocket(_ family: Int32) -> Int32 {
  socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
}

/// Small frames go out at once.
func setNoDelay(_ descriptor: Int32) {
  var one: Int32 = 1
  setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
}
