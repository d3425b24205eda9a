import CPulse
import System

/// An open microphone at a sound server.
actor PulseInput: InputStream, PulseStream {
  nonisolated let device: AudioDevice
  nonisolated let format: AudioFormat
  nonisolated let reason: String
  nonisolated var unownedExecutor: UnownedSerialExecutor { connection.loop.asUnownedSerialExecutor() }

  private nonisolated let connection: PulseConnection
  private let source: PulseConnection.Device
  private let deliver: @Sendable (InputEvent) -> Void
  private var stream: OpaquePointer?
  private var opener: CheckedContinuation<Result<Void, AudioError>, Never>?
  private var pulse: cpulse { connection.loop.library.table }

  init(
    _ connection: PulseConnection, _ source: PulseConnection.Device, format: AudioFormat,
    deliver: @escaping @Sendable (InputEvent) -> Void
  ) {
    self.connection = connection
    self.source = source
    self.deliver = deliver
    self.format = format
    device = source.device
    reason = "\(format) is the device's own format at the sound server"
  }

  func open() async throws(AudioError) {
    let stream = try await connection.newStream(self, named: "Microphone", source).pointer
    self.stream = stream
    let me = Unmanaged.passUnretained(self).toOpaque()
    pulse.pa_stream_set_state_callback(
      stream,
      { _, me in
        Unmanaged<PulseInput>.fromOpaque(me!).takeUnretainedValue().assumeIsolated { $0.stateChanged() }
      }, me)
    pulse.pa_stream_set_read_callback(
      stream,
      { _, _, me in
        Unmanaged<PulseInput>.fromOpaque(me!).takeUnretainedValue().assumeIsolated { $0.read() }
      }, me)
    // Pieces of 20 ms; ADJUST_LATENCY makes the server set the device itself to that.
    var attributes = pa_buffer_attr(
      maxlength: .max, tlength: .max, prebuf: .max, minreq: .max,
      fragsize: UInt32(max(1, format.rate / 50) * format.frameSize))
    // DONT_MOVE: when the microphone goes, the stream must end and not hear something else, such as a monitor.
    let flags = pa_stream_flags_t(rawValue: PA_STREAM_ADJUST_LATENCY.rawValue | PA_STREAM_DONT_MOVE.rawValue)
    if pulse.pa_stream_connect_record(stream, device.name, &attributes, flags) < 0 {
      let error = refused(await connection.lastError)
      await close()
      throw error
    }
    let result = await withCheckedContinuation { opener = $0 }
    do throws(AudioError) { try result.get() } catch {
      await close()
      throw error
    }
  }

  func close() async {
    detach()
    finishOpening(.failure(AudioError(.stopped, "The microphone was closed before it was open.")))
    await connection.forget(self)
  }

  func detach() {
    guard let stream else { return }
    self.stream = nil
    pulse.pa_stream_set_state_callback(stream, nil, nil)
    pulse.pa_stream_set_read_callback(stream, nil, nil)
    _ = pulse.pa_stream_disconnect(stream)
    pulse.pa_stream_unref(stream)
  }

  func connectionLost(_ error: AudioError) { end(error) }

  private func stateChanged() {
    guard let stream else { return }
    switch pulse.pa_stream_get_state(stream) {
    case PA_STREAM_READY: finishOpening(.success(()))
    case PA_STREAM_FAILED, PA_STREAM_TERMINATED:
      // On a live connection this is the device: unplugged, or its module unloaded.
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
      AudioError(.deviceNotFound, "There is no microphone \(device.name).", remedy: "talknode audio list")
    case Int32(PA_ERR_KILLED.rawValue): AudioError(.deviceLost, "\(device.label) went away.")
    case Int32(PA_ERR_BUSY.rawValue): AudioError(.deviceBusy, "\(device.label) is in use by another program.")
    default: AudioError(.deviceRefused, "\(device.label) can't be opened: \(connection.loop.library.message(code)).")
    }
  }

  private func end(_ error: AudioError) {
    if opener != nil { return finishOpening(.failure(error)) }
    detach()
    deliver(.ended(error))
  }

  private func finishOpening(_ result: Result<Void, AudioError>) {
    let opener = opener
    self.opener = nil
    opener?.resume(returning: result)
  }

  private func read() {
    while let stream, pulse.pa_stream_readable_size(stream) > 0 {
      var data: UnsafeRawPointer?
      var count = 0
      if pulse.pa_stream_peek(stream, &data, &count) < 0 || count == 0 { return }
      let frames = count / format.frameSize
      let at = Monotonic.now() - .samples(frames, rate: format.rate)
      if let data {
        deliver(.samples(format.mono(UnsafeRawBufferPointer(start: data, count: count)), at: at))
      } else {
        // A hole: the server has lost this much. Silence keeps the time right.
        deliver(.gap)
        deliver(.samples([Float](repeating: 0, count: frames), at: at))
      }
      _ = pulse.pa_stream_drop(stream)
    }
  }
}
