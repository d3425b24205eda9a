import Audio
import System
import TestSupport
import Testing

@Suite("Samples, formats and levels")
struct SampleTests {
  @Test(
    "the bytes of each device format become the samples they stand for",
    arguments: [
      (SampleFormat.u8, [UInt8](arrayLiteral: 0, 128, 192), [Float(-1), 0, 0.5]),
      (.s16le, [0x00, 0x80, 0x00, 0x00, 0x00, 0x40], [-1, 0, 0.5]),
      (.s24le, [0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40], [-1, 0, 0.5]),
      // The fourth byte is padding, and some drivers leave rubbish in it.
      (.s24in32le, [0x00, 0x00, 0x80, 0xFF, 0x00, 0x00, 0x00, 0x77, 0x00, 0x00, 0x40, 0x00], [-1, 0, 0.5]),
      (.s32le, [0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x40], [-1, 0, 0.5]),
      (.float32le, [0, 0, 0x80, 0xBF, 0, 0, 0, 0, 0, 0, 0, 0x3F], [-1, 0, 0.5]),
    ] as [(SampleFormat, [UInt8], [Float])])
  func decoding(_ sample: SampleFormat, _ bytes: [UInt8], _ samples: [Float]) {
    #expect(bytes.withUnsafeBytes { AudioFormat(sample, rate: 8000, channels: 1).mono($0) } == samples)
  }

  @Test("samples written in a device format are read back to within one step of it", arguments: SampleFormat.allCases)
  func roundTrip(_ sample: SampleFormat) {
    let values: [Float] = [0, 0.25, -0.25, 0.999, -1, 0.5, -0.7, 1e-3]
    let format = AudioFormat(sample, rate: 48_000, channels: 3)
    let bytes = format.bytes(values)
    #expect(bytes.count == values.count * format.frameSize)
    let back = bytes.withUnsafeBytes { format.mono($0) }
    #expect(back.count == values.count)
    for (value, result) in zip(values, back) {
      #expect(abs(value - result) <= (sample == .u8 ? 1.0 / 128 : 1.0 / 32768))
    }
  }

