import Audio
import TestSupport
import Testing

@Suite("Resampler")
struct ResamplerTests {
  @Test(
    "the count is exact and the pitch stays, for every pair of rates that devices and consumers have",
    arguments: [8000, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000], [8000, 16_000, 24_000, 44_100, 48_000])
  func rates(_ from: Int, _ to: Int) throws {
    let tone = PCM.tone(440, seconds: 0.5, rate: from, amplitude: 0.5)
    let result = try tone.resampled(to: to, quality: .fast)
    let due = Double(tone.samples.count) * Double(to) / Double(from)
    #expect(result.rate == to)
    #expect(result.samples.count == Int(due.rounded()))
    #expect(abs(result.hertz - 440) < 1)
    #expect(abs(Level(result.samples.dropFirst(to / 10).dropLast(to / 10)).peak - 0.5) < 0.01)
  }

  @Test("how a stream is cut changes nothing, and every length gives its exact count")
  func cuts() throws {
    let seed = UInt64.random(in: 0...UInt64.max)
    var random = SeededRandom(seed: seed)
    for _ in 0..<60 {
      let from = [44_100, 48_000, 16_000].randomElement(using: &random)!
      let to = [8000, 16_000, 24_000].randomElement(using: &random)!
      let count = Int.random(in: 0...9000, using: &random)
      let samples = (0..<count).map { _ in Float.random(in: -0.5...0.5, using: &random) }
      let whole = try PCM(samples, rate: from).resampled(to: to, quality: .fast)
      let resampler = try Resampler(from: from, to: to)
      var pieces: [Float] = []
      var start = 0
      while start < count {
        let end = min(count, start + Int.random(in: 0...1500, using: &random))
        pieces += try resampler.process(Array(samples[start..<end]))
        start = end
      }
      pieces += try resampler.finish()
      #expect(pieces.count == Int((Double(count) * Double(to) / Double(from)).rounded()), "seed \(seed)")
      #expect(pieces.count == whole.samples.count, "seed \(seed)")
      let worst = zip(pieces, whole.samples).map { abs($0 - $1) }.max() ?? 0
      #expect(worst < 1e-3, "seed \(seed), \(from) to \(to), \(count) samples")
    }
  }

  @Test("what a lower rate can't hold is filtered out and not folded back")
  func aliasing() throws {
    let result = try PCM.tone(7000, seconds: 0.5, rate: 48_000, amplitude: 0.5).resampled(to: 8000, quality: .fast)
    #expect(Level(result.samples.dropFirst(400).dropLast(400)).peak < 0.01)
  }

  @Test("equal rates pass samples through as they are, and impossible ones are refused")
  func edges() throws {
    let samples: [Float] = [0.1, -0.2, 0.3]
    #expect(try PCM(samples, rate: 16_000).resampled(to: 16_000).samples == samples)
    #expect(throws: AudioError.self) { try Resampler(from: 48_000, to: 1) }
    #expect(throws: AudioError.self) { try Resampler(from: 0, to: 8000) }
    #expect(try PCM([], rate: 48_000).resampled(to: 8000).samples.isEmpty)
  }
}
