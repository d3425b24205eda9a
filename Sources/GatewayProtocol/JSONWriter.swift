extension JSON {
  /// The JSON text as UTF-8, members sorted by name, `/` not escaped (it would inflate base64), numbers that are not finite as null.
  public func encoded() -> [UInt8] {
    var out: [UInt8] = []
    encode(into: &out)
    return out
  }

  /// The JSON text.
  public var text: String { String(decoding: encoded(), as: UTF8.self) }

  /// Appends the JSON text to `out`.
  public func encode(into out: inout [UInt8]) {
    switch self {
    case .null: out.append(contentsOf: "null".utf8)
    case .bool(let value): out.append(contentsOf: (value ? "true" : "false").utf8)
    case .int(let value): out.append(contentsOf: String(value).utf8)
    case .double(let value): out.append(contentsOf: (value.isFinite ? "\(value)" : "null").utf8)
    case .string(let value): JSON.encode(string: value, into: &out)
    case .array(let elements):
      out.append(UInt8(ascii: "["))
      for (index, element) in elements.enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        element.encode(into: &out)
      }
      out.append(UInt8(ascii: "]"))
    case .object(let members):
      out.append(UInt8(ascii: "{"))
      for (index, member) in members.sorted(by: { $0.key < $1.key }).enumerated() {
        if index > 0 { out.append(UInt8(ascii: ",")) }
        JSON.encode(string: member.key, into: &out)
        out.append(UInt8(ascii: ":"))
        member.value.encode(into: &out)
      }
      out.append(UInt8(ascii: "}"))
    }
  }

  /// Appends `value` as a JSON string with its quotes.
  public static func encode(string value: String, into out: inout [UInt8]) {
    var value = value
    value.withUTF8 { encode(stringBytes: UnsafeRawBufferPointer($0), into: &out) }
  }

  /// Appends UTF-8 bytes as a JSON string with its quotes; this is also how JSON text is put into `payloadJSON`.
  public static func encode(stringBytes bytes: UnsafeRawBufferPointer, into out: inout [UInt8]) {
    out.reserveCapacity(out.count + bytes.count + bytes.count / 16 + 2)
    out.append(UInt8(ascii: "\""))
    var plain = 0
    for index in 0..<bytes.count {
      let byte = bytes[index]
      if byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\") { continue }
      out.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[plain..<index]))
      plain = index + 1
      appendEscape(of: byte, to: &out)
    }
    out.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[plain...]))
    out.append(UInt8(ascii: "\""))
  }

  private static func appendEscape(of byte: UInt8, to out: inout [UInt8]) {
    out.append(UInt8(ascii: "\\"))
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"): out.append(byte)
    case 0x0A: out.append(UInt8(ascii: "n"))
    case 0x0D: out.append(UInt8(ascii: "r"))
    case 0x09: out.append(UInt8(ascii: "t"))
    default:
      let digits = Array("0123456789abcdef".utf8)
      out.append(contentsOf: "u00".utf8)
      out.append(digits[Int(byte >> 4)])
      out.append(digits[Int(byte & 15)])
    }
  }
}
