import CPulse
import System

/// An open speaker at a sound server.
actor PulseOutput: OutputStream, PulseStream {
  nonisolated let device: AudioDevice
  nonisolated let format: AudioFormat
  nonisolated let reason: String
  nonisolated let feed: OutputFeed
  nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.asUnownedSerialExecutor() }

  private nonisolated let connection: PulseConnection
  private let sink: PulseConnection.Device
  private let report: @Sendable (OutputEvent) -> Void
  private var stream: OpaquePointer?
  private var opener: CheckedContinuation<Result<Void, AudioError>, Never>?
  private var isDraining = false
  private var written = 0
  private var pulse: cpulse { connection.loop.library.table }

  init(
    _ connection: PulseConnection, _ sink: PulseConnection.Device, format: AudioFormat,
    report: @escaping @Sendable (OutputEvent) -> Void
  ) {
    self.connection = connection
    self.sink = sink
    self.report = report
    self.format = format
    device = sink.device
    reason = "\(format) is the device's own format at the sound server"
    feed = OutputFeed(limit: format.rate * 2 / 5)
  }

  func open() async throws(AudioError) {
    let stream = try await connection.newStream(self, named: "Speech", sink).pointer
    self.stream = stream
    let me = Unmanaged.passUnretained(self).toOpaque()
    pulse.pa_stream_set_state_callback(
      stream,
      { _, me in
        Unmanaged<PulseOutput>.fromOpaque(me!).takeUnretainedValue().assumeIsolated { $0.stateChanged() }
      }, me)
    pulse.pa_stream_set_write_callback(
      stream,
      { _, _, me in
        Unmanaged<PulseOutput>.fromOpaque(me!).takeUnretainedValue().assumeIsolated { $0.write() }
      }, me)
    pulse.pa_stream_set_started_callback(
      stream,
      { _, me in
        Unmanaged<PulseOutput>.fromOpaque(me!).takeUnretainedValue().assumeIsolated { $0.report(.started) }
      }, me)
    pulse.pa_stream_set_underflow_callback(
      stream,
      { _, me in
        Unmanaged<PulseOutput>.fromOpaque(me!).takeUnretainedValue().assumeIsolated { $0.ranDry() }
      }, me)
    let frame = format.frameSize
    // 80 ms on their way: little enough to be silent within 100 ms even where the server can't take them back.
    var attributes = pa_buffer_attr(
      maxlength: .max, tlength: UInt32(format.rate * 80 / 1000 * frame),
      prebuf: UInt32(format.rate * 40 / 1000 * frame),
      minreq: UInt32(format.rate * 20 / 1000 * frame), fragsize: .max)
    let flags = pa_stream_flags_t(
      rawValue: PA_STREAM_ADJUST_LATENCY.rawValue | PA_STREAM_INTERPOLATE_TIMING.rawValue
        | PA_STREAM_AUTO_TIMING_UPDATE.rawValue)
    if pulse.pa_stream_connect_playback(stream, device.name, &attributes, flags, nil, nil) < 0 {
      let error = refused(await connection.lastError)
      await stop()
      throw error
    }
    let result = await withCheckedContinuation { opener = $0 }
    do throws(AudioError) { try result.get() } catch {
      await stop()
      throw error
    }
    feed.onPush { [weak self] in
      guard let self else { return }
      Task { await self.write() }
    }
  }

  func heard() -> Duration? {
    guard let stream else { return nil }
    var time: pa_usec_t = 0
    if pulse.pa_stream_get_time(stream, &time) < 0 { return nil }
    return min(.microseconds(Int64(clamping: time)), .samples(written, rate: format.rate))
  }

  func stop() async {
    feed.close()
    if let stream, pulse.pa_stream_get_state(stream) == PA_STREAM_READY {
      if let operation = pulse.pa_stream_flush(stream, nil, nil) { pulse.pa_operation_unref(operation) }
    }
    detach()
    finishOpening(.failure(AudioError(.stopped, "The speaker was closed before it was open.")))
    await connection.forget(self)
  }

  func detach() {
    guard let stream else { return }
    self.stream = nil
    pulse.pa_stream_set_state_callback(stream, nil, nil)
    pulse.pa_stream_set_write_callback(stream, nil, nil)
    pulse.pa_stream_set_started_callback(stream, nil, nil)
    pulse.pa_stream_set_underflow_callback(stream, nil, nil)
    _ = pulse.pa_stream_disconnect(stream)
    pulse.pa_stream_unref(stream)
  }

  func connectionLost(_ error: AudioError) { end(error) }

  private func stateChanged() {
    guard let stream else { return }
    switch pulse.pa_stream_get_state(stream) {
    case PA_STREAM_READY: finishOpening(.success(()))
    case PA_STREAM_FAILED, PA_STREAM_TERMINATED:
      Task {
        let code = await connection.lastError
        end(refused(code))
      }
    default: break
    }
  }

  private func refused(_ code: Int32) -> AudioError {
    switch code {
    case Int32(PA_ERR_NOENTITY.rawValue):
      AudioError(.deviceNotFound, "There is no speaker \(device.name).", remedy: "talknode audio list")
    case Int32(PA_ERR_KILLED.rawValue): AudioError(.deviceLost, "\(device.label) went away.")
    case Int32(PA_ERR_BUSY.rawValue): AudioError(.deviceBusy, "\(device.label) is in use by another program.")
    default: AudioError(.deviceRefused, "\(device.label) can't be opened: \(connection.loop.library.message(code)).")
    }
  }

  private func end(_ error: AudioError) {
    if opener != nil { return finishOpening(.failure(error)) }
    detach()
    report(.ended(error))
  }

  private func finishOpening(_ result: Result<Void, AudioError>) {
    let opener = opener
    self.opener = nil
    opener?.resume(returning: result)
  }

  private func ranDry() {
    if !isDraining { report(.starved) }
  }

  /// Hands the server as much as it has asked for and the feed has.
  private func write() {
    guard let stream, !isDraining, pulse.pa_stream_get_state(stream) == PA_STREAM_READY else { return }
    let room = pulse.pa_stream_writable_size(stream)
    if room == Int.max || room < 0 { return }
    let (samples, isEnd) = feed.pull(room / format.frameSize)
    if !samples.isEmpty {
      let bytes = format.bytes(samples)
      let code = bytes.withUnsafeBytes {
        pulse.pa_stream_write(stream, $0.baseAddress, $0.count, nil, 0, PA_SEEK_RELATIVE)
      }
      if code < 0 { return }
      written += samples.count
    }
    if isEnd { drain(stream) }
  }

  private func drain(_ stream: OpaquePointer) {
    isDraining = true
    // A disconnect cancels the operation, so its callback never comes after `detach`.
    let operation = pulse.pa_stream_drain(
      stream,
      { _, success, me in
        Unmanaged<PulseOutput>.fromOpaque(me!).takeUnretainedValue().assumeIsolated {
          if success != 0 { $0.report(.finished) }
        }
      }, Unmanaged.passUnretained(self).toOpaque())
    if let operation {
      pulse.pa_operation_unref(operation)
    } else {
      report(.finished)
    }
  }
}
