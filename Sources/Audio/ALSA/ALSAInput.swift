import CALSA
import CLinux
import Glibc
import System

/// An open ALSA microphone.
final class ALSAInput: InputStream {
  var device: AudioDevice { session.device }
  var format: AudioFormat { session.format }
  var reason: String { session.reason }
  private let session: ALSASession
  private let gate: Gate

  /// Lets samples through until the stream is closed, also those of a thread that comes back late.
  final class Gate: Sendable {
    private let deliver: Lock<(@Sendable (InputEvent) -> Void)?>
    init(_ deliver: @escaping @Sendable (InputEvent) -> Void) { self.deliver = Lock(deliver) }
    func pass(_ event: InputEvent) { deliver.withLock { $0 }?(event) }
    func shut() { deliver.withLock { $0 = nil } }
  }

  private init(_ session: ALSASession, gate: Gate) {
    self.session = session
    self.gate = gate
  }

  /// What the device keeps for a reader that has no turn, on a small machine with much to do or a slow card: beyond it words are lost. It
  /// delays nothing, for each 20 ms are read when they are there.
  private static let roomForStalls = Duration.seconds(1)

  /// Opens `device` on a thread of its own; gives up after `limit`.
  static func open(
    _ device: AudioDevice, limit: Duration, _ library: ALSALibrary, _ stuck: ALSAStuck,
    deliver: @escaping @Sendable (InputEvent) -> Void
  ) async throws(AudioError) -> ALSAInput {
    let gate = Gate(deliver)
    let name = device.name
    do throws(AudioError) {
      let (session, _) = try await ALSASession.open(device, buffer: roomForStalls, limit: limit, library, stuck) {
        (device, thread, opened: (Result<Void, AudioError>) -> Void) in
        listen(to: device, name, library, thread, gate, opened)
      }
      return ALSAInput(session, gate: gate)
    } catch {
      gate.shut()
      throw error
    }
  }

  func close() async {
    gate.shut()
    await session.close()
  }

  // MARK: On the thread

  private static func listen(
    to device: ALSADevice, _ name: String, _ library: ALSALibrary, _ thread: ALSAThread, _ gate: Gate,
    _ opened: (Result<Void, AudioError>) -> Void
  ) {
    let alsa = library.table
    let code = alsa.snd_pcm_start(device.pcm)
    opened(code < 0 ? .failure(library.refusal(name, .input, code)) : .success(()))
    if code < 0 { return }
    var descriptors = device.descriptors(alsa, wake: thread.wakeDescriptor)
    let room = max(device.format.rate / 50, device.bufferFrames)
    let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: room * device.format.frameSize, alignment: 16)
    defer { scratch.deallocate() }
    while !thread.isStopping {
      if poll(&descriptors, nfds_t(descriptors.count), 500) < 0 && errno != EINTR { break }
      if thread.isStopping { break }
      // Plug-in devices watch descriptors of their own and have to translate what happened to them.
      var events: UInt16 = 0
      _ = descriptors.withUnsafeMutableBufferPointer {
        alsa.snd_pcm_poll_descriptors_revents(device.pcm, $0.baseAddress! + 1, UInt32($0.count - 1), &events)
      }
      if events == 0 { continue }
      if let error = read(device, scratch, room, library, gate, name) {
        gate.pass(.ended(error))
        break
      }
    }
  }

  /// Reads what is there; an error when the device is lost.
  private static func read(
    _ device: ALSADevice, _ scratch: UnsafeMutableRawBufferPointer, _ room: Int, _ library: ALSALibrary, _ gate: Gate,
    _ name: String
  ) -> AudioError? {
    let alsa = library.table
    let frames = Int(alsa.snd_pcm_readi(device.pcm, scratch.baseAddress, snd_pcm_uframes_t(room)))
    if frames > 0 {
      let at = Monotonic.now() - .samples(frames, rate: device.format.rate)
      let bytes = UnsafeRawBufferPointer(rebasing: scratch[..<(frames * device.format.frameSize)])
      gate.pass(.samples(device.format.mono(bytes), at: at))
      return nil
    }
    if frames == 0 || frames == -Int(EAGAIN) || frames == -Int(EINTR) { return nil }
    if frames == -Int(EPIPE) || frames == -Int(ESTRPIPE) {
      gate.pass(.gap)
      if alsa.snd_pcm_recover(device.pcm, Int32(frames), 1) >= 0 && alsa.snd_pcm_start(device.pcm) >= 0 { return nil }
    }
    return AudioError(.deviceLost, "The microphone \(name) went away: \(library.message(Int32(frames))).")
  }
}
