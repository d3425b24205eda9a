import CInput
import Glibc
import System

/// The descriptor of one input device that has our key.
final class Keyboard {
  let path: String
  let name: String
  let descriptor: Int32

  /// Opens a device and reads its name. Throws the system's error: EACCES without permission, ENODEV once it is gone.
  init(path: String) throws(SystemError) {
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    if descriptor < 0 { throw SystemError("open \(path)", code: errno) }
    var bytes = [CChar](repeating: 0, count: 256)
    let length = cinput_name(descriptor, &bytes, UInt32(bytes.count - 1))
    self.path = path
    self.descriptor = descriptor
    name = length <= 0 ? "" : String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { close(descriptor) }

  func has(_ key: KeyCode) -> Bool { isSet(key, cinput_keys) }
  func isDown(_ key: KeyCode) -> Bool { isSet(key, cinput_keys_down) }

  private func isSet(_ key: KeyCode, _ read: (Int32, UnsafeMutablePointer<UInt8>) -> Int32) -> Bool {
    var bits = [UInt8](repeating: 0, count: Int(cinput_key_bytes))
    if read(descriptor, &bits) < 0 { return false }
    return bits[Int(key.rawValue) / 8] & (1 << (key.rawValue % 8)) != 0
  }

  enum Reading {
    case events([input_event])
    case nothing
    case gone
  }

  /// What has come since the last call, at most 64 events.
  func read() -> Reading {
    let size = MemoryLayout<input_event>.stride
    var events = [input_event](repeating: input_event(), count: 64)
    let count = events.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
    if count >= size { return .events(Array(events.prefix(count / size))) }
    if count < 0 && (errno == EAGAIN || errno == EINTR) { return .nothing }
    return .gone
  }
}
