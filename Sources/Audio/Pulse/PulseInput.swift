import CPulse
import System

/// An open microphone at a sound server.
actor PulseInput: InputStream {
  nonisolated var device: AudioDevice { stream.device.device }
  nonisolated var format: AudioFormat { stream.format }
  nonisolated var reason: String { stream.reason }
  nonisolated var unownedExecutor: UnownedSerialExecutor { stream.loop.asUnownedSerialExecutor() }

  private nonisolated let stream: PulseStream
  private let deliver: @Sendable (InputEvent) -> Void

  init(
    _ connection: PulseConnection, _ source: PulseConnection.Device, format: AudioFormat,
    deliver: @escaping @Sendable (InputEvent) -> Void
  ) {
    stream = PulseStream(connection, source, format: format)
    self.deliver = deliver
  }

  func open() async throws(AudioError) {
    // Pieces of 20 ms; ADJUST_LATENCY makes the server set the device itself to that.
    var attributes = pa_buffer_attr(
      maxlength: .max, tlength: .max, prebuf: .max, minreq: .max,
      fragsize: UInt32(max(1, format.rate / 50) * format.frameSize))
    // DONT_MOVE: when the microphone goes, the stream must end and not hear something else, such as a monitor.
    let flags = pa_stream_flags_t(rawValue: PA_STREAM_ADJUST_LATENCY.rawValue | PA_STREAM_DONT_MOVE.rawValue)
    try await stream.open(named: "Microphone") { [weak self] event in
      self?.assumeIsolated { $0.on(event) }
    } connect: { [stream, device] pointer in
      stream.pulse.pa_stream_connect_record(pointer, device.name, &attributes, flags)
    }
  }

  func close() async { stream.close() }

  private func on(_ event: PulseStream.Event) {
    switch event {
    case .ready: read()
    case .ended(let error): deliver(.ended(error))
    case .started, .ranDry, .drained: break
    }
  }

  private func read() {
    let pulse = stream.pulse
    while let pointer = stream.pointer, pulse.pa_stream_readable_size(pointer) > 0 {
      var data: UnsafeRawPointer?
      var count = 0
      if pulse.pa_stream_peek(pointer, &data, &count) < 0 || count == 0 { return }
      let frames = count / format.frameSize
      let at = Monotonic.now() - .samples(frames, rate: format.rate)
      if let data {
        deliver(.samples(format.mono(UnsafeRawBufferPointer(start: data, count: count)), at: at))
      } else {
        // A hole: the server has lost this much. Silence keeps the time right.
        deliver(.gap)
        deliver(.samples([Float](repeating: 0, count: frames), at: at))
      }
      _ = pulse.pa_stream_drop(pointer)
    }
  }
}
