/// Mono sound: samples between -1 and 1 at a rate.
public struct PCM: Sendable, Equatable {
  public var samples: [Float]
  /// Samples a second, at least 1.
  public let rate: Int

  public init(_ samples: [Float], rate: Int) {
    precondition(rate > 0, "a sample rate is positive")
    self.samples = samples
    self.rate = rate
  }

  /// Sixteen-bit samples, native byte order.
  public init(int16: some Sequence<Int16>, rate: Int) {
    self.init(int16.map { Float($0) / 32768 }, rate: rate)
  }

  /// Sixteen-bit little-endian bytes; an odd last byte is dropped.
  public init(littleEndian bytes: [UInt8], rate: Int) {
    var samples = [Float](repeating: 0, count: bytes.count / 2)
    for index in samples.indices {
      let sample = Int16(bitPattern: UInt16(bytes[2 * index]) | UInt16(bytes[2 * index + 1]) << 8)
      samples[index] = Float(sample) / 32768
    }
    self.init(samples, rate: rate)
  }

  public var duration: Duration { .samples(samples.count, rate: rate) }

  /// Rounded and clipped to sixteen bits.
  public var int16: [Int16] { samples.map(Int16.init(sample:)) }

  /// Sixteen-bit little-endian bytes.
  public var littleEndian: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: samples.count * 2)
    for (index, sample) in samples.enumerated() {
      let value = UInt16(bitPattern: Int16(sample: sample))
      bytes[2 * index] = UInt8(truncatingIfNeeded: value)
      bytes[2 * index + 1] = UInt8(truncatingIfNeeded: value >> 8)
    }
    return bytes
  }

  /// The same sound at another rate. The count is exact: `samples × rate / old rate`, rounded.
  /// Throws `libraryMissing` when a conversion is needed and libsamplerate is not there.
  public func resampled(to rate: Int, quality: Resampler.Quality = .medium) throws(AudioError) -> PCM {
    if rate == self.rate { return self }
    let resampler = try Resampler(from: self.rate, to: rate, quality: quality)
    var out = try resampler.process(samples)
    out += try resampler.finish()
    return PCM(out, rate: rate)
  }

  /// Nothing but zeros.
  public static func silence(_ duration: Duration, rate: Int) -> PCM {
    PCM([Float](repeating: 0, count: duration.samples(at: rate)), rate: rate)
  }
}

extension Int16 {
  /// A sample of -1…1, rounded; what lies outside is clipped, and what is no number is silence.
  public init(sample: Float) {
    let scaled = (sample * 32768).rounded()
    if scaled >= 32767 {
      self = 32767
    } else if scaled <= -32768 {
      self = -32768
    } else {
      self = scaled.isNaN ? 0 : Int16(scaled)
    }
  }
}

extension Duration {
  /// How long `count` samples last.
  public static func samples(_ count: Int, rate: Int) -> Duration {
    .nanoseconds(Int64(Double(count) * 1e9 / Double(rate)))
  }

  /// How many samples fit, rounded; none for a negative duration.
  public func samples(at rate: Int) -> Int {
    let seconds = Double(components.seconds) + Double(components.attoseconds) * 1e-18
    return max(0, Int((seconds * Double(rate)).rounded()))
  }
}
