/// How light a frame is: what exposure is judged by.
struct Light: Sendable, Equatable {
  /// 0…255.
  var mean: Double
  /// The share of pixels that are as white as it gets, 0…1.
  var burnt: Double

  init(mean: Double, burnt: Double) {
    self.mean = mean
    self.burnt = burnt
  }

  /// From brightness samples in full range.
  init(_ samples: some Sequence<UInt8>) {
    var (sum, white, count) = (0, 0, 0)
    for sample in samples {
      sum += Int(sample)
      if Int(sample) >= Self.white { white += 1 }
      count += 1
    }
    self.init(sum: sum, white: white, count: count)
  }

  /// What is as white as it gets.
  static let white = 250

  /// From the sum of samples, and how many of them are white.
  init(sum: Int, white: Int, count: Int) {
    mean = count == 0 ? 0 : Double(sum) / Double(count)
    burnt = count == 0 ? 0 : Double(white) / Double(count)
  }

  /// Nothing can be made out: the sensor still sees only light, or nothing yet.
  var isExtreme: Bool { burnt > 0.5 || mean > 240 || mean < 8 }
}

/// Whether a camera's automatic exposure has come to rest. A value: frames' light and times in.
///
/// Many webcams begin over-exposed and need up to 25 frames; a picture taken then shows nothing. What is white or black all over is waited
/// for like what changes, but 2 s at most: a snowfield is allowed to be white.
struct Exposure: Sendable {
  /// So many frames in a row must be alike. Over this many a slow change adds up to a visible one.
  private static let window = 4
  /// How much they may differ, of their mean.
  private static let tolerance = 0.03
  static let longest: UInt64 = 2_000_000_000

  private var means: [Double] = []
  private var firstNs: UInt64?

  /// Whether the frame with this light is fit to be the picture.
  mutating func hasSettled(_ light: Light, atNs: UInt64) -> Bool {
    let first = firstNs ?? atNs
    firstNs = first
    means.append(light.mean)
    if means.count > Self.window { means.removeFirst() }
    if atNs >= first + Self.longest { return true }
    guard means.count == Self.window, !light.isExtreme else { return false }
    let (low, high) = (means.min()!, means.max()!)
    // Two steps of brightness are noise, however dark the room.
    return high - low <= max(2, Self.tolerance * high)
  }
}
