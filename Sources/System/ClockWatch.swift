import CLinux
import Glibc

/// Tells when the wall clock was set, which the kernel also reports when the machine wakes from sleep. Costs no wake-ups otherwise: it
/// is a timer that never fires, armed so that the kernel cancels it (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
///
/// Used from an actor on its loop only.
public final class ClockWatch {
  private let loop: EventLoop
  private let descriptor: Int32
  private var token: EventLoop.Token?

  /// Calls `handler` on the loop each time. Throws when the kernel has no descriptor left. Call from the loop.
  public init(loop: EventLoop, handler: @escaping () -> Void) throws(SystemError) {
    self.loop = loop
    descriptor = timerfd_create(CLOCK_REALTIME, Int32(O_CLOEXEC | O_NONBLOCK))
    if descriptor < 0 { throw SystemError("timerfd_create", code: errno) }
    try arm()
    let descriptor = descriptor
    token = loop.watch(descriptor, .readable) { [weak self] _ in
      var count: UInt64 = 0
      _ = read(descriptor, &count, 8)
      try? self?.arm()
      handler()
    }
  }

  /// Ends the watch. Call from the loop.
  public func stop() {
    guard let token else { return }
    loop.unwatch(token)
    close(descriptor)
    self.token = nil
  }

  private func arm() throws(SystemError) {
    // As far away as 32-bit time goes; only the cancelling is wanted.
    var far = itimerspec()
    far.it_value.tv_sec = time_t(Int32.max)
    let absolute: Int32 = 1
    let cancelOnSet: Int32 = 2
    if timerfd_settime(descriptor, absolute | cancelOnSet, &far, nil) != 0 {
      throw SystemError("timerfd_settime", code: errno)
    }
  }
}
