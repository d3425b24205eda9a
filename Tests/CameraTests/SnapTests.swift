import Glibc
import System
import TestSupport
import Testing

@testable import Camera

/// Which frame becomes the picture.
@Suite struct ExposureTests {
  private func settledAt(_ means: [Double], burnt: [Double]? = nil, intervalMs: UInt64 = 33) -> Int? {
    var exposure = Exposure()
    return means.indices.first {
      let light = Light(mean: means[$0], burnt: burnt?[$0] ?? 0)
      return exposure.hasSettled(light, atNs: 1_000_000_000 + UInt64($0) * intervalMs * 1_000_000)
    }
  }

  @Test("a still scene is taken after a few frames, a changing one when it rests")
  func rests() {
    #expect(settledAt([100, 101, 100, 100, 100]) == 3)
    let ramp = (0..<12).map { 200 - 10 * Double($0) } + [Double](repeating: 90, count: 8)
    #expect(settledAt(ramp) == 14)
  }

  @Test("25 over-exposed frames are not taken for rest, however alike they are")
  func burnt() {
    let means = [Double](repeating: 252, count: 25) + [Double](repeating: 120, count: 10)
    let burnt = [Double](repeating: 0.95, count: 25) + [Double](repeating: 0.02, count: 10)
    #expect(settledAt(means, burnt: burnt) == 28)
  }

  @Test("a black start is waited for as well")
  func black() {
    #expect(settledAt([Double](repeating: 1, count: 6) + [Double](repeating: 80, count: 6)) == 9)
  }

  @Test("a snowfield is white, and a lamp may flicker: after 2 s it is taken as it is")
  func atMost() {
    #expect(settledAt([Double](repeating: 255, count: 100)) == 61)
    #expect(settledAt((0..<100).map { $0 % 2 == 0 ? 50 : 200 }) == 61)
  }

  @Test("a slow change is seen although two frames hardly differ")
  func slow() {
    let means = (0..<30).map { 200 - 3 * Double($0) } + [Double](repeating: 110, count: 5)
    #expect(settledAt(means) == 32)
  }
}

/// Making a picture fit.
@Suite struct ShrinkTests {
  @Test("a picture that fits is encoded once")
  func fits() {
    var shrink = Shrink(quality: 0.9, size: Size(1600, 1200), limit: 1000)
    #expect(shrink.first == Shrink.Try(quality: 0.9, size: Size(1600, 1200)))
    #expect(shrink.after(1000) == .fits)
  }

  @Test("six qualities a round, then 85 % of the longest edge, at most six rounds")
  func procedure() {
    var shrink = Shrink(quality: 1, size: Size(4000, 3000), limit: 1000)
    var tries = [shrink.first]
    while case .again(let next) = shrink.after(2000) { tries.append(next) }
    #expect(shrink.after(2000) == .tooLarge)
    #expect(tries.count <= 36)
    #expect(tries.prefix(5).map { ($0.quality * 1000).rounded() } == [1000, 750, 563, 422, 350])
    #expect(tries.allSatisfy { $0.quality >= 0.35 })
    var widths: [Int] = []
    for width in tries.map(\.size.width) where widths.last != width { widths.append(width) }
    #expect(widths == [4000, 3400, 2890, 2456, 2086, 1774] || widths.count == 6, "\(widths)")
    #expect(widths == widths.sorted(by: >))
  }

  @Test("it does not go below 256 pixels or a quality of 0.2")
  func floors() {
    var shrink = Shrink(quality: 0.3, size: Size(300, 200), limit: 1)
    var tries = [shrink.first]
    while case .again(let next) = shrink.after(2) { tries.append(next) }
    #expect(tries.map(\.quality).min()! >= 0.2)
    #expect(tries.map(\.size.width).min()! >= 256)
    var tiny = Shrink(quality: 0.2, size: Size(100, 100), limit: 1)
    #expect(tiny.after(2) == .tooLarge)
  }
}

