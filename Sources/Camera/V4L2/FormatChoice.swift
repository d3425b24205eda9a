/// A format and size that a camera offers.
struct CaptureMode: Sendable, Equatable {
  var pixels: PixelFormat
  /// nil when the camera does not enumerate its sizes: it is asked for what is wanted and answers what it does.
  var size: Size?
  /// The most frames a second; nil when the camera does not say.
  var rate: Double?

  init(_ pixels: PixelFormat, _ size: Size?, rate: Double?) {
    self.pixels = pixels
    self.size = size
    self.rate = rate
  }
}

/// What frames are wanted for.
public struct CaptureWish: Sendable, Equatable {
  public enum Purpose: Sendable, Equatable {
    /// One picture as good as it gets.
    case picture
    /// A clip: fluent, and no larger than `width`, for each frame is encoded.
    case motion
  }
  public var purpose: Purpose
  /// Pixels. A picture has at least this width where the camera can; a clip at most, where it can.
  public var width: Int
  /// Only these formats, the first that can be had; nil leaves it to the choice.
  public var formats: [PixelFormat]?

  public init(_ purpose: Purpose = .picture, width: Int = 1600, formats: [PixelFormat]? = nil) {
    self.purpose = purpose
    self.width = width
    self.formats = formats
  }

  /// Whether frames of this format serve the wish as they are, so that a camera need not be opened anew.
  func isServed(by format: FrameFormat) -> Bool {
    if let formats { return formats.contains(format.pixels) }
    return purpose == .motion || format.size.width >= width
  }
}

/// Which mode to ask a camera for. A value: the modes and the wish in, the order to try them in out.
enum FormatChoice {
  /// The modes worth trying, the best first; each format at most twice. Formats that neither we nor libv4lconvert read are left out.
  static func order(_ modes: [CaptureMode], for wish: CaptureWish) -> [CaptureMode] {
    let readable = modes.filter { isReadable($0.pixels) }
    if let formats = wish.formats {
      return formats.flatMap { wanted in bestSizes(readable.filter { $0.pixels == wanted }, wish).prefix(2) }
    }
    let all = Set(readable.map(\.pixels)).flatMap { pixels in
      bestSizes(readable.filter { $0.pixels == pixels }, wish).prefix(2)
    }
    return all.sorted { isBetter($0, than: $1, wish) }
  }

  static func isReadable(_ pixels: PixelFormat) -> Bool {
    pixels.isJPEG || PixelFormat.raw.contains(pixels) || V4LConvert.reads(pixels)
  }

  /// One format's modes, the best size first.
  private static func bestSizes(_ modes: [CaptureMode], _ wish: CaptureWish) -> [CaptureMode] {
    modes.sorted { left, right in
      let (a, b) = (fit(left, wish), fit(right, wish))
      return a == b ? (left.size ?? Size(0, 0)) > (right.size ?? Size(0, 0)) : a > b
    }
  }

  private static func isBetter(_ left: CaptureMode, than right: CaptureMode, _ wish: CaptureWish) -> Bool {
    // Colour before grey, whatever the size: an infrared camera's node is grey, and a person expects to recognise things.
    if left.pixels.isGrey != right.pixels.isGrey { return right.pixels.isGrey }
    let (a, b) = (fit(left, wish), fit(right, wish))
    let (first, second) = (rank(left, wish), rank(right, wish))
    if wish.purpose == .picture {
      // What reaches the width does so alike; below it, more pixels are better whatever the format.
      let (reach, otherReach) = (min(width(left, wish), wish.width), min(width(right, wish), wish.width))
      if reach != otherReach { return reach > otherReach }
      if first != second { return first < second }
      return a > b
    }
    if isFluent(left) != isFluent(right) { return isFluent(left) }
    if a != b { return a > b }
    return first < second
  }

  private static func isFluent(_ mode: CaptureMode) -> Bool { (mode.rate ?? 30) >= 14.5 }
  private static func width(_ mode: CaptureMode, _ wish: CaptureWish) -> Int { mode.size?.width ?? wish.width }

  /// How well a size fits the wish, more is better. A picture: the narrowest of those that are wide enough, else the widest, the tallest of
  /// one width. A clip: fluent, then the largest of those that are not too wide, else the narrowest.
  private static func fit(_ mode: CaptureMode, _ wish: CaptureWish) -> Int {
    let size = mode.size ?? Size(wish.width, wish.width * 3 / 4)
    let far = 1 << 20
    switch wish.purpose {
    case .picture:
      return size.width >= wish.width ? (far - size.width) * far + size.height : size.width - far
    case .motion:
      let fluent = isFluent(mode) ? 1 << 50 : 0
      // As many lines as 16:9 has: 1280×1024 costs half as much again as 1280×720 and shows hardly more.
      let isWithin = size.width <= wish.width && size.area <= wish.width * wish.width * 3 / 4
      return fluent + (isWithin ? far + size.area : far - min(size.width, far))
    }
  }

  /// The order of the formats at one size, less is better. A JPEG that is large enough needs no work at all, or DCT scaling.
  private static func rank(_ mode: CaptureMode, _ wish: CaptureWish) -> Int {
    if mode.pixels.isJPEG { return width(mode, wish) >= wish.width || wish.purpose == .motion ? 0 : 50 }
    if let place = PixelFormat.raw.firstIndex(of: mode.pixels) { return 1 + place }
    return 100
  }
}
