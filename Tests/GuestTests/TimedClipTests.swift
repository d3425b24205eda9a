import Glibc
import System
import TestSupport
import Testing

@testable import Camera

extension SecondLane {
  /// A clip of a camera that flashes, with a tone while it does: what is in the MP4 is asked of other programs.
  struct TimedClipTests {
    /// When the camera shows white, by the monotonic clock.
    private final class Flash: Sendable {
      private let times = Lock<[Range<UInt64>]>([])
      func add(_ range: Range<UInt64>) { times.withLock { $0.append(range) } }
      func all(in span: Range<UInt64>) -> [Range<UInt64>] { times.withLock { $0.filter { $0.overlaps(span) } } }
    }

    /// A microphone that hears a tone while the flash is on.
    private actor Tone: ClipSound {
      nonisolated let format = ClipFormat.Audio(sampleRate: 16_000, channels: 1)
      private static let turn = (0..<16).map { Int16(12_000 * sin(Double($0) / 16 * 2 * .pi)) }
      private let flash: Flash
      private var at: UInt64 = 0
      init(_ flash: Flash) { self.flash = flash }

      func begin() async throws(CameraError) { at = Monotonic.nanoseconds() }
      func next() async -> (samples: [Int16], atNs: UInt64)? {
        // What nobody has asked for in time is lost, as with any microphone.
        at = max(at, Monotonic.nanoseconds() - 500_000_000)
        let start = at
        at += 20_000_000
        // Heard a little after it sounded, as of any sound card, and when it is known whether there was a flash.
        let due = at + 60_000_000
        let now = Monotonic.nanoseconds()
        if due > now { try? await Task.sleep(for: .nanoseconds(Int64(due - now))) }
        // 1000 Hz: 16 samples a turn.
        let on = flash.all(in: start..<at)
        let samples = (0..<320).map { index -> Int16 in
          let time = start + UInt64(index) * 62_500
          return on.contains { $0.contains(time) } ? Self.turn[index % 16] : 0
        }
        return (samples, start)
      }
      func end() async {}
    }

    @Test("a clip of 3 s: its length, its frames' times, and the tone where the flash is, within 40 ms")
    func flashAndTone() async throws {
      let loop = EventLoop(name: "guest")
      defer { loop.stop() }
      let size = Size(160, 120)
      let library = try TurboJPEG.shared.get()
      func plain(_ light: UInt8) throws -> [UInt8] {
        let picture = YUVPicture.made(size, .s422) { planes in
          for (index, plane) in planes.enumerated() { plane.update(repeating: index == 0 ? light : 128) }
        }
        return try library.encode(picture, quality: 80)
      }
      let (dark, white) = (try plain(90), try plain(220))
      let flash = Flash()
      // Every fourth frame is white. Few enough frames that none is left out where all is emulated.
      let count = Lock(0)
      let feeder = try Feeder(size: size, rate: 6) { now in
        let isWhite = count.withLock { count in
          count += 1
          return count % 4 == 0
        }
        // Known at once, and until the next frame.
        if isWhite { flash.add(now..<(now + 170_000_000)) }
        return isWhite ? white : dark
      }
      let cameras = Cameras(settings: CameraSettings(), loop: loop)
      #expect(await eventually { (try? await cameras.device(Feeder.node)) != nil })
      let clip = try await cameras.clip(
        ClipRequest(device: Feeder.node, duration: .seconds(3), limit: .seconds(50)),
        to: EncoderProcess(limits: .init(start: .seconds(40), step: .seconds(40), finish: .seconds(40)), loop: loop),
        sound: Tone(flash))
      await cameras.close()
      await feeder.end()

      let file = "/tmp/clip-\(getpid()).mp4"
      defer { unlink(file) }
      try Files.writeAtomically(clip.bytes, to: file)
      // One ffmpeg tells all of it, for its start is what takes time: what the file says of itself, each frame's time and brightness, the sound.
      let light = "/tmp/clip-\(getpid()).txt"
      defer { unlink(light) }
      let probe = try await Subprocess.start(
        .init(
          "ffmpeg",
          [
            "-nostats", "-i", file, "-map", "v", "-vf",
            "signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=\(light)",
            "-f", "null", "-", "-map", "a", "-f", "s16le", "-ac", "1", "-ar", "16000", "-",
          ]), loop: loop)
      await probe.closeInput()
      var sound: [UInt8] = []
      while let piece = await probe.read(1 << 20) { sound += piece }
      let exit = await probe.waitForExit()
      let told = await probe.errorOutput
      #expect(exit.isSuccess, "\(told)")
      for part in ["Video: h264", "Audio: aac", "160x120", "yuv420p"] { #expect(told.contains(part), "\(told)") }
      let duration = try #require(
        told.split(separator: "Duration: ").dropFirst().first.map { text in
          text.prefix { $0 != "," }.split(separator: ":").compactMap { Double($0) }.reduce(0) { $0 * 60 + $1 }
        })
      #expect(abs(duration - 3) < 0.2, "\(duration) s")
      // "frame:0 pts:0 pts_time:0", then "lavfi.signalstats.YAVG=93".
      let lines = try #require(Files.text(light)).split(separator: "\n")
      let frames = stride(from: 0, to: lines.count - 1, by: 2).compactMap { index -> (time: Double, light: Double)? in
        guard let time = lines[index].split(separator: "pts_time:").last.flatMap({ Double($0.trimmed) }),
          let light = lines[index + 1].split(separator: "=").last.flatMap({ Double($0) })
        else { return nil }
        return (time, light)
      }
      #expect(frames.count == clip.frames && frames.first?.time == 0)
      #expect(zip(frames, frames.dropFirst()).allSatisfy { $0.time < $1.time })
      let loud = stride(from: 0, to: sound.count / 2 - 16, by: 16).map { first -> Bool in
        (first..<(first + 16)).contains { index in
          abs(Int(Int16(bitPattern: UInt16(sound[2 * index]) | UInt16(sound[2 * index + 1]) << 8))) > 3000
        }
      }
      // Where white begins in the picture, a millisecond of sound is loud within 40 ms, and was quiet 40 ms before.
      let begins = zip(frames, frames.dropFirst()).filter { $0.light < 150 && $1.light > 150 }.map { $1.time }
      #expect(begins.count >= 2, "\(frames)")
      for begin in begins {
        let onset = loud.indices.first { loud[$0] && $0 >= Int(begin * 1000) - 300 }
        #expect(
          onset.map { abs(Double($0) / 1000 - begin) <= 0.04 } == true, "flash at \(begin) s, tone at \(onset ?? -1) ms"
        )
      }
      print("clip: \(duration) s, \(clip.frames) frames (\(clip.framesDropped) left out), \(clip.bytes.count) bytes")
    }
  }
}
