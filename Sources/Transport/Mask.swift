/// RFC 6455 §5.3: the first payload byte is XORed with the key's first byte, and so on round the four.
///
/// The key's first byte on the wire is its lowest here.
enum Mask {
  /// Masks or unmasks in place. `phase` is how many bytes of the frame's payload lie before these.
  static func apply(_ key: UInt32, to bytes: UnsafeMutableRawBufferPointer, phase: Int) {
    guard let start = bytes.baseAddress else { return }
    let turn = UInt32(8 * (phase & 3))
    let turned = turn == 0 ? key : key >> turn | key << (32 - turn)
    let wide = UInt64(turned) | UInt64(turned) << 32
    let count = bytes.count
    var index = 0
    while index &+ 8 <= count {
      let value = (start + index).loadUnaligned(as: UInt64.self) ^ wide.littleEndian
      (start + index).storeBytes(of: value, as: UInt64.self)
      index &+= 8
    }
    while index < count {
      bytes[index] ^= UInt8(truncatingIfNeeded: turned >> UInt32(8 * (index & 3)))
      index &+= 1
    }
  }
}
