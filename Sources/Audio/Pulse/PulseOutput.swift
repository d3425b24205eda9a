import CPulse
import System

/// An open speaker at a sound server.
actor PulseOutput: OutputStream {
  nonisolated var device: AudioDevice { stream.device.device }
  nonisolated var format: AudioFormat { stream.format }
  nonisolated var reason: String { stream.reason }
  nonisolated let feed: OutputFeed
  nonisolated var unownedExecutor: UnownedSerialExecutor { stream.loop.asUnownedSerialExecutor() }

  private nonisolated let stream: PulseStream
  private let report: @Sendable (OutputEvent) -> Void
  private var isDraining = false
  private var written = 0

  init(
    _ connection: PulseConnection, _ sink: PulseConnection.Device, format: AudioFormat,
    report: @escaping @Sendable (OutputEvent) -> Void
  ) {
    stream = PulseStream(connection, sink, format: format)
    self.report = report
    feed = OutputFeed(limit: format.rate * 2 / 5)
  }

  func open() async throws(AudioError) {
    let frame = format.frameSize
    // 80 ms on their way: little enough to be silent within 100 ms even where the server can't take them back.
    var attributes = pa_buffer_attr(
      maxlength: .max, tlength: UInt32(format.rate * 80 / 1000 * frame),
      prebuf: UInt32(format.rate * 40 / 1000 * frame),
      minreq: UInt32(format.rate * 20 / 1000 * frame), fragsize: .max)
    let flags = pa_stream_flags_t(
      rawValue: PA_STREAM_ADJUST_LATENCY.rawValue | PA_STREAM_INTERPOLATE_TIMING.rawValue
        | PA_STREAM_AUTO_TIMING_UPDATE.rawValue)
    try await stream.open(named: "Speech") { [weak self] event in
      self?.assumeIsolated { $0.on(event) }
    } connect: { [stream, device] pointer in
      stream.pulse.pa_stream_connect_playback(pointer, device.name, &attributes, flags, nil, nil)
    }
    feed.onPush { [weak self] in
      guard let self else { return }
      Task { await self.write() }
    }
  }

  func heard() -> Duration? {
    guard let pointer = stream.pointer else { return nil }
    var time: pa_usec_t = 0
    if stream.pulse.pa_stream_get_time(pointer, &time) < 0 { return nil }
    return min(.microseconds(Int64(clamping: time)), .samples(written, rate: format.rate))
  }

  func stop() async {
    feed.close()
    let pulse = stream.pulse
    if let pointer = stream.pointer, pulse.pa_stream_get_state(pointer) == PA_STREAM_READY,
      let operation = pulse.pa_stream_flush(pointer, nil, nil)
    {
      pulse.pa_operation_unref(operation)
    }
    stream.close()
  }

  private func on(_ event: PulseStream.Event) {
    switch event {
    case .ready: write()
    case .started: report(.started)
    case .ranDry: if !isDraining { report(.starved) }
    case .drained: report(.finished)
    case .ended(let error): report(.ended(error))
    }
  }

  /// Hands the server as much as it has asked for and the feed has.
  private func write() {
    let pulse = stream.pulse
    guard let pointer = stream.pointer, !isDraining, pulse.pa_stream_get_state(pointer) == PA_STREAM_READY else {
      return
    }
    let room = pulse.pa_stream_writable_size(pointer)
    if room == Int.max || room < 0 { return }
    let (samples, isEnd) = feed.pull(room / format.frameSize)
    if !samples.isEmpty {
      let bytes = format.bytes(samples)
      let code = bytes.withUnsafeBytes {
        pulse.pa_stream_write(pointer, $0.baseAddress, $0.count, nil, 0, PA_SEEK_RELATIVE)
      }
      if code < 0 { return }
      written += samples.count
    }
    if isEnd {
      isDraining = true
      stream.drain()
    }
  }
}
