import Glibc
import System
import TestSupport
import Testing

@testable import Camera

/// A clip of a camera that flashes, with a tone while it does: what is in the MP4 is asked of other programs.
@Suite(.enabled(if: Guest.isHere, "needs cameras: make test-vm"), .serialized, .timeLimit(.minutes(2)))
struct ClipGuestTests {
  /// When the camera shows white, by the monotonic clock.
  private final class Flash: Sendable {
    private let times = Lock<[Range<UInt64>]>([])
    func add(_ range: Range<UInt64>) { times.withLock { $0.append(range) } }
    func isOn(at time: UInt64) -> Bool { times.withLock { $0.contains { $0.contains(time) } } }
  }

  /// A microphone that hears a tone while the flash is on.
  private actor Tone: ClipSound {
    nonisolated let format = ClipFormat.Audio(sampleRate: 48_000, channels: 1)
    private let flash: Flash
    private var at: UInt64 = 0
    init(_ flash: Flash) { self.flash = flash }

    func begin() async throws(CameraError) { at = Monotonic.nanoseconds() }
    func next() async -> (samples: [Int16], atNs: UInt64)? {
      let start = at
      at += 20_000_000
      // Heard a little after it sounded, as of any sound card, and when it is known whether there was a flash.
      let due = at + 60_000_000
      let now = Monotonic.nanoseconds()
      if due > now { try? await Task.sleep(for: .nanoseconds(Int64(due - now))) }
      let samples = (0..<960).map { index -> Int16 in
        let time = start + UInt64(index) * 1_000_000_000 / 48_000
        return flash.isOn(at: time) ? Int16(12_000 * sin(Double(time % 1_000_000_000) / 1e9 * 2 * .pi * 1000)) : 0
      }
      return (samples, start)
    }
    func end() async {}
  }

  @Test("a clip of 3 s: its length, its frames' times, and the tone where the flash is, within 40 ms")
  func flashAndTone() async throws {
    let loop = EventLoop(name: "guest")
    defer { loop.stop() }
    let size = Size(320, 240)
    let library = try TurboJPEG.shared.get()
    func plain(_ light: UInt8) throws -> [UInt8] {
      let picture = YUVPicture.made(size, .s422) { planes in
        for (index, plane) in planes.enumerated() { plane.update(repeating: index == 0 ? light : 128) }
      }
      return try library.encode(picture, quality: 80)
    }
    let (dark, white) = (try plain(90), try plain(220))
    let flash = Flash()
    // White for the fifth of each second that begins with it.
    let feeder = try Feeder(size: size, rate: 20) { now in
      guard now % 1_000_000_000 < 200_000_000 else { return dark }
      // Known at once, and until the next frame at least.
      flash.add(now..<(now + 60_000_000))
      return white
    }
    let cameras = Cameras(settings: CameraSettings(), loop: loop)
    #expect(await eventually { (try? await cameras.device(Feeder.node)) != nil })
    let clip = try await cameras.clip(
      ClipRequest(device: Feeder.node, duration: .seconds(3), limit: .seconds(50)), to: EncoderProcess(loop: loop),
      sound: Tone(flash))
    await cameras.close()
    await feeder.end()

    let file = "/tmp/clip-\(getpid()).mp4"
    defer { unlink(file) }
    try Files.writeAtomically(clip.bytes, to: file)
    let told = try await GuestCamera.text(
      "ffprobe", "-v", "error", "-show_entries", "format=duration:stream=codec_name,width,height,pix_fmt", "-of",
      "default=noprint_wrappers=1", file, loop: loop)
    for part in ["codec_name=h264", "codec_name=aac", "width=320", "height=240", "pix_fmt=yuv420p"] {
      #expect(told.contains(part), "\(told)")
    }
    let duration = try #require(
      told.split(separator: "\n").first { $0.hasPrefix("duration=") }.flatMap { Double($0.dropFirst(9)) })
    #expect(abs(duration - 3) < 0.2, "\(duration) s")

    // Each frame's time and brightness.
    let frames = try await GuestCamera.text(
      "ffprobe", "-v", "error", "-f", "lavfi", "-i", "movie=\(file),signalstats", "-show_entries",
      "frame=pts_time:frame_tags=lavfi.signalstats.YAVG", "-of", "csv=p=0", loop: loop
    ).split(separator: "\n").compactMap { line -> (time: Double, light: Double)? in
      let parts = line.split(separator: ",").compactMap { Double($0) }
      return parts.count == 2 ? (parts[0], parts[1]) : nil
    }
    #expect(frames.count == clip.frames && frames.first?.time == 0)
    #expect(zip(frames, frames.dropFirst()).allSatisfy { $0.time < $1.time })
    let sound = try await GuestCamera.run(
      "ffmpeg", "-v", "error", "-i", file, "-map", "a", "-f", "s16le", "-ac", "1", "-ar", "48000", "-", loop: loop)
    let loud = stride(from: 0, to: sound.count / 2 - 48, by: 48).map { first -> Bool in
      (first..<(first + 48)).contains { index in
        abs(Int(Int16(bitPattern: UInt16(sound[2 * index]) | UInt16(sound[2 * index + 1]) << 8))) > 3000
      }
    }
    // Where white begins in the picture, a millisecond of sound is loud within 40 ms, and was quiet 40 ms before.
    let begins = zip(frames, frames.dropFirst()).filter { $0.light < 150 && $1.light > 150 }.map { $1.time }
    #expect(begins.count >= 2, "\(frames)")
    for begin in begins {
      let onset = loud.indices.first { loud[$0] && $0 >= Int(begin * 1000) - 300 }
      #expect(
        onset.map { abs(Double($0) / 1000 - begin) <= 0.04 } == true, "flash at \(begin) s, tone at \(onset ?? -1) ms")
    }
    print("clip: \(duration) s, \(clip.frames) frames (\(clip.framesDropped) left out), \(clip.bytes.count) bytes")
  }
}
