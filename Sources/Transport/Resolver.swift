import Glibc
import System

/// Names to addresses. getaddrinfo(3) blocks for as long as the name servers let it, so each look-up has a thread of its own.
enum Resolver {
  /// Look-ups that are left behind at their deadline still hold a thread; no more than these.
  private static let most = 16
  private static let running = Lock(0)

  /// Calls `found` once, on any thread, perhaps before it returns.
  static func lookUp(
    _ host: String, _ port: UInt16, found: @escaping @Sendable (Result<[Address], LookUpFailure>) -> Void
  ) {
    if case .success(let addresses) = Address.lookUp(host, port, isNumeric: true) { return found(.success(addresses)) }
    let isFull = running.withLock { running in
      if running >= most { return true }
      running += 1
      return false
    }
    if isFull { return found(.failure(LookUpFailure(reason: "\(most) look-ups are waiting for the name server"))) }
    let isStarted = startThread(name: "resolver") {
      let result = Address.lookUp(host, port, isNumeric: false)
      running.withLock { $0 -= 1 }
      found(result)
    }
    if !isStarted {
      running.withLock { $0 -= 1 }
      found(.failure(LookUpFailure(reason: "no thread is left")))
    }
  }

  /// The order in which they are tried: families take turns, the one that the system prefers first (RFC 8305 §4).
  static func interleaved(_ addresses: [Address]) -> [Address] {
    guard let first = addresses.first?.family else { return [] }
    let preferred = addresses.filter { $0.family == first }
    let others = addresses.filter { $0.family != first }
    var order: [Address] = []
    for index in 0..<max(preferred.count, others.count) {
      if index < preferred.count { order.append(preferred[index]) }
      if index < others.count { order.append(others[index]) }
    }
    return order
  }
}
