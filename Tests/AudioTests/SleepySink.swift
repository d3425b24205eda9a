import Audio
import Foundation
import Glibc
import System

/// A speaker behind a PulseAudio pipe sink that behaves as sleepy hardware does: when it is woken it swallows the first part of
/// what it is sent. It takes 48 kHz, two channels, s16le, at its own pace, and the server waits for it: being held up loses nothing.
final class SleepySink: Sendable {
  /// What came since it was sent to sleep the last time.
  struct Waking {
    /// All that it was sent.
    var sent: PCM
    /// What came out of it.
    var heard: PCM
  }
  private struct State {
    var sent: [Float] = []
    var isQuiet = false
    var isOver = false
  }
  private let state = Lock(State())
  private let swallowed: Int
  private let done = DispatchSemaphore(value: 0)
  private static let format = AudioFormat(.s16le, rate: 48_000, channels: 2)

  /// `path` is the sink's FIFO. What is sent during the first `swallows` after a sleep is lost.
  init(path: String, swallows: Duration) {
    swallowed = swallows.samples(at: Self.format.rate)
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    // A small pipe, so that what is written is heard soon.
    let setPipeSize: Int32 = 1031  // F_SETPIPE_SZ, which glibc hides behind _GNU_SOURCE
    _ = fcntl(descriptor, setPipeSize, 4096)
    Thread.detachNewThread { [self] in
      var buffer = [UInt8](repeating: 0, count: Self.format.rate / 100 * Self.format.frameSize)
      while !state.withLock({ $0.isOver }) {
        let count = read(descriptor, &buffer, buffer.count)
        let samples = buffer[..<max(0, count)].withUnsafeBytes { Self.format.mono($0) }
        state.withLock { state in
          state.isQuiet = count <= 0
          state.sent += samples
        }
        usleep(10_000)
      }
      close(descriptor)
      done.signal()
    }
  }

  /// Whether nothing was there to be played when it looked last.
  var isQuiet: Bool { state.withLock { $0.isQuiet } }

  /// Falls asleep: what comes now wakes it.
  func sleep() { state.withLock { $0.sent = [] } }

  var lastWaking: Waking {
    let sent = state.withLock { $0.sent }
    let lost = min(sent.count, swallowed)
    return Waking(
      sent: PCM(sent, rate: 48_000), heard: PCM([Float](repeating: 0, count: lost) + sent[lost...], rate: 48_000))
  }

  func end() {
    state.withLock { $0.isOver = true }
    done.wait()
  }
}
