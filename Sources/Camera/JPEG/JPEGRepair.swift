import Glibc

/// Makes a valid JFIF file of what cameras call a JPEG.
///
/// Frames of USB cameras lack the Huffman tables (MJPEG's are fixed), have an `AVI1` mark in place of `JFIF`, stray bytes between segments
/// and padding at the end. What is whole is left as it is, byte for byte. Total and bounded: any bytes end in a picture's
/// file or in an error; whether its compressed data decodes is for the decoder to say.
///
/// Metadata (Exif, XMP, makers' notes, thumbnails, comments) is left out: it tells where, when and by which device a picture was taken, which
/// nobody asked for. Only segments that decoding needs are kept, whatever else there is; the orientation is kept aside.
public struct JPEGRepair: Sendable, Equatable {
  /// The cleaned file.
  public let bytes: [UInt8]
  public let size: Size
  /// 1 (grey), 3 or 4.
  public let components: Int
  /// How the picture is to be turned, 1…8 as Exif says it; 1 is upright.
  public let orientation: Int
  /// Whether anything had to be changed.
  public let isChanged: Bool

  /// Why bytes are no picture.
  public enum Damage: String, Error, Sendable, Equatable {
    case tooSmall = "it is too small"
    case noStart = "it has no start"
    case noFrame = "it has no frame header"
    case noScan = "it has no picture data"
    case badSegment = "a segment is damaged"
    case badSize = "its size is impossible"
    case cutOff = "it is cut off"
  }

  /// No camera writes a picture in fewer bytes.
  static let leastBytes = 100
  /// No picture has more segments than this.
  private static let segmentLimit = 4096

  /// Cleans a frame.
  public init(_ frame: [UInt8]) throws(Damage) {
    guard frame.count >= Self.leastBytes else { throw .tooSmall }
    let result: Result<Scan, Damage> = frame.withUnsafeBufferPointer { bytes in
      Result { () throws(Damage) in
        var scan = Scan(bytes)
        try scan.run()
        return scan
      }
    }
    let scan = try result.get()
    guard let size = scan.size else { throw .noFrame }
    self.size = size
    components = scan.components
    orientation = scan.orientation
    isChanged = !(scan.pieces.count == 1 && scan.pieces[0] == .own(0..<frame.count))
    if !isChanged {
      bytes = frame
      return
    }
    var out: [UInt8] = []
    out.reserveCapacity(frame.count + 512)
    for piece in scan.pieces {
      switch piece {
      case .own(let range): out += frame[range]
      case .made(let bytes): out += bytes
      }
    }
    bytes = out
  }

  /// The size that a JPEG's header names; nil when there is none.
  static func size(of bytes: [UInt8]) -> Size? { (try? JPEGRepair(bytes))?.size }

  enum Piece: Equatable {
    case own(Range<Int>)
    case made([UInt8])
  }

  /// One walk through a frame's markers.
  private struct Scan {
    let bytes: UnsafeBufferPointer<UInt8>
    var pieces: [Piece] = []
    var size: Size?
    var components = 0
    var orientation = 1
    private var hasTables = false
    private var hasScan = false
    /// The compressed data of the last scan.
    private var data = 0..<0
    private var isProgressive = false
    private var at = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    mutating func run() throws(Damage) {
      guard let start = find(0xD8, from: 0) else { throw .noStart }
      keep(start..<(start + 2))
      at = start + 2
      for _ in 0..<segmentLimit {
        guard let marker = nextMarker() else {
          // No end mark: whether the data is whole is for the decoder to say.
          guard hasScan else { throw .noScan }
          cutFilling()
          pieces.append(.made([0xFF, 0xD9]))
          return
        }
        if marker == 0xD9 {
          guard hasScan else { throw .noScan }
          keep(at..<(at + 2))
          return
        }
        if marker == 0xD8 {
          // The next frame has begun before this one's end.
          throw .cutOff
        }
        try segment(marker)
      }
      throw .badSegment
    }

    /// Takes zeros off the end of the data: a buffer is filled with them after what has come, and a decoder would see grey where the picture
    /// was cut off. What an encoder writes last is ones up to a whole byte; a zero after 0xFF belongs to it.
    private mutating func cutFilling() {
      // A segment after the data may well end in zeros.
      guard case .own(let range) = pieces.last, range.upperBound == data.upperBound else { return }
      var end = data.upperBound
      while end > data.lowerBound && bytes[end - 1] == 0 { end -= 1 }
      if end > data.lowerBound && end < data.upperBound && bytes[end - 1] == 0xFF { end += 1 }
      pieces[pieces.count - 1] = .own(range.lowerBound..<end)
    }

