import System
import TestSupport
import Testing

@testable import Camera

/// A writer that keeps what it is given.
private actor Shelf: ClipWriter {
  struct Kept: Sendable {
    var format: ClipFormat?
    var frames: [Frame] = []
    var sound: [Int16] = []
    var soundTimes: [UInt64] = []
    var isFinished = false
    var isCancelled = false
  }
  private(set) var kept = Kept()
  private let refuses: CameraError?
  init(refuses: CameraError? = nil) { self.refuses = refuses }

  func begin(_ format: ClipFormat) async throws(CameraError) { kept.format = format }
  func write(frame: Frame) async throws(CameraError) {
    if let refuses { throw refuses }
    kept.frames.append(frame)
  }
  func write(sound: [Int16], atNs: UInt64) async throws(CameraError) {
    kept.sound += sound
    kept.soundTimes.append(atNs)
  }
  func finish() async throws(CameraError) -> [UInt8] {
    kept.isFinished = true
    return Array("a clip".utf8)
  }
  func cancel() async { kept.isCancelled = true }
}

/// A tone that never ends, in chunks of 20 ms by the clock.
private actor Tone: ClipSound {
  nonisolated let format = ClipFormat.Audio(sampleRate: 8000, channels: 1)
  private var nextNs: UInt64 = 0
  private(set) var hasEnded = false
  private(set) var isOpen = false
  private let endsAfter: Int
  private var count = 0
  init(endsAfter: Int = .max) { self.endsAfter = endsAfter }

  func begin() async throws(CameraError) {
    nextNs = Monotonic.nanoseconds()
    isOpen = true
  }
  func next() async -> (samples: [Int16], atNs: UInt64)? {
    count += 1
    if count > endsAfter || hasEnded { return nil }
    let at = nextNs
    nextNs += 20_000_000
    let now = Monotonic.nanoseconds()
    if nextNs > now { try? await Task.sleep(for: .nanoseconds(Int64(nextNs - now))) }
    return ([Int16](repeating: 1000, count: 160), at)
  }
  func end() async {
    hasEnded = true
    isOpen = false
  }
}

/// Clips, up to the encoder.
@Suite struct ClipTests {
  @Test("frames come with their own times from 0, as I420 of one even size, until the length is reached")
  func frames() async throws {
    let loop = EventLoop(name: "clip")
    defer { loop.stop() }
    let cameras = cameras(playing: "room.mjpeg", rate: 30, loop: loop)
    let shelf = Shelf()
    let clip = try await cameras.clip(ClipRequest(duration: .seconds(2), width: 321), to: shelf)
    let kept = await shelf.kept
    #expect(clip.bytes == Array("a clip".utf8) && kept.isFinished && !clip.hasSound)
    #expect(kept.format?.width == 320 && kept.format?.height == 180 && kept.format?.audio == nil)
    #expect(kept.format?.fps == 30)
    #expect(kept.frames.first?.atNs == 0)
    let times = kept.frames.map(\.atNs)
    #expect(times == times.sorted() && Set(times).count == times.count)
    #expect(times.last! < 2_000_000_000)
    // 60 are due; a busy machine takes fewer.
    #expect((3...61).contains(kept.frames.count))
    #expect(kept.frames.allSatisfy { $0.bytes.count == 320 * 180 * 3 / 2 && $0.format.pixels == .yuv420 })
    #expect(clip.frames == kept.frames.count)
    await cameras.close()
  }

  @Test("sound lasts as long as the clip, sample by sample, and the microphone is given back")
  func sound() async throws {
    let loop = EventLoop(name: "clip")
    defer { loop.stop() }
    let cameras = cameras(playing: "room.mjpeg", rate: 30, loop: loop)
    for tone in [Tone(), Tone(endsAfter: 10)] {
      let shelf = Shelf()
      let clip = try await cameras.clip(ClipRequest(duration: .milliseconds(400)), to: shelf, sound: tone)
      let kept = await shelf.kept
      #expect(clip.hasSound)
      #expect(kept.sound.count == 3200)
      #expect(kept.soundTimes.first == 0 && kept.soundTimes == kept.soundTimes.sorted())
      #expect(await tone.hasEnded)
    }
    await cameras.close()
  }

