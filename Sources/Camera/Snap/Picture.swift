/// A picture that was taken.
public struct Picture: Sendable {
  /// A JPEG file.
  public var bytes: [UInt8]
  public var size: Size
  /// What the camera delivered it as.
  public var source: FrameFormat
  /// Whether it is the camera's own JPEG rather than one that was made here.
  public var isPassedThrough: Bool
  /// Frames that were looked at, this one included, and how many of them were damaged.
  public var framesSeen = 0
  public var framesDamaged = 0

  /// What a picture may be.
  public struct Limits: Sendable, Equatable {
    /// Pixels.
    public var width: Int
    /// 0.05…1.
    public var quality: Double
    public var bytes: Int

    /// The most bytes of a picture on the wire: its base64 stays below 5 MiB (node-commands §3.2).
    public static let wireBytes = 3_932_160

    public init(width: Int = 1600, quality: Double = 0.9, bytes: Int = Limits.wireBytes) {
      self.width = width
      self.quality = quality
      self.bytes = bytes
    }
  }

  /// Looks whether a frame is whole, and makes the picture of it. Throws `damaged`, `tooLarge`, `missing` or `formatUnsupported`.
  public static func make(of frame: Frame, _ limits: Limits) throws(CameraError) -> Picture {
    try make(of: try InspectedFrame(frame), limits)
  }

  /// Makes the picture of a frame: the camera's own bytes when nothing has to be done to them, else upright, scaled, and encoded until it
  /// fits. Throws `damaged`, `tooLarge`, `missing` or `formatUnsupported`.
  static func make(of frame: InspectedFrame, _ limits: Limits) throws(CameraError) -> Picture {
    let target = goal(frame.size, limits.width)
    if let jpeg = frame.jpeg, jpeg.orientation == 1, target == jpeg.size, jpeg.bytes.count <= limits.bytes {
      return Picture(bytes: jpeg.bytes, size: jpeg.size, source: frame.frame.format, isPassedThrough: true)
    }
    let library = try TurboJPEG.shared.get()
    var shrink = Shrink(quality: limits.quality, size: target, limit: limits.bytes)
    var attempt = shrink.first
    var picture = try frame.upright(least: target)
    defer { picture.recycle() }
    while true {
      if picture.size != attempt.size {
        let scaled = picture.scaled(to: attempt.size)
        picture.recycle()
        picture = scaled
      }
      let bytes = try library.encode(picture, quality: Int((attempt.quality * 100).rounded()))
      switch shrink.after(bytes.count) {
      case .fits:
        return Picture(bytes: bytes, size: picture.size, source: frame.frame.format, isPassedThrough: false)
      case .again(let next): attempt = next
      case .tooLarge:
        throw CameraError(
          .tooLarge, "The picture stays over \(limits.bytes) bytes however it is made smaller.",
          remedy: "Ask for a smaller maxWidth or quality.")
      }
    }
  }

  /// The size at a width of at most `width`: never larger than it is, the height in proportion and even.
  static func goal(_ size: Size, _ width: Int) -> Size {
    let width = max(2, width)
    if size.width <= width { return size }
    let height = Int((Double(size.height) * Double(width) / Double(size.width) / 2).rounded()) * 2
    return Size(width, max(2, height))
  }
}
