import CLinux
import Glibc
import System

/// A listening descriptor: accepts what comes while it is started. Used on its loop's thread only.
// @unchecked Sendable: used on its loop's thread only, by the server that owns it, which is pinned to the loop.
final class Listener: @unchecked Sendable {
  let descriptor: Int32
  private let loop: EventLoop
  private var token: EventLoop.Token?
  private var pause: EventLoop.Token?
  private var isClosed = false
  private let accept: (Int32) -> Int32

  /// Takes over a descriptor that listens and does not block. `accept` is the system call.
  init(descriptor: Int32, loop: EventLoop, accept: @escaping (Int32) -> Int32 = Listener.acceptNext) {
    self.descriptor = descriptor
    self.loop = loop
    self.accept = accept
  }

  /// The next connection, neither blocking nor inherited; -1 with `errno` when there is none.
  static func acceptNext(_ descriptor: Int32) -> Int32 {
    accept4(descriptor, nil, nil, Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue))
  }

  deinit { if !isClosed { Glibc.close(descriptor) } }

  /// Calls `accepted` with each new descriptor, which is the callee's.
  func start(_ accepted: @escaping (Int32) -> Void) {
    if token != nil || isClosed { return }
    token = loop.watch(descriptor, .readable) { [weak self] _ in self?.acceptSome(accepted) }
  }

  /// Hands each new descriptor to `server`, an actor on this loop; once that is gone they are closed.
  func start<Server: Actor>(for server: Server, welcome: @escaping @Sendable (isolated Server, Int32) -> Void) {
    start { [weak server] connection in
      guard let server else {
        Glibc.close(connection)
        return
      }
      server.assumeIsolated { welcome($0, connection) }
    }
  }

  func close() {
    if isClosed { return }
    isClosed = true
    if let token { loop.unwatch(token) }
    if let pause { loop.cancel(pause) }
    token = nil
    Glibc.close(descriptor)
  }

  private func acceptSome(_ accepted: (Int32) -> Void) {
    for _ in 0..<32 {
      if isClosed { return }
      let connection = accept(descriptor)
      if connection >= 0 {
        accepted(connection)
        continue
      }
      switch errno {
      case EINTR, ECONNABORTED, EPROTO: continue
      case EMFILE, ENFILE, ENOBUFS, ENOMEM: return rest()
      default: return
      }
    }
  }

  /// Without a free descriptor the connection stays in the queue and the listener ready: looked at again a little later, when
  /// others may have ended.
  private func rest() {
    guard let token else { return }
    loop.rewatch(token, [])
    pause = loop.after(.milliseconds(100)) { [weak self] in
      guard let self, let token = self.token else { return }
      self.loop.rewatch(token, .readable)
    }
  }
}
