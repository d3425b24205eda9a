import Glibc
import System

/// Attempts to connect to the addresses of one host, side by side. Used on the loop only.
final class ConnectRace {
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
