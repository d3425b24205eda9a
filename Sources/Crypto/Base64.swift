import COpenSSL

/// Base64 in both alphabets.
public enum Base64 {
  /// Standard alphabet with padding, no line breaks.
  public static func encode(_ bytes: [UInt8]) -> String {
    String(unsafeUninitializedCapacity: (bytes.count + 2) / 3 * 4 + 1) { buffer in
      Int(EVP_EncodeBlock(buffer.baseAddress, bytes, Int32(bytes.count)))
    }
  }

  /// The URL alphabet without padding.
  public static func encodeURL(_ bytes: [UInt8]) -> String {
    var out: [UInt8] = []
    for byte in encode(bytes).utf8 {
      switch byte {
      case UInt8(ascii: "+"): out.append(UInt8(ascii: "-"))
      case UInt8(ascii: "/"): out.append(UInt8(ascii: "_"))
      case UInt8(ascii: "="): break
      default: out.append(byte)
      }
    }
    return String(decoding: out, as: UTF8.self)
  }

  /// Bytes of either alphabet, with or without padding; nil for anything else, also when the last character has bits that say
  /// nothing: one value has one spelling.
  public static func decode(_ text: some StringProtocol) -> [UInt8]? {
    var out: [UInt8] = []
    out.reserveCapacity(text.utf8.count / 4 * 3 + 3)
    var bits: UInt32 = 0
    var count = 0
    var padding = 0
    for byte in text.utf8 {
      let value: UInt32
      switch byte {
      case 65...90: value = UInt32(byte) - 65
      case 97...122: value = UInt32(byte) - 71
      case 48...57: value = UInt32(byte) + 4
      case UInt8(ascii: "+"), UInt8(ascii: "-"): value = 62
      case UInt8(ascii: "/"), UInt8(ascii: "_"): value = 63
      case UInt8(ascii: "="):
        padding += 1
        continue
      default: return nil
      }
      if padding > 0 { return nil }
      bits = bits << 6 | value
      count += 1
      if count % 4 == 0 {
        out.append(UInt8(truncatingIfNeeded: bits >> 16))
        out.append(UInt8(truncatingIfNeeded: bits >> 8))
        out.append(UInt8(truncatingIfNeeded: bits))
      }
    }
    let idle: UInt32 = count % 4 == 2 ? 0xF : count % 4 == 3 ? 0x3 : 0
    if bits & idle != 0 { return nil }
    switch (count % 4, padding) {
    case (0, 0): return out
    case (2, 0), (2, 2):
      out.append(UInt8(truncatingIfNeeded: bits >> 4))
      return out
    case (3, 0), (3, 1):
      out.append(UInt8(truncatingIfNeeded: bits >> 10))
      out.append(UInt8(truncatingIfNeeded: bits >> 2))
      return out
    default: return nil
    }
  }
}