    /// Moves to the next marker's 0xFF and returns its code; bytes that belong to nothing are passed over.
    private mutating func nextMarker() -> UInt8? {
      while at + 1 < bytes.count {
        if bytes[at] == 0xFF {
          let code = bytes[at + 1]
          // What is no marker that a picture has before or between its scans belongs to nothing.
          if (0xC0...0xFE).contains(code) && !(0xD0...0xD7).contains(code) && !(0xF0...0xFD).contains(code) {
            return code
          }
        }
        at += 1
      }
      return nil
    }

    private func find(_ code: UInt8, from start: Int) -> Int? {
      var index = start
      while index + 1 < bytes.count {
        if bytes[index] == 0xFF && bytes[index + 1] == code { return index }
        index += 1
      }
      return nil
    }

    private mutating func segment(_ marker: UInt8) throws(Damage) {
      guard at + 4 <= bytes.count else { throw .cutOff }
      let length = Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
      let end = at + 2 + length
      guard length >= 2 else { throw .badSegment }
      guard end <= bytes.count else { throw .cutOff }
      let body = (at + 4)..<end
      switch marker {
      case 0xC0, 0xC1, 0xC2, 0xC9, 0xCA: try frameHeader(marker, body)
      case 0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF: throw .badSegment
      case 0xC4: hasTables = true
      case 0xDA:
        try startOfScan(body)
        return
      case 0xCC, 0xDB, 0xDD: break
      case 0xE0 where begins(body, "AVI1"), 0xE0 where begins(body, "JFIF\0") && body.count != 14:
        // A thumbnail in it may show more than the picture does.
        pieces.append(.made(StandardTables.jfif))
        at = end
        return
      case 0xE0 where begins(body, "JFIF\0"), 0xE2 where begins(body, "ICC_PROFILE\0"),
        0xEE where begins(body, "Adobe"):
        // What the colours depend on.
        break
      default:
        if marker == 0xE1, begins(body, "Exif\0\0"), let found = Orientation.read(bytes, (body.lowerBound + 6)..<end) {
          orientation = found
        }
        at = end
        return
      }
      keep(at..<end)
      at = end
    }

    private mutating func frameHeader(_ marker: UInt8, _ body: Range<Int>) throws(Damage) {
      guard body.count >= 6, size == nil else { throw .badSegment }
      func number(_ offset: Int) -> Int {
        Int(bytes[body.lowerBound + offset]) << 8 | Int(bytes[body.lowerBound + offset + 1])
      }
      let size = Size(number(3), number(1))
      let components = Int(bytes[body.lowerBound + 5])
      guard size.isSane else { throw .badSize }
      guard [1, 3, 4].contains(components), body.count >= 6 + 3 * components else { throw .badSegment }
      self.size = size
      self.components = components
      isProgressive = marker == 0xC2 || marker == 0xCA
      // Arithmetic coding has no Huffman tables to be missing.
      if marker >= 0xC9 { hasTables = true }
    }

    private mutating func startOfScan(_ body: Range<Int>) throws(Damage) {
      guard size != nil else { throw .noFrame }
      if !hasTables {
        // Only the tables of sequential pictures are agreed upon (ISO/IEC 10918-1 Annex K.3).
        if isProgressive { throw .badSegment }
        pieces.append(.made(StandardTables.huffman))
        hasTables = true
      }
      hasScan = true
      let start = at
      at = body.upperBound
      defer { data = body.upperBound..<at }
      while at < bytes.count, let mark = memchr(bytes.baseAddress! + at, 0xFF, bytes.count - at) {
        at = UnsafePointer(mark.assumingMemoryBound(to: UInt8.self)) - bytes.baseAddress!
        // A lone 0xFF at the very end is half a marker.
        guard at + 1 < bytes.count else { return keep(start..<at) }
        let code = bytes[at + 1]
        if code == 0xFF {
          at += 1
        } else if code == 0 || (0xD0...0xD7).contains(code) {
          at += 2
        } else {
          return keep(start..<at)
        }
      }
      keep(start..<bytes.count)
      at = bytes.count
    }

    private func begins(_ body: Range<Int>, _ mark: StaticString) -> Bool {
      mark.withUTF8Buffer { mark in
        body.count >= mark.count && mark.indices.allSatisfy { bytes[body.lowerBound + $0] == mark[$0] }
      }
    }

    private mutating func keep(_ range: Range<Int>) {
      if case .own(let last)? = pieces.last, last.upperBound == range.lowerBound {
        pieces[pieces.count - 1] = .own(last.lowerBound..<range.upperBound)
      } else {
        pieces.append(.own(range))
      }
    }
  }
}
