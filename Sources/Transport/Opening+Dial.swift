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

  /// Connects to the first address of `host` that answers.
  func connect(_ host: String, _ port: UInt16) async throws(TransportError) -> Channel {
    try await connect(toOneOf: Resolver.interleaved(try await resolve(host, port)), name: "\(host):\(port)")
  }

  /// Connects to the first of `addresses` that answers: a new attempt begins 250 ms after the last or as soon as one fails
  /// (RFC 8305 §5). `name` is for people.
  func connect(toOneOf addresses: [Address], name: String) async throws(TransportError) -> Channel {
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
        throw TransportError(kind, "\(name) can't be reached: \(String(cString: strerror(code))).")
      }
      try await pause("a connection to \(name)")
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
