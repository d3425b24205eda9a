/// The orientation that Exif data gives (TIFF tag 0x0112).
enum Orientation {
  /// 1…8 from the TIFF data in `range`; nil when there is none that can be read. Total: offsets that lead out of the data end in nil.
  static func read(_ bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) -> Int? {
    guard range.count >= 14 else { return nil }
    let isLittle: Bool
    switch (bytes[range.lowerBound], bytes[range.lowerBound + 1]) {
    case (0x49, 0x49): isLittle = true
    case (0x4D, 0x4D): isLittle = false
    default: return nil
    }
    func short(_ offset: Int) -> Int? {
      guard offset >= 0, offset + 2 <= range.count else { return nil }
      let (a, b) = (Int(bytes[range.lowerBound + offset]), Int(bytes[range.lowerBound + offset + 1]))
      return isLittle ? b << 8 | a : a << 8 | b
    }
    func long(_ offset: Int) -> Int? {
      guard let first = short(offset), let second = short(offset + 2) else { return nil }
      return isLittle ? second << 16 | first : first << 16 | second
    }
    guard short(2) == 42, let directory = long(4), let count = short(directory) else { return nil }
    for index in 0..<min(count, 512) {
      let entry = directory + 2 + 12 * index
      guard let tag = short(entry) else { return nil }
      if tag != 0x0112 { continue }
      // A SHORT, which lies in the entry itself.
      guard short(entry + 2) == 3, let value = short(entry + 8), (1...8).contains(value) else { return nil }
      return value
    }
    return nil
  }
}
