import CUInput
import Glibc
import System

/// A keyboard that the kernel takes for a real one, with one key, until it is let go.
final class VirtualKeyboard: Sendable {
  private let lock = Lock<Int32>(-1)
  let key: UInt16

  /// Throws the system's error: ENOENT without the driver, EACCES without permission.
  init(_ name: String, key: UInt16, repeats: Bool = true) throws(SystemError) {
    self.key = key
    let made = withUnsafePointer(to: key) { cuinput_keyboard(name, $0, 1, repeats ? 1 : 0) }
    if made < 0 { throw SystemError("make a keyboard with uinput", code: -made) }
    lock.withLock { $0 = made }
  }

  deinit { unplug() }

  func press() throws(SystemError) { try send(1) }
  func release() throws(SystemError) { try send(0) }

  private func send(_ value: Int32) throws(SystemError) {
    let result = cuinput_key(lock.withLock { $0 }, key, value)
    if result < 0 { throw SystemError("press a key", code: -result) }
  }

  /// As if its plug were pulled.
  func unplug() {
    lock.withLock {
      if $0 >= 0 { close($0) }
      $0 = -1
    }
  }
}
