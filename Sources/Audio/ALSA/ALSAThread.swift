import CLinux
import Glibc
import System

/// The thread that an ALSA stream lives on from opening to closing: any of ALSA's calls may block when a driver or a server
/// behind a plug-in is stuck, and then it blocks nobody but this thread.
final class ALSAThread: Sendable {
  private struct State {
    var isStopping = false
    var isClosed = false
  }
  /// Readable when the thread should look up.
  let wakeDescriptor: Int32
  let over = Outcome<Void>()
  private let state = Lock(State())

  init() throws(AudioError) {
    wakeDescriptor = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    if wakeDescriptor < 0 { throw AudioError(.deviceRefused, "No descriptor is left to open a sound device.") }
  }

  deinit { close(wakeDescriptor) }

  func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws(AudioError) {
    let started = startThread(name: name) { [self] in
      body()
      over.set(())
    }
    if !started { throw AudioError(.deviceRefused, "No thread is left to open a sound device.") }
  }

  var isStopping: Bool { state.withLock { $0.isStopping } }

  func wake() {
    var one: UInt64 = 1
    _ = write(wakeDescriptor, &one, 8)
  }

  /// On the thread: forget past wakes.
  func clearWakes() {
    var count: UInt64 = 0
    _ = read(wakeDescriptor, &count, 8)
  }

  func stop() {
    state.withLock { $0.isStopping = true }
    wake()
  }

  /// Asks the thread to end and waits for it, two seconds at most. False when it is stuck.
  func end() async -> Bool {
    stop()
    do throws(AudioError) {
      try await within(.seconds(2), orThrow: AudioError(.deviceStuck, "The device does not close.")) { [over] in
        await over.value
      }
      return true
    } catch {
      return false
    }
  }
}

/// Devices whose thread has not come back: they are not opened again until it has, so that threads don't pile up.
final class ALSAStuck: Sendable {
  private let names = Lock<[String: Int]>([:])

  func check(_ name: String) throws(AudioError) {
    if names.withLock({ $0[name, default: 0] > 0 }) {
      throw AudioError(
        .deviceStuck, "The sound device \(name) hangs in its driver or in the sound server behind it.",
        remedy: "Unplug it and plug it in again, or restart the sound server.")
    }
  }

  /// Remembers `name` until `thread` is over.
  func add(_ name: String, until thread: ALSAThread) {
    names.withLock { $0[name, default: 0] += 1 }
    Task {
      await thread.over.value
      names.withLock { $0[name, default: 1] -= 1 }
    }
  }
}