  @Test("damaged frames are left out, not shown")
  func damaged() async throws {
    let loop = EventLoop(name: "clip")
    defer { loop.stop() }
    let cameras = cameras(playing: "damaged-first.mjpeg", rate: 30, loop: loop)
    let shelf = Shelf()
    let clip = try await cameras.clip(ClipRequest(duration: .milliseconds(600)), to: shelf)
    #expect(clip.framesDropped > 0)
    #expect(await shelf.kept.frames.count > 4)
    await cameras.close()
  }

  /// What a recorder makes of frames with these times from the first on, which is handed over when it is awaited.
  private func recorded(
    _ frames: [(at: Int64, frame: Frame)], of size: Size, into shelf: Shelf
  ) async throws -> Clip {
    let format = FrameFormat(.grey, size, stride: size.width, rate: 30)
    let queue = FrameQueue()
    let subscription = FrameSubscription(format: format, queue: queue, startedNs: 0) {}
    let request = ClipRequest(duration: .milliseconds(500))
    let recorder = ClipRecorder(request, shelf, nil, size, prefersHardware: false)
    async let clip = recorder.run(subscription)
    #expect(await eventually { await shelf.kept.format != nil && queue.isAwaited })
    let begin = Int64(Monotonic.nanoseconds()) + 1_000_000_000
    for (at, frame) in frames {
      var frame = frame
      frame.atNs = UInt64(begin + at)
      queue.add(frame)
      #expect(await eventually { queue.isAwaited })
    }
    queue.add(Frame(format, [UInt8](repeating: 0, count: size.area), atNs: UInt64(begin) + 500_000_000))
    return try await clip
  }

  @Test("frames of other sizes are brought to the clip's, smaller ones too, and show nothing but themselves")
  func sizes() async throws {
    let library = try TurboJPEG.shared.get()
    let sizes = [
      Size(320, 180), Size(16, 16), Size(640, 16), Size(17, 200), Size(333, 185), Size(640, 480), Size(319, 179),
    ]
    let frames = try sizes.enumerated().map { index, size in
      let grey = YUVPicture.made(size, .s420) { for plane in $0 { plane.update(repeating: 128) } }
      let jpeg = try library.encode(grey, quality: 90)
      return (at: Int64(index) * 33_000_000, frame: Frame(FrameFormat(.mjpeg, sizes[0], range: .full), jpeg, atNs: 0))
    }
    let shelf = Shelf()
    let clip = try await recorded(frames, of: sizes[0], into: shelf)
    let kept = await shelf.kept.frames
    #expect(kept.count == sizes.count && clip.framesDropped == 0)
    for frame in kept {
      #expect(frame.bytes.count == sizes[0].area * 3 / 2 && frame.size == sizes[0])
      #expect(frame.bytes[..<sizes[0].area].allSatisfy { (124...128).contains($0) })
      #expect(frame.bytes[sizes[0].area...].allSatisfy { (126...130).contains($0) })
    }
  }

  @Test("frames that come in a burst, twice, or from before the clip are left out and counted, and end nothing")
  func bursts() async throws {
    let size = Size(16, 16)
    let frame = Frame(FrameFormat(.grey, size, stride: 16), [UInt8](repeating: 100, count: 256), atNs: 0)
    let times: [Int64] = [0, 5_000, 11_000, 0, -3_000_000, 40_000_000, 40_000_000, 40_999_999, 41_000_000]
    let shelf = Shelf()
    let clip = try await recorded(times.map { (at: $0, frame: frame) }, of: size, into: shelf)
    #expect(clip.framesDropped == 6)
    #expect(await shelf.kept.frames.map(\.atNs) == [0, 40_000_000, 41_000_000])
  }

