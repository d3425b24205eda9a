import CPulse
import System

/// What a microphone and a speaker at a sound server have in common: opening, the ways in which that is refused, and the end.
// @unchecked Sendable: used on libpulse's loop only, by the actor that owns it and by the connection, which both live there.
final class PulseStream: @unchecked Sendable {
  enum Event: Sendable {
    /// There is something to read, or room to write.
    case ready
    /// The device has begun to sound.
    case started
    case ranDry
    /// What `drain` was asked for is done.
    case drained
    /// The device or the server is gone. The last event.
    case ended(AudioError)
  }

  let connection: PulseConnection
  let device: PulseConnection.Device
  let format: AudioFormat
  /// Nil before it is open and after it has ended.
  private(set) var pointer: OpaquePointer?
  private var handler: ((Event) -> Void)?
  private var opener: CheckedContinuation<Result<Void, AudioError>, Never>?

  init(_ connection: PulseConnection, _ device: PulseConnection.Device, format: AudioFormat) {
    self.connection = connection
    self.device = device
    self.format = format
  }

  var loop: PulseLoop { connection.loop }
  var pulse: cpulse { loop.library.table }
  /// Why `format`, in one sentence.
  var reason: String { "\(format) is the device's own format at the sound server" }

  /// Opens it and returns when the server has it ready. `handler` is called on the loop from then on. `connect` asks for what is
  /// particular to a direction; negative is a refusal.
  func open(
    named name: String, handler: @escaping (Event) -> Void, connect: (OpaquePointer) -> Int32
  ) async throws(AudioError) {
    do throws(AudioError) {
      try begin(named: name, handler: handler, connect: connect)
      try await withCheckedContinuation { opener = $0 }.get()
    } catch {
      close()
      throw error
    }
  }

  private func begin(
    named name: String, handler: @escaping (Event) -> Void, connect: (OpaquePointer) -> Int32
  ) throws(AudioError) {
    let made = connection.assumeIsolated { $0.newStream(self, named: name, device, format) }
    guard let pointer = made?.pointer else { throw refusal }
    self.pointer = pointer
    self.handler = handler
    // Unretained: the connection keeps this stream until `close`, and `detach` takes the callbacks back before that.
    let me = Unmanaged.passUnretained(self).toOpaque()
    pulse.pa_stream_set_state_callback(pointer, { _, me in PulseStream.from(me).stateChanged() }, me)
    pulse.pa_stream_set_read_callback(pointer, { _, _, me in PulseStream.from(me).tell(.ready) }, me)
    pulse.pa_stream_set_write_callback(pointer, { _, _, me in PulseStream.from(me).tell(.ready) }, me)
    pulse.pa_stream_set_started_callback(pointer, { _, me in PulseStream.from(me).tell(.started) }, me)
    pulse.pa_stream_set_underflow_callback(pointer, { _, me in PulseStream.from(me).tell(.ranDry) }, me)
    if connect(pointer) < 0 { throw refusal }
  }

  /// Plays what has been written to its end, then tells `.drained`.
  func drain() {
    guard let pointer else { return }
    // A disconnect cancels the operation, so its callback never comes after `detach`.
    let operation = pulse.pa_stream_drain(
      pointer, { _, success, me in if success != 0 { PulseStream.from(me).tell(.drained) } },
      Unmanaged.passUnretained(self).toOpaque())
    if let operation { pulse.pa_operation_unref(operation) } else { tell(.drained) }
  }

  /// Ends it; nothing is told any more.
  func close() {
    detach()
    handler = nil
    finishOpening(.failure(AudioError(.stopped, "The \(device.device.direction.noun) was closed before it was open.")))
    connection.assumeIsolated { $0.forget(self) }
  }

  /// Takes the callbacks back and gives the stream up.
  func detach() {
    guard let pointer else { return }
    self.pointer = nil
    pulse.pa_stream_set_state_callback(pointer, nil, nil)
    pulse.pa_stream_set_read_callback(pointer, nil, nil)
    pulse.pa_stream_set_write_callback(pointer, nil, nil)
    pulse.pa_stream_set_started_callback(pointer, nil, nil)
    pulse.pa_stream_set_underflow_callback(pointer, nil, nil)
    _ = pulse.pa_stream_disconnect(pointer)
    pulse.pa_stream_unref(pointer)
  }

  /// The device or the connection is gone: the opener is told, or who has the stream.
  func end(_ error: AudioError) {
    if opener != nil { return finishOpening(.failure(error)) }
    detach()
    tell(.ended(error))
  }

  private static func from(_ pointer: UnsafeMutableRawPointer?) -> PulseStream {
    Unmanaged<PulseStream>.fromOpaque(pointer!).takeUnretainedValue()
  }

  private func tell(_ event: Event) { handler?(event) }

  private func stateChanged() {
    guard let pointer else { return }
    switch pulse.pa_stream_get_state(pointer) {
    case PA_STREAM_READY: finishOpening(.success(()))
    // On a live connection this is the device: unplugged, or its module unloaded.
    case PA_STREAM_FAILED, PA_STREAM_TERMINATED: end(refusal)
    default: break
    }
  }

  private func finishOpening(_ result: Result<Void, AudioError>) {
    let opener = opener
    self.opener = nil
    opener?.resume(returning: result)
  }

  /// The connection's last error as one about this device.
  private var refusal: AudioError {
    let code = connection.assumeIsolated { $0.lastError }
    let (label, noun) = (device.device.label, device.device.direction.noun)
    return switch code {
    case Int32(PA_ERR_NOENTITY.rawValue):
      AudioError(.deviceNotFound, "There is no \(noun) \(device.device.name).", remedy: "talknode audio list")
    case Int32(PA_ERR_KILLED.rawValue): AudioError(.deviceLost, "\(label) went away.")
    case Int32(PA_ERR_BUSY.rawValue): AudioError(.deviceBusy, "\(label) is in use by another program.")
    case Int32(PA_ERR_CONNECTIONTERMINATED.rawValue):
      AudioError(
        .serverUnavailable, "The sound server is gone.",
        remedy: "systemctl --user start pipewire-pulse (or: pulseaudio --start)")
    default: AudioError(.deviceRefused, "\(label) can't be opened: \(loop.library.message(code)).")
    }
  }
}
