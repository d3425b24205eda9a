import Audio
import CTurboJPEG
import Camera
import CameraModule
import Glibc
import System

/// What a picture costs beside what libjpeg-turbo costs by itself. What a camera costs is measured in the guest.
extension Section {
  static let camera = Section(name: "camera") { options in
    let library = try BareTurboJPEG()
    var figures: [Figure] = []
    figures += try encoding(options, library)
    figures += try passing(options, library)
    figures.append(try await listing(options))
    figures += try await clip(options)
    return figures
  }

  private static let size = Size(1920, 1080)
  private static let quality = 0.9

  /// A picture with something in it: slopes, edges and a little noise, as a room has.
  private static func brightness(_ x: Int, _ y: Int) -> UInt8 {
    let edge = (x / 160 + y / 120) % 2 == 0 ? 40 : 0
    let noise = (x &* 73_856_093 ^ y &* 19_349_663) >> 3 & 7
    return UInt8(clamping: 50 + x / 16 + edge + noise)
  }

  private static func milliseconds(_ count: Int, _ body: () throws -> Void) rethrows -> Double {
    var samples = Samples()
    for _ in 0..<count {
      let began = Monotonic.now()
      try body()
      samples.add((Monotonic.now() - began).milliseconds)
    }
    return samples.median
  }

  private static func encoding(_ options: Options, _ library: BareTurboJPEG) throws -> [Figure] {
    var yuyv = [UInt8](repeating: 0, count: size.area * 2)
    for y in 0..<size.height {
      for x in stride(from: 0, to: size.width, by: 2) {
        let at = (y * size.width + x) * 2
        yuyv[at] = brightness(x, y)
        yuyv[at + 1] = UInt8(100 + x / 40)
        yuyv[at + 2] = brightness(x + 1, y)
        yuyv[at + 3] = UInt8(150 - y / 30)
      }
    }
    let frame = Frame(FrameFormat(.yuyv, size, stride: size.width * 2), yuyv, atNs: 1)
    let limits = Picture.Limits(width: size.width, quality: quality)
    // In the range that a JPEG has: what is encoded has to be the same.
    let planes = BareTurboJPEG.Planes(yuyv: yuyv, size)
    let times = options.times(60)
    let own = try milliseconds(times) { _ = try Picture.make(of: frame, limits) }
    let bare = try milliseconds(times) { try library.encode(planes, quality: Int(quality * 100)) }
    var figure = Figure("YUYV 1080p to JPEG", unit: "ms", value: own, target: .atMost(1.2 * bare))
    figure.comparison = ("libjpeg-turbo's encode of the same planes", bare)
    let scaled = try milliseconds(times) { _ = try Picture.make(of: frame, Picture.Limits(width: 1280)) }
    return [figure, Figure("YUYV 1080p to JPEG of 1280 × 720", unit: "ms", value: scaled)]
  }

  /// An MJPEG frame without tables, as USB cameras send it: all of it decoded once to see that it is whole, then passed on.
  private static func passing(_ options: Options, _ library: BareTurboJPEG) throws -> [Figure] {
    let luma = (0..<size.area).map { brightness($0 % size.width, $0 / size.width) }
    let colour = [UInt8](repeating: 120, count: size.area / 2)
    let jpeg = try library.encode(BareTurboJPEG.Planes(size, [luma, colour, colour]), quality: 85)
    let frame = Frame(FrameFormat(.mjpeg, size, range: .full), withoutTables(jpeg), atNs: 1)
    let limits = Picture.Limits(width: size.width)
    let times = options.times(100)
    let all = try milliseconds(times) {
      guard try Picture.make(of: frame, limits).isPassedThrough else { throw BenchError("it was encoded anew") }
    }
    let bare = try milliseconds(times) { try library.thumbnail(jpeg, size) }
    var own = Figure("MJPEG 1080p passed on, our own time", unit: "ms", value: max(0, all - bare), target: .atMost(1))
    own.note = "\(jpeg.count >> 10) KiB; with libjpeg-turbo's look at all of it \(Report.text(all, "ms"))"
    let smaller = try milliseconds(times) { _ = try Picture.make(of: frame, Picture.Limits(width: 1280)) }
    return [own, Figure("MJPEG 1080p to JPEG of 1280 × 720", unit: "ms", value: smaller)]
  }

