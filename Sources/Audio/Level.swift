import Glibc

/// How loud a stretch of sound was.
public struct Level: Sendable, Equatable {
  /// The largest magnitude, 0…1.
  public var peak: Float = 0
  /// The root of the mean square, 0…1.
  public var rms: Float = 0
  /// Samples at full scale.
  public var clipped = 0

  public init() {}

  /// Measures `samples`. A sample is clipped when it is the largest or smallest that sixteen bits can hold, or beyond.
  public init(_ samples: some Collection<Float>) {
    var squares: Double = 0
    for sample in samples {
      let magnitude = abs(sample)
      if magnitude > peak { peak = magnitude }
      if magnitude >= Self.fullScale { clipped += 1 }
      squares += Double(sample) * Double(sample)
    }
    peak = min(peak, 1)
    rms = samples.isEmpty ? 0 : min(1, Float((squares / Double(samples.count)).squareRoot()))
  }

  static let fullScale: Float = 32767.0 / 32768

  /// A magnitude in decibels below full scale; -120 for silence.
  public static func decibels(_ magnitude: Float) -> Double {
    magnitude <= 1e-6 ? -120 : 20 * log10(Double(magnitude))
  }
}

/// Measures a whole recording as it comes: overall level, and the noise floor.
///
/// The floor is the level of the quietest tenth of frames of 20 ms, so that speech in between does not raise it.
public struct LevelMeter: Sendable {
  private let frame: Int
  private var pending: [Float] = []
  private var frames: [Float] = []
  private var squares: Double = 0
  private var count = 0
  private var peak: Float = 0
  private var clipped = 0

  public init(rate: Int) { frame = max(1, rate / 50) }

  public mutating func add(_ samples: [Float]) {
    let level = Level(samples)
    peak = max(peak, level.peak)
    clipped += level.clipped
    for sample in samples { squares += Double(sample) * Double(sample) }
    count += samples.count
    pending += samples
    var start = 0
    // Ten minutes of frames are kept; a longer recording's floor is that of its beginning.
    while pending.count - start >= frame {
      if frames.count < 30_000 { frames.append(Level(pending[start..<(start + frame)]).rms) }
      start += frame
    }
    pending.removeFirst(start)
  }

  /// The level of everything added.
  public var level: Level {
    var level = Level()
    level.peak = peak
    level.rms = count == 0 ? 0 : min(1, Float((squares / Double(count)).squareRoot()))
    level.clipped = clipped
    return level
  }

  /// The magnitude below which the quietest tenth of the frames lie, 0…1; nil before a whole frame was added.
  public var noiseFloor: Float? {
    if frames.isEmpty { return nil }
    return frames.sorted()[(frames.count - 1) / 10]
  }
}
