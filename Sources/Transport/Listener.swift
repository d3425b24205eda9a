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

  /// Takes over a descriptor that listens and does not block.
  init(descriptor: Int32, loop: EventLoop) {
    self.descriptor = descriptor
    self.loop = loop
  }

  deinit { if !isClosed { Glibc.close(descriptor) } }

  /// Calls `accepted` with each new descriptor, which is the callee's.
  func start(_ accepted: @escaping (Int32) -> Void) {
    if token != nil || isClosed { return }
    token = loop.watch(descriptor, .readable) { [weak self] _ in self?.acceptSome(accepted) }
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
      let connection = accept4(
        descriptor, nil, nil, Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue))
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
