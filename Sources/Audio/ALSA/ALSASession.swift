import CALSA
import System

/// An ALSA device on a thread of its own, from opening to closing: what a microphone and a speaker have in common.
struct ALSASession: Sendable {
  /// The device, with the format that it was opened with.
  let device: AudioDevice
  let format: AudioFormat
  /// Why it was opened so.
  let reason: String
  let thread: ALSAThread
  private let stuck: ALSAStuck

  /// Opens `device` on a new thread and returns when `run`, which has the device until it returns, calls `opened`. What it tells there
  /// comes back. Gives up after `limit`.
  static func open<Told: Sendable>(
    _ device: AudioDevice, buffer: Duration, limit: Duration, _ library: ALSALibrary, _ stuck: ALSAStuck,
    run: @escaping @Sendable (ALSADevice, ALSAThread, _ opened: (Result<Told, AudioError>) -> Void) -> Void
  ) async throws(AudioError) -> (ALSASession, Told) {
    let (name, direction) = (device.name, device.direction)
    try stuck.check(name)
    let thread = try ALSAThread()
    let opened = Outcome<Result<(AudioFormat, String, Told), AudioError>>()
    try thread.start(direction == .input ? "alsa-in" : "alsa-out") {
      let device: ALSADevice
      do throws(AudioError) {
        device = try ALSADevice.open(name, direction, period: .milliseconds(20), buffer: buffer, library)
      } catch {
        opened.set(.failure(error))
        return
      }
      defer {
        _ = library.table.snd_pcm_drop(device.pcm)
        _ = library.table.snd_pcm_close(device.pcm)
      }
      run(device, thread) { told in opened.set(told.map { (device.format, device.reason, $0) }) }
    }
    let late = AudioError(.deviceStuck, "The \(direction.noun) \(name) does not open.")
    do throws(AudioError) {
      let (format, reason, told) = try await within(limit, orThrow: late) { try await opened.value.get() }
      var device = device
      device.format = format
      return (ALSASession(device: device, format: format, reason: reason, thread: thread, stuck: stuck), told)
    } catch {
      thread.stop()
      if error == late { stuck.add(name, until: thread) }
      throw error
    }
  }

  /// Ends the thread, and with it the device. One that hangs is remembered.
  func close() async {
    if await !thread.end() { stuck.add(device.name, until: thread) }
  }
}
