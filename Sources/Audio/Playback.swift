import System

/// One sound, or one stream of sound, on its way to the speaker.
///
/// `write` as often as needed, then `finish`; or `stop` at any moment. It reports what really happened: the device started, how much was heard.
public actor Playback {
  public enum Event: Sendable, Equatable {
    /// The device has begun to sound; this long after the first samples were handed over.
    case started(after: Duration)
    /// All was heard.
    case finished
    case stopped
    case failed(AudioError)
  }

  /// What came of it.
  public struct Report: Sendable, Equatable {
    /// How much of the sound was heard, pre-roll not counted.
    public var heard: Duration
    public var preRoll: PreRoll
    /// From the first samples to the device's start; nil when it never started.
    public var startLatency: Duration?
    /// How often the speaker ran dry in mid-sound.
    public var starvations: Int
    public var wasStopped: Bool
  }

  private enum Phase: Equatable {
    case playing, draining, finished, stopped
    case failed(AudioError)
  }

  public nonisolated let device: AudioDevice
  public nonisolated let format: AudioFormat
  /// Why it was opened so, and what is converted.
  public nonisolated let reason: String
  public nonisolated let preRoll: PreRoll
  /// The rate of the samples that `write` takes.
  public nonisolated let rate: Int
  /// What happens to it; the newest 16 events are kept for a slow reader, and there is one reader.
  public nonisolated let events: AsyncStream<Event>

  private let stream: any OutputStream
  private let reports: AsyncStream<OutputEvent>
  private let tell: AsyncStream<Event>.Continuation
  private let resampler: Resampler
  private var phase = Phase.playing
  private var written = 0
  private var firstWrite: Duration?
  private var startLatency: Duration?
  private var starvations = 0
  private var heardAtEnd: Duration?
  private var watch: Task<Void, Never>?
  private var listening: Task<Void, Never>?
  private var waiters: [CheckedContinuation<Void, Never>] = []

  init(
    stream: any OutputStream, rate: Int, preRoll: PreRoll, reports: AsyncStream<OutputEvent>
  ) throws(AudioError) {
    self.stream = stream
    self.rate = rate
    self.preRoll = preRoll
    device = stream.device
    format = stream.format
    let conversion =
      stream.format.rate == rate ? "no conversion" : "converted from \(rate) Hz by libsamplerate"
    reason = "\(stream.reason); \(conversion)"
    resampler = try Resampler(from: rate, to: stream.format.rate, quality: .medium)
    (events, tell) = AsyncStream.makeStream(of: Event.self, bufferingPolicy: .bufferingNewest(16))
    self.reports = reports
  }

  /// Begins to follow what the speaker reports.
  func begin() {
    let reports = reports
    listening = Task { [weak self] in
      for await report in reports { await self?.on(report) }
    }
  }

  /// Hands over samples at `rate`; suspends while enough of them wait. Throws `stopped` after a stop, or what broke the speaker.
  public func write(_ samples: [Float]) async throws(AudioError) {
    // Long sounds go in pieces, so that a stop does not wait for the conversion of minutes.
    var start = 0
    let piece = max(1, rate / 5)
    while start < samples.count {
      try requirePlaying()
      let end = min(start + piece, samples.count)
      var out = try resampler.process(Array(samples[start..<end]))
      if firstWrite == nil {
        firstWrite = Monotonic.now()
        watchForStandstill()
        out = [Float](repeating: 0, count: preRoll.duration.samples(at: format.rate)) + out
      }
      written += end - start
      start = end
      let feed = stream.feed
      let isOpen = await withTaskCancellationHandler {
        await feed.push(out)
      } onCancel: {
        feed.close()
      }
      if !isOpen {
        if phase == .playing { await stop() }
        try requirePlaying()
      }
    }
  }

  /// Nothing more will be written: returns when all has been heard. Throws `stopped` after a stop, or what broke the speaker.
  public func finish() async throws(AudioError) -> Report {
    if phase == .playing {
      let tail = try resampler.finish()
      if !tail.isEmpty { await stream.feed.push(tail) }
      if phase == .playing {
        phase = .draining
        stream.feed.end()
        if firstWrite == nil { await end(.finished) }
      }
    }
    if phase == .draining {
      await withTaskCancellationHandler {
        await withCheckedContinuation { waiters.append($0) }
      } onCancel: {
        Task { await self.stop() }
      }
    }
    switch phase {
    case .failed(let error): throw error
    case .stopped: throw Self.wasStopped
    default: return report
    }
  }

  /// Silences the speaker (within 100 ms) and ends the playback. Does nothing when it has ended.
  public func stop() async {
    guard phase == .playing || phase == .draining else { return }
    await end(.stopped)
  }

  /// How much of the sound has been heard, pre-roll not counted.
  public func position() async -> Duration {
    if let heardAtEnd { return heardAtEnd }
    return trimmed(await stream.heard())
  }

  /// What has come of it until now.
  public var report: Report {
    Report(
      heard: heardAtEnd ?? .zero, preRoll: preRoll, startLatency: startLatency, starvations: starvations,
      wasStopped: phase == .stopped)
  }

  private static let wasStopped = AudioError(.stopped, "The sound was stopped.")

  private func requirePlaying() throws(AudioError) {
    switch phase {
    case .playing: return
    case .failed(let error): throw error
    case .draining, .finished, .stopped: throw Self.wasStopped
    }
  }

  private func on(_ report: OutputEvent) async {
    switch report {
    case .started:
      guard startLatency == nil, let firstWrite else { return }
      let latency = Monotonic.now() - firstWrite
      startLatency = latency
      tell.yield(.started(after: latency))
    case .finished:
      if phase == .draining { await end(.finished) }
    case .starved:
      if phase == .playing { starvations += 1 }
    case .ended(let error):
      if phase == .playing || phase == .draining { await end(.failed(error)) }
    }
  }

  private func end(_ phase: Phase) async {
    self.phase = phase
    watch?.cancel()
    watch = nil
    let sound = Duration.samples(written, rate: rate)
    heardAtEnd = phase == .finished ? sound : nil
    if phase != .finished {
      // Asked before the stream is gone; a stuck server must not hold up the silence, so this never waits for it.
      heardAtEnd = trimmed(await stream.heard())
    }
    stream.feed.close()
    await stream.stop()
    switch phase {
    case .finished: tell.yield(.finished)
    case .stopped: tell.yield(.stopped)
    case .failed(let error): tell.yield(.failed(error))
    case .playing, .draining: break
    }
    tell.finish()
    listening?.cancel()
    for waiter in waiters { waiter.resume() }
    waiters = []
  }

  private func trimmed(_ heard: Duration?) -> Duration {
    let sound = Duration.samples(written, rate: rate)
    return max(.zero, min(sound, (heard ?? .zero) - preRoll.duration))
  }

  /// A device that does not begin, or that neither takes nor plays anything for two seconds, is given up.
  private func watchForStandstill() {
    watch = Task { [weak self] in
      var last: Progress?
      var quiet = Duration.zero
      let step = Duration.milliseconds(250)
      while !Task.isCancelled {
        try? await Task.sleep(for: step)
        guard !Task.isCancelled, let self else { return }
        let now = await self.progress()
        quiet = now == last && now.isExpected ? quiet + step : .zero
        last = now
        if quiet >= CaptureRun.patience {
          await self.on(.ended(AudioError(.deviceStuck, "The speaker has stopped taking sound.")))
          return
        }
      }
    }
  }

  private struct Progress: Equatable {
    var pulled: Int
    var heard: Duration?
    /// Whether the device should be pulling or playing.
    var isExpected: Bool
  }

  private func progress() async -> Progress {
    let heard = await stream.heard()
    let feed = stream.feed
    return Progress(pulled: feed.pulled, heard: heard, isExpected: phase == .draining || feed.isWaiting)
  }
}
