/// Width and height in pixels.
public struct Size: Sendable, Hashable, Comparable, CustomStringConvertible {
  public var width: Int
  public var height: Int
  public init(_ width: Int, _ height: Int) {
    self.width = width
    self.height = height
  }

  public var area: Int { width * height }
  public var description: String { "\(width)×\(height)" }
  /// By area.
  public static func < (left: Size, right: Size) -> Bool { left.area < right.area }

  /// No picture larger than this is looked at, in pixels of each edge: what JPEG can say is more than any camera has.
  static let longestEdge = 16_384
  /// No picture with more pixels than this is looked at.
  static let largestArea = 80_000_000

  /// Whether it is a size that is worked with here.
  var isSane: Bool {
    width > 0 && height > 0 && width <= Self.longestEdge && height <= Self.longestEdge && area <= Self.largestArea
  }
}

/// Which numbers stand for black and white, and which matrix made the colours (V4L2's quantization and ycbcr_enc).
public struct ColourRange: Sendable, Hashable {
  /// 0…255 rather than 16…235.
  public var isFull: Bool
  /// ITU-R BT.709 rather than BT.601.
  public var is709: Bool
  public init(isFull: Bool, is709: Bool = false) {
    self.isFull = isFull
    self.is709 = is709
  }
  /// What USB cameras deliver.
  public static let limited = ColourRange(isFull: false)
  /// What is in a JPEG.
  public static let full = ColourRange(isFull: true)
}

/// What a camera delivers once it streams.
public struct FrameFormat: Sendable, Hashable, CustomStringConvertible {
  public var pixels: PixelFormat
  public var size: Size
  /// Bytes from one row to the next, of the first plane; 0 for JPEG.
  public var stride: Int
  /// Frames a second as promised; nil when the camera does not say.
  public var rate: Double?
  public var range: ColourRange

  public init(
    _ pixels: PixelFormat, _ size: Size, stride: Int = 0, rate: Double? = nil, range: ColourRange = .limited
  ) {
    self.pixels = pixels
    self.size = size
    self.stride = stride
    self.rate = rate
    self.range = range
  }

  public var description: String {
    "\(pixels) \(size)" + (rate.map { ", \(($0 * 10).rounded() / 10) frames a second" } ?? "")
  }
}

/// One frame as it came.
public struct Frame: Sendable {
  public var format: FrameFormat
  public var bytes: [UInt8]
  /// When it was taken: nanoseconds of the monotonic clock.
  public var atNs: UInt64
  /// The camera's own count; what is missing in between was lost before it could be read.
  public var sequence: UInt32
  /// The driver says that its content is damaged.
  public var isMarkedDamaged: Bool

  public init(
    _ format: FrameFormat, _ bytes: [UInt8], atNs: UInt64, sequence: UInt32 = 0, isMarkedDamaged: Bool = false
  ) {
    self.format = format
    self.bytes = bytes
    self.atNs = atNs
    self.sequence = sequence
    self.isMarkedDamaged = isMarkedDamaged
  }

  public var size: Size { format.size }
}
