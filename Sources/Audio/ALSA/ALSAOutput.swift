import CALSA
import CLinux
import Glibc
import System

/// An open ALSA speaker.
final class ALSAOutput: OutputStream {
  var device: AudioDevice { session.device }
  var format: AudioFormat { session.format }
  var reason: String { session.reason }
  let feed: OutputFeed
  private let session: ALSASession
  private let progress: Progress

  /// What the thread tells about itself.
  final class Progress: Sendable {
    private let frames = Lock(0)
    func set(_ count: Int) { frames.withLock { $0 = max($0, count) } }
    var heard: Int { frames.withLock { $0 } }
  }

  private init(_ session: ALSASession, feed: OutputFeed, progress: Progress) {
    self.session = session
    self.feed = feed
    self.progress = progress
  }

  /// Opens the PCM on a thread of its own; gives up after `limit`.
  static func open(
    _ device: AudioDevice, limit: Duration, _ library: ALSALibrary, _ stuck: ALSAStuck,
    report: @escaping @Sendable (OutputEvent) -> Void
  ) async throws(AudioError) -> ALSAOutput {
    let progress = Progress()
    let (session, feed) = try await ALSASession.open(
      device, buffer: .milliseconds(100), limit: limit, library, stuck
    ) { device, thread, opened in
      let feed = OutputFeed(limit: device.format.rate * 2 / 5)
      device.setThresholds(start: device.format.rate / 25, available: device.format.rate / 50, library.table)
      opened(.success(feed))
      var player = Player(
        device: device, library: library, thread: thread, feed: feed, progress: progress, report: report)
      if let error = player.play() { report(.ended(error)) }
    }
    feed.onPush { [thread = session.thread] in thread.wake() }
    return ALSAOutput(session, feed: feed, progress: progress)
  }

  func heard() async -> Duration? { .samples(progress.heard, rate: format.rate) }

  func stop() async {
    feed.close()
    await session.close()
  }
}

/// The loop of a playing thread.
private struct Player {
  let device: ALSADevice
  let library: ALSALibrary
  let thread: ALSAThread
  let feed: OutputFeed
  let progress: ALSAOutput.Progress
  let report: @Sendable (OutputEvent) -> Void
  private var alsa: calsa { library.table }
  private var written = 0
  private var hasStarted = false
  private var isDry = true

  init(
    device: ALSADevice, library: ALSALibrary, thread: ALSAThread, feed: OutputFeed, progress: ALSAOutput.Progress,
    report: @escaping @Sendable (OutputEvent) -> Void
  ) {
    self.device = device
    self.library = library
    self.thread = thread
    self.feed = feed
    self.progress = progress
    self.report = report
  }

  /// Plays until the feed's end or a stop; an error when the device is lost.
  mutating func play() -> AudioError? {
    var descriptors = device.descriptors(alsa, wake: thread.wakeDescriptor)
    while !thread.isStopping {
      // With nothing to play the device is always ready: then only the wake counts.
      let count = isDry ? 1 : descriptors.count
      if poll(&descriptors, nfds_t(count), 500) < 0 && errno != EINTR { break }
      thread.clearWakes()
      if thread.isStopping { break }
      if !isDry {
        var events: UInt16 = 0
        _ = descriptors.withUnsafeMutableBufferPointer {
          alsa.snd_pcm_poll_descriptors_revents(device.pcm, $0.baseAddress! + 1, UInt32($0.count - 1), &events)
        }
      }
      measure()
      var room = Int(alsa.snd_pcm_avail_update(device.pcm))
      if room < 0 {
        if let error = recover(room) { return error }
        continue
      }
      room = min(room, device.bufferFrames)
      if room == 0 { continue }
      let (samples, isEnd) = feed.pull(room)
      if !samples.isEmpty {
        isDry = false
        if let error = write(samples) { return error }
      } else if !isEnd {
        if !isDry && hasStarted { report(.starved) }
        isDry = true
      }
      if isEnd { return thread.isStopping ? nil : drain() }
    }
    return nil
  }

  private mutating func write(_ samples: [Float]) -> AudioError? {
    let bytes = device.format.bytes(samples)
    var done = 0
    while done < samples.count && !thread.isStopping {
      let count = bytes.withUnsafeBytes {
        alsa.snd_pcm_writei(
          device.pcm, $0.baseAddress! + done * device.format.frameSize, snd_pcm_uframes_t(samples.count - done))
      }
      if count == -snd_pcm_sframes_t(EAGAIN) {
        usleep(5000)
      } else if count < 0 {
        if let error = recover(Int(count)) { return error }
      } else {
        done += Int(count)
        written += Int(count)
      }
    }
    if !hasStarted && alsa.snd_pcm_state(device.pcm) == SND_PCM_STATE_RUNNING {
      hasStarted = true
      report(.started)
    }
    return nil
  }

  private mutating func drain() -> AudioError? {
    // A sound shorter than the threshold has not begun by itself.
    if alsa.snd_pcm_state(device.pcm) == SND_PCM_STATE_PREPARED && written > 0 { _ = alsa.snd_pcm_start(device.pcm) }
    if !hasStarted && written > 0 {
      hasStarted = true
      report(.started)
    }
    // In the non-blocking mode drain only begins; it is over when the device has left the state.
    var code = alsa.snd_pcm_drain(device.pcm)
    let limit = Monotonic.now() + .seconds(2)
    while code == -EAGAIN && !thread.isStopping && Monotonic.now() < limit {
      usleep(5000)
      measure()
      if alsa.snd_pcm_state(device.pcm) != SND_PCM_STATE_DRAINING { code = 0 }
    }
    if thread.isStopping { return nil }
    progress.set(written)
    report(.finished)
    return nil
  }

  private func measure() {
    var delay: snd_pcm_sframes_t = 0
    if alsa.snd_pcm_delay(device.pcm, &delay) >= 0 { progress.set(written - max(0, Int(delay))) }
  }

  private func recover(_ code: Int) -> AudioError? {
    if code == -Int(EPIPE) || code == -Int(ESTRPIPE) || code == -Int(EINTR) {
      if code == -Int(EPIPE) && hasStarted && !isDry { report(.starved) }
      if alsa.snd_pcm_recover(device.pcm, Int32(code), 1) >= 0 { return nil }
    }
    return AudioError(.deviceLost, "The speaker went away: \(library.message(Int32(code))).")
  }
}
