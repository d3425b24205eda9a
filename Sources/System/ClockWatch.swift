import CLinux
import Glibc

/// Tells when the wall clock was set, which the kernel also reports when the machine wakes from sleep. Costs no wake-ups otherwise: it
/// is a timer that never fires, armed so that the kernel cancels it (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET).
///
/// Used from an actor on its loop only.
public final class ClockWatch {
  private let loop: EventLoop
  private let descriptor: Int32
  private let end: time_t
  private var token: EventLoop.Token?

  /// Calls `handler` on the loop each time. Throws when the kernel has no descriptor left. Call from the loop.
  public convenience init(loop: EventLoop, handler: @escaping () -> Void) throws(SystemError) {
    // As far away as 32-bit time goes; only the cancelling is wanted.
    try self.init(loop: loop, end: time_t(Int32.max), handler: handler)
  }

  /// With a timer that also fires at `end`, in seconds of the wall clock, which counts as the clock having been set. One in the past
  /// fires at once and each time it is armed again.
  init(loop: EventLoop, end: time_t, handler: @escaping () -> Void) throws(SystemError) {
    self.loop = loop
    self.end = end
    descriptor = timerfd_create(CLOCK_REALTIME, Int32(O_CLOEXEC | O_NONBLOCK))
    if descriptor < 0 { throw SystemError("timerfd_create", code: errno) }
    do throws(SystemError) { try arm() } catch {
      close(descriptor)
      throw error
    }
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
    var setting = itimerspec()
    setting.it_value.tv_sec = end
    let absolute: Int32 = 1
    let cancelOnSet: Int32 = 2
    if timerfd_settime(descriptor, absolute | cancelOnSet, &setting, nil) != 0 {
      throw SystemError("timerfd_settime", code: errno)
    }
  }
}
