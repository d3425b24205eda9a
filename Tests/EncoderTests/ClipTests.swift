import Camera
import Glibc
import System
import TestSupport
import Testing

/// Clips as `talknode-encoder` makes them, looked at with ffprobe and ffmpeg.
@Suite("A clip") struct ClipTests {
  let loop = EventLoop(name: "clips")
  let folder = TemporaryFolder()

  static let size = Size(320, 180)

  func format(
    seconds: Double = 3, sound: ClipFormat.Audio? = nil, maxBytes: Int = 18_874_368, hardware: Bool = false
  ) -> ClipFormat {
    ClipFormat(
      width: Self.size.width, height: Self.size.height, fps: 25, audio: sound, maxBytes: maxBytes,
      duration: .milliseconds(Int64(seconds * 1000)), prefersHardware: hardware)
  }

  /// A frame in I420 of one brightness with a moving edge.
  static func frame(_ luma: UInt8, _ step: Int, at seconds: Double) -> Frame {
    var bytes = [UInt8](repeating: luma, count: size.area)
    for row in 0..<20 { for x in 0..<20 { bytes[row * size.width + (x + step * 3) % size.width] = 120 } }
    bytes += [UInt8](repeating: 128, count: size.area / 2)
    return Frame(FrameFormat(.yuv420, size, stride: size.width), bytes, atNs: UInt64(seconds * 1e9))
  }

