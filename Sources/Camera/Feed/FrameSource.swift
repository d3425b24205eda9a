import CLinux
import Glibc
import System

/// Where frames come from. One opening of one camera: it is started once, tells what happens, and ends once.
protocol FrameSource: Sendable {
  /// How long it may take until it is open, and from frame to frame.
  var patience: FramePatience { get }
  /// Begins; returns at once. What happens is told to `sink` in order, from any thread; the last is `ended`.
  func start(_ wish: CaptureWish, _ sink: FrameSink)
  /// Whether, once started with this wish, it makes one frame, and each further one only when it is told to by `want`.
  func isOnDemand(_ wish: CaptureWish) -> Bool
  func want()
  /// Asks it to end. `ended` follows, soon unless a driver is stuck.
  func stop()
}

extension FrameSource {
  func isOnDemand(_ wish: CaptureWish) -> Bool { false }
  func want() {}
}

struct FramePatience: Sendable, Equatable {
  var opening: Duration = .seconds(6)
  var frame: Duration = .seconds(3)
}

enum SourceEvent: Sendable {
  case opened(FrameFormat)
  case frame(Frame)
  /// The device is closed. nil: it was asked to end.
  case ended(CameraError?)
}

/// Where a source tells what happens. Frames that come faster than they are taken are dropped here: at most 4 wait.
struct FrameSink: Sendable {
  private let deliver: @Sendable (SourceEvent, @escaping @Sendable () -> Void) -> Void
  private let waiting: Lock<Int>

  /// `deliver` passes an event on in order, and calls what it is given when it has been taken.
  init(_ deliver: @escaping @Sendable (SourceEvent, @escaping @Sendable () -> Void) -> Void) {
    self.deliver = deliver
    waiting = Lock(0)
  }

  /// Whether there is room for another frame: who has to copy it need not otherwise.
  var hasRoom: Bool { waiting.withLock { $0 < 4 } }

  func callAsFunction(_ event: SourceEvent) {
    guard case .frame = event else { return deliver(event) {} }
    let isTaken = waiting.withLock { count in
      if count >= 4 { return false }
      count += 1
      return true
    }
    if isTaken { deliver(event) { [waiting] in waiting.withLock { $0 -= 1 } } }
  }
}

/// Asks a thread to end, and lets it sleep until then.
// @unchecked Sendable: the descriptor is made once and closed when nobody refers to it any more.
final class StopFlag: @unchecked Sendable {
  let descriptor: Int32

  init() {
    descriptor = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    precondition(descriptor >= 0, "no descriptor left for a camera")
  }
  deinit { close(descriptor) }

  func raise() {
    var one: UInt64 = 1
    _ = write(descriptor, &one, 8)
  }

  /// Sleeps for `time` or until it is raised; true when it is.
  func sleep(_ time: Duration) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    let end = Monotonic.now() + time
    while true {
      let left = (end - Monotonic.now()).milliseconds.rounded(.up)
      let ready = poll(&entry, 1, Int32(max(0, min(left, 1e9))))
      if ready > 0 { return true }
      if ready == 0 && left <= 1e9 { return false }
    }
  }

  var isRaised: Bool { sleep(.zero) }
}