  @Test("what is beyond full scale is clipped and what is no number is silence", arguments: SampleFormat.allCases)
  func extremes(_ sample: SampleFormat) {
    let format = AudioFormat(sample, rate: 8000, channels: 1)
    let back = format.bytes([7, -7, .infinity, -.infinity, .nan]).withUnsafeBytes { format.mono($0) }
    #expect(back[0] > 0.98 && back[0] <= 1)
    #expect(back[1] == -1)
    // A float format has no place for infinities: they are no numbers to it.
    if sample != .float32le { #expect(back[2] > 0.98 && back[3] == -1) }
    #expect(back[4] == 0)
  }

  @Test("down-mix is the mean: a voice on all channels keeps its level, on one of two it is halved, opposites cancel")
  func downMix() {
    func mix(_ channels: Int, _ frames: [Int16]) -> [Float] {
      let bytes = frames.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
      return bytes.withUnsafeBytes { AudioFormat(.s16le, rate: 48_000, channels: channels).mono($0) }
    }
    #expect(mix(2, [16384, 16384, -16384, -16384]) == [0.5, -0.5])
    #expect(mix(2, [16384, 0]) == [0.25])
    #expect(mix(2, [16384, -16384]) == [0])
    // Full scale on every channel does not clip.
    #expect(mix(2, [-32768, -32768]) == [-1])
    #expect(mix(6, [Int16](repeating: 8192, count: 6)) == [0.25])
    // Half a frame at the end is no frame.
    #expect(mix(2, [16384, 16384, 16384]) == [0.5])
  }

  @Test("sixteen-bit samples survive the way in and out unchanged")
  func sixteenBit() {
    let all = (Int(Int16.min)...Int(Int16.max)).map { Int16($0) }
    #expect(PCM(int16: all, rate: 8000).int16 == all)
    #expect(PCM(littleEndian: [0x34, 0x12, 0xFF], rate: 8000).int16 == [0x1234])
    #expect(PCM(int16: [0x1234, -2], rate: 8000).littleEndian == [0x34, 0x12, 0xFE, 0xFF])
  }

  @Test("durations and counts of samples are each other's inverse")
  func durations() {
    #expect(Duration.milliseconds(20).samples(at: 16_000) == 320)
    #expect(Duration.milliseconds(20).samples(at: 44_100) == 882)
    #expect(Duration.seconds(-1).samples(at: 8000) == 0)
    #expect(Duration.samples(8000, rate: 16_000) == .milliseconds(500))
    #expect(PCM.silence(.milliseconds(250), rate: 8000).duration == .milliseconds(250))
  }

  @Test("a level knows peak, RMS and clipped samples")
  func levels() {
    #expect(Level([]) == Level())
    let square = Level([0.5, -0.5, 0.5, -0.5])
    #expect(square.peak == 0.5 && square.rms == 0.5 && square.clipped == 0)
    let loud = Level([1, -1, 0, 32767.0 / 32768, 0.99])
    #expect(loud.peak == 1 && loud.clipped == 3)
    let sine = Level(PCM.tone(100, seconds: 1, rate: 8000, amplitude: 1).samples)
    #expect(abs(Level.decibels(sine.rms) + 3) < 0.2)
    #expect(Level.decibels(0) == -120)
    #expect(abs(Level.decibels(0.5) + 6.02) < 0.01)
  }

  @Test("the noise floor is that of the pauses, however loud the speech between them, and however the sound was cut")
  func noiseFloor() {
    let seed = UInt64.random(in: 0...UInt64.max)
    var random = SeededRandom(seed: seed)
    var samples: [Float] = []
    for part in 0..<10 {
      let amplitude: Float = part % 2 == 0 ? 0.01 : 0.6
      samples += (0..<4000).map { _ in Float.random(in: -amplitude...amplitude, using: &random) }
    }
    var whole = LevelMeter(rate: 16_000)
    #expect(whole.noiseFloor == nil)
    whole.add(samples)
    var pieces = LevelMeter(rate: 16_000)
    var start = 0
    while start < samples.count {
      let end = min(samples.count, start + Int.random(in: 1...700, using: &random))
      pieces.add(Array(samples[start..<end]))
      start = end
    }
    let floor = whole.noiseFloor ?? 1
    #expect(floor > 0.004 && floor < 0.008, "seed \(seed)")
    #expect(pieces.noiseFloor == whole.noiseFloor, "seed \(seed)")
    #expect(pieces.level.peak == whole.level.peak && abs(pieces.level.rms - whole.level.rms) < 1e-6, "seed \(seed)")
  }

  @Test("µ-law: the corner values of G.711, and every byte back to itself")
  func muLaw() {
    let table: [(Int16, UInt8)] = [
      (0, 0xFF), (-1, 0x7F), (4, 0xFE), (8, 0xFE), (-8, 0x7E), (100, 0xF2), (1000, 0xCE), (-1000, 0x4E), (8159, 0x9F),
      (32124, 0x80), (32635, 0x80), (32767, 0x80), (-32124, 0x00), (-32768, 0x00),
    ]
    for (sample, byte) in table { #expect(MuLaw.encode(sample) == byte, "\(sample)") }
    #expect(MuLaw.decode(0xFF) == 0 && MuLaw.decode(0x7F) == 0)
    #expect(MuLaw.decode(0x80) == 32124 && MuLaw.decode(0x00) == -32124)
    for byte in UInt8.min...UInt8.max where byte != 0x7F { #expect(MuLaw.encode(MuLaw.decode(byte)) == byte) }
    // The step is a sixteenth of the octave, so the error stays below a 32nd of the value (plus the smallest step).
    for sample in stride(from: -32124, through: 32124, by: 7) {
      let back = Int(MuLaw.decode(MuLaw.encode(Int16(sample))))
      #expect(abs(back - sample) <= abs(sample) / 32 + 4, "\(sample)")
    }
  }

  @Test("µ-law as another program makes it")
  func muLawOfSox() async throws {
    let folder = TemporaryFolder()
    let samples = stride(from: -32768, through: 32767, by: 12).map { Int16($0) }
    try Files.writeAtomically(PCM(int16: samples, rate: 8000).littleEndian, to: folder("in.raw"))
    _ = try await output(of: [
      "sox", "-D", "-t", "raw", "-r", "8000", "-e", "signed", "-b", "16", "-c", "1", folder("in.raw"), "-t", "raw",
      "-e", "mu-law", folder("out.raw"),
    ])
    let theirs = try Files.read(folder("out.raw"))
    let ours = samples.map { MuLaw.encode($0) }
    #expect(theirs.count == ours.count)
    // Multiples of four are exact in the fourteen bits that G.711 begins with, so there is nothing to round.
    let differing = zip(samples, zip(ours, theirs)).filter { $0.1.0 != $0.1.1 }.map { "\($0.0): \($0.1)" }
    #expect(differing == [])
  }
}
