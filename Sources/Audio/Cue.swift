import Glibc

/// The short sounds that tell a person what happens without looking.
public enum Cue: String, Sendable, CaseIterable {
  /// The microphone is open: two rising tones.
  case start
  /// The microphone is closed: two falling tones.
  case stop
  /// It did not work: one low tone, twice.
  case error

  /// The sound at `rate`, at most half a second, at a quarter of full scale.
  public func sound(rate: Int = 48_000) -> PCM {
    let tones: [(hertz: Double, seconds: Double)] =
      switch self {
      case .start: [(660, 0.07), (880, 0.09)]
      case .stop: [(880, 0.07), (587, 0.09)]
      case .error: [(220, 0.12), (0, 0.06), (220, 0.12)]
      }
    return PCM(
      tones.flatMap { PCM.tone($0.hertz, seconds: $0.seconds, rate: rate, amplitude: 0.25).samples }, rate: rate)
  }
}

extension PCM {
  /// A sine with five milliseconds of fade at both ends, so that it does not click.
  public static func tone(_ hertz: Double, seconds: Double, rate: Int, amplitude: Float = 0.5) -> PCM {
    let count = max(0, Int(seconds * Double(rate)))
    let fade = max(1, min(rate / 200, count / 2))
    var samples = [Float](repeating: 0, count: count)
    for index in 0..<count {
      let edge = min(1, Float(min(index, count - 1 - index)) / Float(fade))
      samples[index] = amplitude * edge * Float(sin(2 * Double.pi * hertz * Double(index) / Double(rate)))
    }
    return PCM(samples, rate: rate)
  }
}