/// Pictures from a recording, through all that a camera's frames go through.
@Suite struct SnapTests {
  @Test("a frame that needs nothing is passed on as the camera sent it, cleaned")
  func passedThrough() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    let cameras = cameras(playing: "room.mjpeg", loop: loop)
    let picture = try await cameras.snap(SnapRequest(delay: .zero))
    let cleaned = try Sample.frames("room.mjpeg").map { try JPEGRepair($0).bytes }
    #expect(picture.isPassedThrough)
    #expect(cleaned.contains(picture.bytes))
    #expect(picture.size == Size(640, 360))
    await cameras.close()
  }

  @Test("a whole JPEG file is passed on byte for byte")
  func untouched() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    let cameras = cameras(playing: "whole.jpg", loop: loop)
    let picture = try await cameras.snap(SnapRequest())
    #expect(picture.bytes == (try Sample.bytes("whole.jpg")))
    await cameras.close()
  }

  @Test("scaled to the width that was asked for, and never larger")
  func scaled() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    let cameras = cameras(playing: "room.mjpeg", loop: loop)
    for (width, expected) in [(200, Size(200, 112)), (333, Size(333, 188)), (2, Size(2, 2)), (5000, Size(640, 360))] {
      let limits = Picture.Limits(width: width, quality: 0.8)
      let picture = try await cameras.snap(SnapRequest(limits: limits, delay: .zero))
      #expect(picture.size == expected)
      let header = try JPEGRepair(picture.bytes)
      #expect(header.size == expected)
    }
    await cameras.close()
  }

  @Test("the orientation ends up in the pixels", arguments: [3, 6, 8])
  func upright(orientation: Int) async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    let cameras = cameras(playing: "orientation-\(orientation).jpg", loop: loop)
    let picture = try await cameras.snap(SnapRequest(delay: .zero))
    let header = try JPEGRepair(picture.bytes)
    #expect(picture.size == Size(96, 64) && header.size == Size(96, 64) && header.orientation == 1)
    let upright = try Sample.picture("orientation-1.jpg")
    #expect(likeness(try TurboJPEG.shared.get().decode(header).luma, upright.luma) > 28)
    // The width that is asked for is that of the picture as it is seen.
    let small = try await cameras.snap(SnapRequest(limits: Picture.Limits(width: 48), delay: .zero))
    #expect(small.size == Size(48, 32))
    await cameras.close()
  }

  @Test("the over-exposed start is not in the picture")
  func glare() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    let cameras = cameras(playing: "glare.mjpeg", rate: 40, loop: loop)
    let picture = try await cameras.snap(SnapRequest())
    let light = Light(try TurboJPEG.shared.get().thumbnail(JPEGRepair(picture.bytes)).bytes)
    #expect(light.mean < 140 && light.burnt < 0.1, "\(light)")
    #expect(picture.framesSeen >= 4)
    await cameras.close()
    // With a delay it is exactly that: the first frame, white as it is.
    let slow = CameraTests.cameras(playing: "glare.mjpeg", rate: 4, loop: loop)
    let first = try await slow.snap(SnapRequest(delay: .zero))
    #expect(Light(try TurboJPEG.shared.get().thumbnail(JPEGRepair(first.bytes)).bytes).mean > 200)
    await slow.close()
  }

  @Test("damaged frames are passed over; only damaged ones are an error, not half a picture")
  func damaged() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    // Slowly, so that also a busy machine sees the first frame and not the next one already.
    let some = cameras(playing: "damaged-first.mjpeg", rate: 4, loop: loop)
    let picture = try await some.snap(SnapRequest(delay: .zero))
    #expect(picture.framesDamaged >= 1)
    #expect(throws: Never.self) { try TurboJPEG.shared.get().thumbnail(JPEGRepair(picture.bytes)) }
    await some.close()
    let none = cameras(playing: "only-damaged.mjpeg", loop: loop)
    let error = await failure { () throws(CameraError) in try await none.snap(SnapRequest()) }
    #expect(error?.code == .damaged)
    await none.close()
  }

  @Test("4000×3000 pixels of noise are made to fit, not sent and lost")
  func shrinks() async throws {
    var random = SeededRandom()
    let size = Size(4000, 3000)
    let noise = YUVPicture.made(size, .s420) { planes in
      for plane in planes {
        for index in stride(from: 0, to: plane.count, by: 8) {
          var word = random.next()
          for byte in index..<min(index + 8, plane.count) {
            plane[byte] = UInt8(truncatingIfNeeded: word)
            word >>= 8
          }
        }
      }
    }
    let bytes = try TurboJPEG.shared.get().encode(noise, quality: 90)
    #expect(bytes.count > Picture.Limits.wireBytes)
    let folder = TemporaryFolder()
    try Files.writeAtomically(bytes, to: folder("noise.jpg"))
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    var settings = CameraSettings()
    settings.sources = [.init(name: "noise", kind: .recording(path: folder("noise.jpg"), rate: 10))]
    let cameras = Cameras(settings: settings, loop: loop, places: CameraPlaces(dev: "/nonexistent"))
    let picture = try await cameras.snap(
      SnapRequest(limits: Picture.Limits(width: 4000), delay: .zero, limit: .seconds(100)))
    #expect(picture.bytes.count <= Picture.Limits.wireBytes)
    #expect(picture.size.width <= 4000 && picture.size.width >= 256)
    let error = await failure { () throws(CameraError) in
      try await cameras.snap(
        SnapRequest(limits: Picture.Limits(width: 4000, bytes: 2000), delay: .zero, limit: .seconds(100)))
    }
    #expect(error?.code == .tooLarge)
    await cameras.close()
  }

  @Test("two at once share one opening, and a picture is taken while somebody films")
  func shared() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    let folder = TemporaryFolder()
    // The light tells how often the camera was opened.
    let cameras = cameras(playing: "room.mjpeg", loop: loop) {
      $0.led = ["sh", "-c", "echo $0 >> \(folder("light"))"]
    }
    let device = try await cameras.device(nil)
    let film = try await cameras.frames(of: device, CaptureWish(.motion))
    async let one = cameras.snap(SnapRequest())
    async let two = cameras.snap(SnapRequest(limits: Picture.Limits(width: 320)))
    #expect(try await one.size == Size(640, 360))
    #expect(try await two.size == Size(320, 180))
    film.end()
    await cameras.close()
    #expect(Files.text(folder("light")) == "on\noff\n")
  }

  @Test("a delay runs from the first frame, and the time that was given ends it")
  func delayed() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    let cameras = cameras(playing: "room.mjpeg", rate: 30, loop: loop)
    let began = Monotonic.now()
    let picture = try await cameras.snap(SnapRequest(delay: .milliseconds(300)))
    #expect(Monotonic.now() - began >= .milliseconds(290))
    #expect(picture.framesSeen == 1)
    let error = await failure { () throws(CameraError) in
      try await cameras.snap(SnapRequest(delay: .seconds(5), limit: .milliseconds(100)))
    }
    #expect(error?.code == .timedOut)
    await cameras.close()
  }

  @Test("a recording that is not there, or holds no picture, says so")
  func missing() async throws {
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    for name in ["no-such-file", "make-samples"] {
      let cameras = cameras(playing: name, loop: loop)
      let error = await failure { () throws(CameraError) in try await cameras.snap(SnapRequest()) }
      #expect(error?.code == .sourceFailed, "\(name): \(String(describing: error))")
      await cameras.close()
    }
  }

  @Test("what has no end is no recording: a device, a pipe, a pipe in a folder")
  func endless() async throws {
    let folder = TemporaryFolder()
    #expect(mkfifo(folder("pipe"), 0o600) == 0)
    try Files.makeFolder(folder("pictures"))
    #expect(mkfifo(folder("pictures/a.jpg"), 0o600) == 0)
    let loop = EventLoop(name: "snap")
    defer { loop.stop() }
    for path in ["/dev/zero", folder("pipe"), folder("pictures")] {
      var settings = CameraSettings()
      settings.sources = [.init(name: "endless", kind: .recording(path: path, rate: 30))]
      let cameras = Cameras(settings: settings, loop: loop, places: CameraPlaces(dev: "/nonexistent"))
      let error = await failure { () throws(CameraError) in try await cameras.snap(SnapRequest()) }
      #expect(error?.code == .sourceFailed && error?.summary.contains("can't be read") == true, "\(path)")
      await cameras.close()
    }
  }

  @Test("a long file without a picture is given up when nobody waits for it any more")
  func noFrames() async throws {
    let folder = TemporaryFolder()
    try folder.write("zeros", "")
    #expect(truncate(folder("zeros"), 1 << 42) == 0)
    let source = RecordedSource(name: "zeros", path: folder("zeros"), rate: 30)
    let hasEnded = Lock(false)
    source.start(
      CaptureWish(),
      FrameSink { event, taken in
        taken()
        if case .ended(nil) = event { hasEnded.withLock { $0 = true } }
      })
    source.stop()
    #expect(await eventually { hasEnded.withLock { $0 } })
  }

  @Test("a folder of pictures is played in the order of their names")
  func folder() async throws {
    let folder = TemporaryFolder()
    for (index, name) in ["b.jpg", "a.jpeg", "c.JPG"].enumerated() {
      try Files.writeAtomically(try Sample.bytes("orientation-\(index + 1).jpg"), to: folder(name))
    }
    var recording = try Recording(path: folder.path, name: "folder")
    var found: [Int] = []
    while let frame = try recording.next() { found.append(try JPEGRepair(frame).orientation) }
    #expect(found == [2, 1, 3])
  }
}
