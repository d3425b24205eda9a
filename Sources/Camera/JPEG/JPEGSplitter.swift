/// Cuts a stream of JPEGs (MJPEG as files and programs write it) into its frames, at whatever pieces it comes.
///
/// Total and bounded: what lies between frames is skipped, a frame that ends without its end mark ends where the next begins, and one
/// of over `frameLimit` bytes is dropped. Markers are followed, so that a thumbnail within a frame does not end it.
public struct JPEGSplitter: Sendable {
  public init() {}

  /// The largest frame, in bytes.
  public static let frameLimit = 32 << 20

  private enum Place: Equatable {
    /// Before a frame's start mark.
    case outside
    /// Between segments: a marker is to come.
    case markers
    /// In the compressed data of a scan.
    case scan
  }
  private var buffer: [UInt8] = []
  private var place = Place.outside
  /// Where the frame begins in the buffer, and how far it has been looked at.
  private var start = 0
  private var at = 0
  private var ready: [[UInt8]] = []

  /// Takes the next piece of the stream.
  public mutating func feed(_ bytes: [UInt8]) {
    compact()
    buffer += bytes
    scan()
  }

  /// The next whole frame, in order.
  public mutating func next() -> [UInt8]? { ready.isEmpty ? nil : ready.removeFirst() }

  /// The stream has ended: what is left of the last frame, which may be damaged; nil when nothing is. To be called when `next` is nil.
  public mutating func finish() -> [UInt8]? {
    if let frame = next() { return frame }
    defer {
      buffer = []
      (start, at, place) = (0, 0, .outside)
    }
    return place != .outside && buffer.count - start > 4 ? Array(buffer[start...]) : nil
  }

  private mutating func compact() {
    let done = place == .outside ? at : start
    if done == 0 { return }
    buffer.removeFirst(done)
    start -= min(start, done)
    at -= done
  }

  private mutating func scan() {
    var state = (place: place, start: start, at: at)
    var cuts: [Range<Int>] = []
    buffer.withUnsafeBufferPointer { bytes in
      while Self.step(bytes, &state.place, &state.start, &state.at, &cuts) {}
      if state.place != .outside && bytes.count - state.start > Self.frameLimit {
        state = (.outside, state.at, state.at)
      }
    }
    (place, start, at) = state
    ready += cuts.map { Array(buffer[$0]) }
  }

  /// Goes on to the next marker; false when more bytes are needed.
  private static func step(
    _ bytes: UnsafeBufferPointer<UInt8>, _ place: inout Place, _ start: inout Int, _ at: inout Int,
    _ cuts: inout [Range<Int>]
  ) -> Bool {
    while at < bytes.count && bytes[at] != 0xFF { at += 1 }
    guard at + 1 < bytes.count else { return false }
    let marker = bytes[at + 1]
    if marker == 0xFF {
      at += 1
      return true
    }
    if marker == 0xD8 {
      // A start within a frame: the frame before was cut off.
      if place != .outside { cuts.append(start..<at) }
      (place, start) = (.markers, at)
      at += 2
      return true
    }
    if marker == 0xD9 && place != .outside {
      at += 2
      cuts.append(start..<at)
      place = .outside
      return true
    }
    guard place == .markers ? hasLength(marker) : place == .scan && mayFollowScan(marker) else {
      at += 2
      return true
    }
    guard at + 3 < bytes.count else { return false }
    let length = Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
    let end = at + 2 + max(length, 2)
    guard end <= bytes.count else { return false }
    place = marker == 0xDA ? .scan : .markers
    at = end
    return true
  }

  /// Whether a segment with a length follows (ISO/IEC 10918-1 Table B.1). What does not is damage or stands alone, and is passed over.
  private static func hasLength(_ marker: UInt8) -> Bool {
    switch marker {
    case 0xC0...0xCF, 0xDA...0xDF, 0xE0...0xEF, 0xFE: true
    default: false
    }
  }

  /// Whether it can come after a scan: only tables and the next scan. In damaged data anything else would skip over whole frames.
  private static func mayFollowScan(_ marker: UInt8) -> Bool { marker == 0xC4 || (0xDA...0xDD).contains(marker) }
}