  /// A clip of 60 s from a recording at its own pace and a microphone without hardware, to the finished MP4.
  private static func clip(_ options: Options) async throws -> [Figure] {
    let folder = try Files.makeTemporaryFolder("talknode-bench")
    defer { try? Files.removeTree(folder) }
    let server = try PrivateSoundServer(folder: folder)
    try await server.start()
    let sound = SoundSystem(AudioSettings(backend: .pulse, server: server.address))
    let loop = EventLoop(name: "camera")
    defer { loop.stop() }
    var settings = CameraSettings()
    settings.sources = [.init(name: "room", kind: .recording(path: "samples/camera/room.mjpeg", rate: 25))]
    let cameras = Cameras(settings: settings, loop: loop)
    let seconds = options.isQuick ? 3 : 60
    let began = Monotonic.now()
    let used = Machine.processorTime()
    let clip = try await cameras.clip(
      ClipRequest(duration: .seconds(seconds)),
      to: EncoderProcess(program: options.program + "-encoder", loop: loop), sound: MicrophoneSound.opened(sound))
    let over = (Monotonic.now() - began).milliseconds - Double(seconds) * 1000
    let load = (Machine.processorTime() - used) / Double(seconds) * 100
    await cameras.close()
    await sound.close()
    await server.stop()
    var length = Figure("clip of \(seconds) s: time beyond its length", unit: "ms", value: over)
    length.note = "\(clip.frames) frames, \(clip.framesDropped) left out, \(clip.bytes.count >> 10) KiB of MP4"
    return [
      length, Figure("clip: this program's processor time", unit: "%", value: load, note: "the encoder's apart"),
      Figure("clip: most memory of this program", unit: "MB", value: try Machine.mostMemory()),
    ]
  }

  private static func withoutTables(_ jpeg: [UInt8]) -> [UInt8] {
    var out = Array(jpeg[..<2])
    var at = 2
    while jpeg[at + 1] != 0xDA {
      let end = at + 2 + Int(jpeg[at + 2]) << 8 + Int(jpeg[at + 3])
      if jpeg[at + 1] != 0xC4 { out += jpeg[at..<end] }
      at = end
    }
    return out + jpeg[at...]
  }

  static func listing(_ options: Options) async throws -> Figure {
    let loop = EventLoop(name: "camera")
    defer { loop.stop() }
    let cameras = Cameras(settings: CameraSettings(), loop: loop)
    var samples = Samples()
    for _ in 0..<options.times(50) {
      let began = Monotonic.now()
      _ = try await cameras.find()
      samples.add((Monotonic.now() - began).milliseconds)
    }
    let count = Files.list("/dev").filter { $0.hasPrefix("video") }.count
    var figure = Figure("camera list", unit: "ms", value: samples.median, target: .atMost(20))
    figure.note = "\(count) video nodes"
    return figure
  }
}

/// libjpeg-turbo as anybody would call it.
private struct BareTurboJPEG {
  struct Planes {
    let size: Size
    /// Brightness, and colours at half the width.
    let bytes: [[UInt8]]
    init(_ size: Size, _ bytes: [[UInt8]]) {
      self.size = size
      self.bytes = bytes
    }
    init(yuyv: [UInt8], _ size: Size) {
      self.size = size
      bytes = [(0, 2), (1, 4), (3, 4)].map { first, step in
        stride(from: first, to: yuyv.count, by: step).map { at in
          let value = Double(yuyv[at])
          return UInt8(
            max(0, min(255, (first == 0 ? (value - 16) * 255 / 219 : (value - 128) * 255 / 224 + 128).rounded())))
        }
      }
    }
  }

  private var table = cturbojpeg()

  init() throws {
    let library = try SharedLibrary("libturbojpeg.so.0")
    if let missing = cturbojpeg_load(&table, library.handle) {
      throw BenchError("libturbojpeg has no \(String(cString: missing))")
    }
  }

  @discardableResult
  func encode(_ planes: Planes, quality: Int) throws -> [UInt8] {
    guard let handle = table.tjInitCompress() else { throw BenchError("no compressor") }
    defer { _ = table.tjDestroy(handle) }
    var out: UnsafeMutablePointer<UInt8>?
    var count: UInt = 0
    let code = planes.bytes[0].withUnsafeBufferPointer { luma in
      planes.bytes[1].withUnsafeBufferPointer { blue in
        planes.bytes[2].withUnsafeBufferPointer { red in
          var sources = [luma.baseAddress, blue.baseAddress, red.baseAddress]
          return table.tjCompressFromYUVPlanes(
            handle, &sources, Int32(planes.size.width), nil, Int32(planes.size.height), Int32(TJSAMP_422.rawValue),
            &out, &count, Int32(quality), 0)
        }
      }
    }
    defer { table.tjFree(out) }
    guard code == 0, let out else { throw BenchError("libjpeg-turbo does not encode") }
    return Array(UnsafeBufferPointer(start: out, count: Int(count)))
  }

  func thumbnail(_ jpeg: [UInt8], _ size: Size) throws {
    guard let handle = table.tjInitDecompress() else { throw BenchError("no decompressor") }
    defer { _ = table.tjDestroy(handle) }
    let small = Size((size.width + 7) / 8, (size.height + 7) / 8)
    var out = [UInt8](repeating: 0, count: small.area)
    let code = table.tjDecompress2(
      handle, jpeg, UInt(jpeg.count), &out, Int32(small.width), Int32(small.width), Int32(small.height),
      Int32(TJPF_GRAY.rawValue), TJFLAG_FASTDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS)
    if code != 0 { throw BenchError("libjpeg-turbo does not decode") }
  }
}