  static func noise(_ random: inout SeededRandom, at seconds: Double) -> Frame {
    let bytes = (0..<(size.area * 3 / 2)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    return Frame(FrameFormat(.yuv420, size, stride: size.width), bytes, atNs: UInt64(seconds * 1e9))
  }

  /// A tone of 1 kHz between two times, in pieces of 20 ms as a microphone gives them.
  static func tone(
    _ from: Double, _ to: Double, of seconds: Double, _ format: ClipFormat.Audio
  ) -> [(at: UInt64, samples: [Int16])] {
    let each = format.sampleRate / 50
    return (0..<Int(seconds * 50)).map { piece in
      let samples = (0..<each).flatMap { index -> [Int16] in
        let time = Double(piece * each + index) / Double(format.sampleRate)
        let level = time >= from && time < to ? sin(time * 2 * .pi * 1000) * 12_000 : 0
        return [Int16](repeating: Int16(level), count: format.channels)
      }
      return (UInt64(Double(piece) * 2e7), samples)
    }
  }

  func save(_ clip: [UInt8]) throws -> String {
    let path = folder("clip.mp4")
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    defer { close(descriptor) }
    try Files.write(clip, to: descriptor, named: path)
    return path
  }

  @Test("its frames have the times at which they were taken, and it is as long as it was ordered")
  func frameTimes() async throws {
    let writer = EncoderProcess(loop: loop)
    try await writer.begin(format())
    #expect(await writer.encoderName == "libx264")
    // A camera that stumbles: every sixth frame late, and a second of none.
    var times: [Double] = []
    for step in 0..<75 where !(30..<55).contains(step) {
      times.append(Double(step) * 0.04 + (step % 6 == 5 ? 0.013 : 0))
    }
    for (step, time) in times.enumerated() { try await writer.write(frame: Self.frame(60, step, at: time)) }
    let clip = try await writer.finish()
    let probe = try await Probe(save(clip), loop: loop)
    let video = try #require(probe.video)
    #expect(probe.streams.count == 1)
    #expect(video.codec == "h264" && video.pixelFormat == "yuv420p")
    #expect(video.width == Self.size.width && video.height == Self.size.height)
    #expect(video.times.count == times.count)
    for (seen, taken) in zip(video.times, times) { #expect(abs(seen - taken) < 0.001) }
    #expect(abs(probe.duration - 3) < 0.01)
    // Plays while it is loaded: what describes it stands before what it holds.
    let text = String(decoding: clip.prefix(4096).map { $0 < 128 ? $0 : 46 }, as: UTF8.self)
    #expect(text.contains("moov"))
    loop.stop()
  }

  @Test(
    "a tone in its sound is heard while the flash in its picture is seen",
    arguments: [(48_000, 2), (44_100, 1), (16_000, 1), (37_800, 2)])
  func inSync(rate: Int, channels: Int) async throws {
    let sound = ClipFormat.Audio(sampleRate: rate, channels: channels)
    let writer = EncoderProcess(loop: loop)
    try await writer.begin(format(sound: sound))
    let pieces = Self.tone(1.4, 1.8, of: 3, sound)
    var next = 0
    for step in 0..<75 {
      let time = Double(step) * 0.04
      try await writer.write(frame: Self.frame((1.4..<1.8).contains(time + 0.001) ? 235 : 16, step, at: time))
      // Sound comes later than the pictures it belongs to.
      while next < pieces.count, Double(pieces[next].at) / 1e9 < time - 0.2 {
        try await writer.write(sound: pieces[next].samples, atNs: pieces[next].at)
        next += 1
      }
    }
    for piece in pieces[next...] { try await writer.write(sound: piece.samples, atNs: piece.at) }
    let path = try await save(writer.finish())
    let probe = try await Probe(path, loop: loop)
    let (video, audio) = (try #require(probe.video), try #require(probe.audio))
    #expect(audio.codec == "aac" && audio.channels == channels)
    #expect(abs(audio.duration - 3) < 0.05 && abs(video.duration - 3) < 0.01)
    let (pictures, samples) = try await Probe.decoded(
      path, width: Self.size.width, height: Self.size.height, loop: loop)
    let flash = try #require(pictures.firstIndex { $0 > 120 })
    let loud = try #require(samples.firstIndex { abs($0) > 0.1 })
    let dark = try #require(pictures.lastIndex { $0 > 120 }) + 1
    let quiet = try #require(samples.lastIndex { abs($0) > 0.1 })
    #expect(abs(video.times[flash] - 1.4) < 0.001 && abs(video.times[dark] - 1.8) < 0.001)
    #expect(abs(Double(loud) / 48_000 - video.times[flash]) < 0.04)
    #expect(abs(Double(quiet) / 48_000 - video.times[dark]) < 0.04)
    loop.stop()
  }

  @Test("sound that begins late, or has a gap, keeps its time")
  func soundGap() async throws {
    let sound = ClipFormat.Audio(sampleRate: 16_000, channels: 1)
    let writer = EncoderProcess(loop: loop)
    try await writer.begin(format(sound: sound))
    for step in 0..<75 { try await writer.write(frame: Self.frame(80, step, at: Double(step) * 0.04)) }
    for piece in Self.tone(2, 2.5, of: 3, sound) where piece.at >= 400_000_000 {
      if (1_000_000_000..<1_700_000_000).contains(piece.at) { continue }
      try await writer.write(sound: piece.samples, atNs: piece.at)
    }
    let path = try await save(writer.finish())
    let samples = try await Probe.decoded(
      path, width: Self.size.width, height: Self.size.height, loop: loop
    ).sound
    let loud = try #require(samples.firstIndex { abs($0) > 0.1 })
    #expect(abs(Double(loud) / 48_000 - 2) < 0.04)
    loop.stop()
  }

  @Test("JPEGs of another size become frames of it, and damaged ones are left out")
  func jpegs() async throws {
    let made = try await Subprocess.run(
      .init(
        "ffmpeg",
        ["-v", "error", "-f", "lavfi", "-i", "color=white:s=642x482", "-frames:v", "1", "-f", "mjpeg", "-"]),
      deadline: .seconds(60), loop: loop)
    let jpeg = made.output
    try #require(jpeg.starts(with: [0xFF, 0xD8]))
    let writer = EncoderProcess(loop: loop)
    try await writer.begin(format(seconds: 1))
    let kind = FrameFormat(.mjpeg, Size(642, 482))
    for step in 0..<25 {
      let bytes = step % 5 == 4 ? Array(jpeg.prefix(jpeg.count / 2)) : jpeg
      try await writer.write(frame: Frame(kind, bytes, atNs: UInt64(step) * 40_000_000))
    }
    let path = try await save(writer.finish())
    let probe = try await Probe(path, loop: loop)
    #expect(probe.video?.times.count == 20)
    let pictures = try await Probe.decoded(path, width: Self.size.width, height: Self.size.height, loop: loop).pictures
    // White is white: the JPEG's full range was taken into account.
    #expect(pictures.allSatisfy { $0 > 250 })
    loop.stop()
  }

  @Test("noise, which no encoder makes small, stays under the limit", arguments: [60_000, 200_000, 1_000_000])
  func staysUnderLimit(maxBytes: Int) async throws {
    var random = SeededRandom()
    print("seed \(random.seed)")
    let sound = ClipFormat.Audio(sampleRate: 16_000, channels: 1)
    let writer = EncoderProcess(loop: loop)
    try await writer.begin(format(sound: sound, maxBytes: maxBytes))
    let pieces = Self.tone(0, 3, of: 3, sound)
    do {
      for step in 0..<75 {
        try await writer.write(frame: Self.noise(&random, at: Double(step) * 0.04))
        for piece in pieces[(step * 2)...(step * 2 + 1)] {
          try await writer.write(sound: piece.samples, atNs: piece.at)
        }
      }
      let clip = try await writer.finish()
      #expect(clip.count <= maxBytes)
      #expect(try await Probe(save(clip), loop: loop).video?.times.count == 75)
    } catch let error as CameraError {
      // What can't be made small enough is refused, never sent and lost.
      #expect(error.code == .tooLarge && maxBytes < 200_000)
    }
    loop.stop()
  }

  @Test("a limit that no clip of this length can keep is refused at once")
  func hopelessLimit() async throws {
    let writer = EncoderProcess(loop: loop)
    let error = await #expect(throws: CameraError.self) { try await writer.begin(format(maxBytes: 4000)) }
    #expect(error?.code == .tooLarge)
    loop.stop()
  }

  @Test("without the hardware encoder that is asked for, it is made in software")
  func hardwareFallsBack() async throws {
    let writer = EncoderProcess(loop: loop)
    try await writer.begin(format(seconds: 1, hardware: true))
    for step in 0..<25 { try await writer.write(frame: Self.frame(60, step, at: Double(step) * 0.04)) }
    let probe = try await Probe(save(writer.finish()), loop: loop)
    #expect(await writer.encoderName == "libx264")
    #expect(probe.video?.times.count == 25)
    loop.stop()
  }
}
