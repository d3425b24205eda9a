/// G.711 µ-law: eight bits a sample, what telephone-rate transcription relays take.
public enum MuLaw {
  /// One byte for a sixteen-bit sample.
  public static func encode(_ sample: Int16) -> UInt8 {
    // G.711 works on a magnitude with a bias of 33 (132 at sixteen bits), clipped so that the bias does not overflow.
    let sign: UInt8 = sample < 0 ? 0x80 : 0
    let magnitude = min(Int(sample.magnitude), 32635) + 132
    var exponent = 7
    while exponent > 0 && magnitude & (0x80 << exponent) == 0 { exponent -= 1 }
    let mantissa = UInt8(magnitude >> (exponent + 3) & 0x0F)
    return ~(sign | UInt8(exponent) << 4 | mantissa)
  }

  /// The sixteen-bit sample that a byte stands for.
  public static func decode(_ byte: UInt8) -> Int16 {
    let bits = ~byte
    let magnitude = ((Int(bits & 0x0F) << 3) + 132) << Int(bits >> 4 & 7)
    return Int16(bits & 0x80 != 0 ? 132 - magnitude : magnitude - 132)
  }

  /// One byte a sample of `samples` (-1…1).
  public static func encode(_ samples: [Float]) -> [UInt8] { samples.map { encode(Int16(sample: $0)) } }

  /// Samples of -1…1.
  public static func decode(_ bytes: [UInt8]) -> [Float] { bytes.map { Float(decode($0)) / 32768 } }
}
