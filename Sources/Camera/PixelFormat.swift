/// How a frame's bytes are to be read: V4L2's four-character codes. Open: cameras have others.
public struct PixelFormat: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  /// The code as V4L2 writes it, the first character in the lowest byte.
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  /// From four characters, for example `YUYV`. Fewer are filled up with spaces.
  public init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard (1...4).contains(bytes.count), bytes.allSatisfy({ (0x20..<0x7F).contains($0) }) else { return nil }
    rawValue = (0..<4).reduce(0) { $0 | UInt32($1 < bytes.count ? bytes[$1] : 0x20) << (8 * UInt32($1)) }
  }

  private init(_ text: StaticString) {
    rawValue = text.withUTF8Buffer { bytes in (0..<4).reduce(0) { $0 | UInt32(bytes[$1]) << (8 * UInt32($1)) } }
  }

  /// A JPEG a frame.
  public static let mjpeg = PixelFormat("MJPG" as StaticString)
  /// A JPEG a frame, as drivers of still cameras call it.
  public static let jpeg = PixelFormat("JPEG" as StaticString)
  public static let yuyv = PixelFormat("YUYV" as StaticString)
  public static let uyvy = PixelFormat("UYVY" as StaticString)
  public static let nv12 = PixelFormat("NV12" as StaticString)
  public static let nv21 = PixelFormat("NV21" as StaticString)
  /// I420: a plane each of Y, U and V.
  public static let yuv420 = PixelFormat("YU12" as StaticString)
  public static let rgb24 = PixelFormat("RGB3" as StaticString)
  public static let bgr24 = PixelFormat("BGR3" as StaticString)
  public static let yvyu = PixelFormat("YVYU" as StaticString)
  public static let yv12 = PixelFormat("YV12" as StaticString)
  public static let nv16 = PixelFormat("NV16" as StaticString)
  public static let nv61 = PixelFormat("NV61" as StaticString)
  /// NV12 with the colours after each two rows of brightness.
  public static let m420 = PixelFormat("M420" as StaticString)
  public static let grey = PixelFormat("GREY" as StaticString)
  public static let y16 = PixelFormat("Y16 " as StaticString)
  /// Ten bits a pixel without gaps.
  public static let y10b = PixelFormat("Y10B" as StaticString)

  /// The uncompressed formats that are read here, the one to be preferred first.
  public static let raw: [PixelFormat] = [
    .yuyv, .uyvy, .nv12, .nv21, .yuv420, .rgb24, .bgr24, .yvyu, .yv12, .nv16, .nv61, .m420, .grey, .y16, .y10b,
  ]

  /// Without colours.
  public var isGrey: Bool { self == .grey || self == .y16 || self == .y10b }
  public var isJPEG: Bool { self == .mjpeg || self == .jpeg }

  /// The characters, what is not printable as `.`.
  public var description: String {
    let bytes = (0..<4).map { UInt8(truncatingIfNeeded: rawValue >> (8 * UInt32($0))) }
    var text = String(decoding: bytes.map { (0x20..<0x7F).contains($0) ? $0 : 0x2E }, as: UTF8.self)
    while text.last == " " { text.removeLast() }
    return text
  }

  /// The fewest bytes a raw frame can have; nil when that is not known here.
  func leastBytes(width: Int, height: Int, stride: Int) -> Int? {
    let chroma = (height + 1) / 2
    switch self {
    case .yuyv, .uyvy, .yvyu: return stride * (height - 1) + (width + 1) / 2 * 4
    case .nv12, .nv21: return stride * (height + chroma - 1) + (width + 1) / 2 * 2
    case .nv16, .nv61: return stride * (2 * height - 1) + (width + 1) / 2 * 2
    case .m420: return stride * (3 * chroma - 1) + (width + 1) / 2 * 2
    // The chroma planes have half the luma's stride (V4L2's definition of YU12).
    case .yuv420, .yv12: return stride * height + stride / 2 * (2 * chroma - 1) + (width + 1) / 2
    case .rgb24, .bgr24: return stride * (height - 1) + width * 3
    case .grey: return stride * (height - 1) + width
    case .y16: return stride * (height - 1) + 2 * width
    case .y10b: return stride * (height - 1) + (10 * width + 7) / 8
    default: return nil
    }
  }

  /// The stride of rows without padding, of the first plane; nil when that is not known here.
  func leastStride(width: Int) -> Int? {
    switch self {
    case .yuyv, .uyvy, .yvyu: (width + 1) / 2 * 4
    case .nv12, .nv21, .nv16, .nv61, .m420, .yuv420, .yv12: (width + 1) / 2 * 2
    case .rgb24, .bgr24: width * 3
    case .grey: width
    case .y16: 2 * width
    case .y10b: (10 * width + 7) / 8
    default: nil
    }
  }
}
