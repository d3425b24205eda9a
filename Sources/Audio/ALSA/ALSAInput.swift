import CALSA
import CLinux
import Glibc
import System

/// An open ALSA microphone.
final class ALSAInput: InputStream {
  let device: AudioDevice
  let format: AudioFormat
  let reason: String
  private let thread: ALSAThread
  private let stuck: ALSAStuck
  private let name: String
  private let gate: Gate

  /// Lets samples through until the stream is closed, also those of a thread that comes back late.
  final class Gate: Sendable {
    private let deliver: Lock<(@Sendable (InputEvent) -> Void)?>
    init(_ deliver: @escaping @Sendable (InputEvent) -> Void) { self.deliver = Lock(deliver) }
    func pass(_ event: InputEvent) { deliver.withLock { $0 }?(event) }
    func shut() { deliver.withLock { $0 = nil } }
  }

  private init(
    _ device: AudioDevice, _ name: String, format: AudioFormat, reason: String, thread: ALSAThread, gate: Gate,
    stuck: ALSAStuck
  ) {
    self.device = device
    self.name = name
    self.format = format
    self.reason = reason
    self.thread = thread
    self.gate = gate
    self.stuck = stuck
  }

  /// Opens the PCM called `name` on a thread of its own; gives up after `limit`.
  static func open(
    _ device: AudioDevice, limit: Duration, _ library: ALSALibrary, _ stuck: ALSAStuck,
    deliver: @escaping @Sendable (InputEvent) -> Void
  ) async throws(AudioError) -> ALSAInput {
    let name = device.name
    try stuck.check(name)
    let thread = try ALSAThread()
    let gate = Gate(deliver)
    let opened = Outcome<Result<(AudioFormat, String), AudioError>>()
    try thread.start("alsa-in") {
      run(name, library, thread, gate, opened)
    }
    let late = AudioError(.deviceStuck, "The microphone \(name) does not open.")
    do throws(AudioError) {
      let (format, reason) = try await within(limit, orThrow: late) { try await opened.value.get() }
      var device = device
      device.format = format
      return ALSAInput(device, name, format: format, reason: reason, thread: thread, gate: gate, stuck: stuck)
    } catch {
      gate.shut()
      thread.stop()
      if error == late { stuck.add(name, until: thread) }
      throw error
    }
  }

  func close() async {
    gate.shut()
    if await !thread.end() { stuck.add(name, until: thread) }
  }

  // MARK: On the thread

  private static func run(
    _ name: String, _ library: ALSALibrary, _ thread: ALSAThread, _ gate: Gate,
    _ opened: Outcome<Result<(AudioFormat, String), AudioError>>
  ) {
    let device: ALSADevice
    do throws(AudioError) {
      device = try ALSADevice.open(name, .input, period: .milliseconds(20), buffer: .milliseconds(200), library)
    } catch {
      opened.set(.failure(error))
      return
    }
    let alsa = library.table
    defer {
      _ = alsa.snd_pcm_drop(device.pcm)
      _ = alsa.snd_pcm_close(device.pcm)
    }
    let code = alsa.snd_pcm_start(device.pcm)
    if code < 0 {
      opened.set(.failure(library.refusal(name, .input, code)))
      return
    }
    opened.set(.success((device.format, device.reason)))
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
