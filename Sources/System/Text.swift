/// Small conveniences on text and bytes that Foundation would otherwise be imported for.
extension StringProtocol {
  /// Without white space and line ends at both ends.
  public var trimmed: String {
    guard let first = firstIndex(where: { !$0.isWhitespace }) else { return "" }
    let last = lastIndex { !$0.isWhitespace }!
    return String(self[first...last])
  }
}

/// Lower-case hexadecimal digits of `bytes`.
public func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
  let digits = Array("0123456789abcdef".utf8)
  var out: [UInt8] = []
  for byte in bytes {
    out.append(digits[Int(byte >> 4)])
    out.append(digits[Int(byte & 15)])
  }
  return String(decoding: out, as: UTF8.self)
}

/// The bytes of an even number of hexadecimal digits in either case; nil for anything else.
public func bytes(hexadecimal text: some StringProtocol) -> [UInt8]? {
  let digits = text.utf8.map { digit -> UInt8? in
    switch digit {
    case 48...57: digit - 48
    case 65...70: digit - 55
    case 97...102: digit - 87
    default: nil
    }
  }
  if digits.count % 2 != 0 { return nil }
  var out: [UInt8] = []
  for index in stride(from: 0, to: digits.count, by: 2) {
    guard let high = digits[index], let low = digits[index + 1] else { return nil }
    out.append(high << 4 | low)
  }
  return out
}