  @Test("a clip that is not wanted any more begins nothing after its writer and its microphone were ended")
  func leftBehind() async throws {
    let loop = EventLoop(name: "clip")
    defer { loop.stop() }
    let cameras = cameras(playing: "room.mjpeg", rate: 30, loop: loop)
    for round in 0..<8 {
      let shelf = Shelf()
      let tone = Tone()
      let clip = Task {
        await failure { () throws(CameraError) in
          try await cameras.clip(ClipRequest(duration: .seconds(20)), to: shelf, sound: tone)
        }
      }
      try await Task.sleep(for: .milliseconds(25 * round))
      clip.cancel()
      #expect(await clip.value?.code == .stopped)
      #expect(await shelf.kept.isCancelled)
      #expect(await tone.hasEnded)
      #expect(await eventually { await !tone.isOpen })
    }
    await cameras.close()
  }

  @Test("an encoder that fails ends all of it: the writer is cancelled, the microphone given back, the camera closed")
  func failing() async throws {
    let loop = EventLoop(name: "clip")
    defer { loop.stop() }
    let cameras = cameras(playing: "room.mjpeg", loop: loop)
    let shelf = Shelf(refuses: CameraError(.encodingFailed, "The encoder ended."))
    let tone = Tone()
    let error = await failure { () throws(CameraError) in
      try await cameras.clip(ClipRequest(duration: .milliseconds(500)), to: shelf, sound: tone)
    }
    #expect(error?.code == .encodingFailed)
    #expect(await shelf.kept.isCancelled)
    #expect(await tone.hasEnded)
    await cameras.close()
  }
}

/// Sound on a clip's time.
@Suite struct SoundTimelineTests {
  private let format = ClipFormat.Audio(sampleRate: 1000, channels: 2)
  private func timeline() -> SoundTimeline { SoundTimeline(format, beginNs: 1_000_000_000, lengthNs: 100_000_000) }
  private func chunk(_ frames: Int) -> [Int16] { [Int16](repeating: 5, count: frames * 2) }

  @Test("what was heard before the first frame is cut off, to the sample")
  func early() {
    var timeline = timeline()
    #expect(timeline.add(chunk(20), atNs: 950_000_000).isEmpty)
    #expect(timeline.add(chunk(20), atNs: 985_000_000).count == 10)
    #expect(timeline.position == 5)
  }

  @Test("what is missing in front is silence, and what is missing at the end too")
  func late() {
    var timeline = timeline()
    let first = timeline.add(chunk(20), atNs: 1_030_000_000)
    #expect(first.count == 100 && first[..<60].allSatisfy { $0 == 0 } && first[60...].allSatisfy { $0 == 5 })
    #expect(timeline.complete().count == 100)
    #expect(timeline.isComplete && timeline.add(chunk(5), atNs: 1_200_000_000).isEmpty)
  }

  @Test("chunks follow each other although their times jitter; a lasting gap becomes silence")
  func gaps() {
    var timeline = SoundTimeline(format, beginNs: 0, lengthNs: 10_000_000_000)
    for index in 0..<20 {
      let jitter: UInt64 = index % 2 == 0 ? 0 : 25_000_000
      #expect(timeline.add(chunk(20), atNs: UInt64(index) * 20_000_000 + jitter).count == 40)
    }
    var added = 0
    for index in 20..<30 { added += timeline.add(chunk(20), atNs: UInt64(index) * 20_000_000 + 300_000_000).count }
    #expect(added == 10 * 40 + 600)
  }

  @Test("sound that stays away by more than 30 ms is put right: nothing is 40 ms off for long")
  func smallGap() {
    var timeline = SoundTimeline(format, beginNs: 0, lengthNs: 10_000_000_000)
    for index in 0..<10 as Range<UInt64> { _ = timeline.add(chunk(20), atNs: index * 20_000_000) }
    for index in 10..<20 as Range<UInt64> { _ = timeline.add(chunk(20), atNs: index * 20_000_000 + 35_000_000) }
    #expect(timeline.atNs == 435_000_000)
  }

  @Test("nothing goes beyond the end")
  func end() {
    var timeline = timeline()
    #expect(timeline.add(chunk(500), atNs: 1_000_000_000).count == 200)
    #expect(timeline.isComplete && timeline.complete().isEmpty)
  }
}
