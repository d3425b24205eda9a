import Audio
import Foundation
import Glibc
import System

/// A speaker behind a PulseAudio pipe sink that behaves as sleepy hardware does: after a pause it swallows the first part of
/// what it is sent. Reads in real time, 48 kHz, two channels, s16le.
final class SleepySink: Sendable {
  private struct State {
    var heard: [Float] = []
    var isOver = false
    var wakeUps = 0
  }
  private let state = Lock(State())
  private let done = DispatchSemaphore(value: 0)

  /// `path` is the sink's FIFO. `swallowed` of each beginning after 200 ms of nothing is lost.
  init(path: String, swallowed: Duration) {
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    // A small pipe, so that what is written is heard soon.
    let setPipeSize: Int32 = 1031  // F_SETPIPE_SZ, which glibc hides behind _GNU_SOURCE
    _ = fcntl(descriptor, setPipeSize, 4096)
    let format = AudioFormat(.s16le, rate: 48_000, channels: 2)
    let swallow = swallowed.samples(at: format.rate)
    Thread.detachNewThread { [self] in
      var buffer = [UInt8](repeating: 0, count: format.rate / 100 * format.frameSize)
      var quiet = 100
      var left = 0
      var next = Monotonic.now()
      while !state.withLock({ $0.isOver }) {
        let count = read(descriptor, &buffer, buffer.count)
        if count > 0 {
          if quiet >= 20 {
            left = swallow
            state.withLock { $0.wakeUps += 1 }
          }
          quiet = 0
          let samples = buffer[..<count].withUnsafeBytes { format.mono($0) }
          let lost = min(left, samples.count)
          left -= lost
          state.withLock { $0.heard += [Float](repeating: 0, count: lost) + samples[lost...] }
        } else {
          quiet += 1
        }
        next += .milliseconds(10)
        let pause = next - Monotonic.now()
        if pause > .zero { usleep(UInt32(pause.milliseconds * 1000)) }
      }
      close(descriptor)
      done.signal()
    }
  }

  /// Everything that came out of the speaker.
  var heard: PCM { PCM(state.withLock { $0.heard }, rate: 48_000) }
  /// How often it woke up.
  var wakeUps: Int { state.withLock { $0.wakeUps } }

  func end() {
    state.withLock { $0.isOver = true }
    done.wait()
  }
}
