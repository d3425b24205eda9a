import CLinux
import Glibc

/// Runs `body` on a thread of its own, called `name` (at most 15 bytes show in `ps -L`), which ends with it. For calls that
/// block. SIGPIPE is blocked there, as on an event loop. False when no thread is left.
public func startThread(name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
  final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }
  let argument = Unmanaged.passRetained(Body(body))
  var thread = pthread_t()
  let code = pthread_create(
    &thread, nil,
    { raw in
      blockBrokenPipes()
      Unmanaged<Body>.fromOpaque(raw!).takeRetainedValue().run()
      return nil
    }, argument.toOpaque())
  if code != 0 {
    argument.release()
    return false
  }
  // The thread may have ended by now, but its number is its own until it is detached.
  pthread_setname_np(thread, String(name.prefix(15)))
  pthread_detach(thread)
  return true
}

/// A write to a connection that is gone is an error of that write on this thread, not the end of the program. OpenSSL writes to
/// sockets with write(2), which can't be told so any other way.
func blockBrokenPipes() {
  var blocked = sigset_t()
  sigemptyset(&blocked)
  sigaddset(&blocked, SIGPIPE)
  pthread_sigmask(SIG_BLOCK, &blocked, nil)
}
