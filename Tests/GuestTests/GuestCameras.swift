import CV4L2
import Glibc
import System
import TestSupport
import Testing

@testable import Camera

/// The guest's cameras: vivid's, which draw their pictures, and v4l2loopback's, which show what is written to them.
enum GuestCamera {
  /// How many are vivid's: the last two are the test of pictures' own, the others are now and then taken away or starved.
  static let count = 5

  static func bed() -> (Cameras, EventLoop) {
    let loop = EventLoop(name: "guest")
    return (Cameras(settings: CameraSettings(), loop: loop), loop)
  }

  /// Runs a program; its output. An error for one that fails.
  @discardableResult
  static func run(_ program: String, _ arguments: String..., loop: EventLoop) async throws -> [UInt8] {
    try await run(Subprocess.Command(program, arguments), loop)
  }

  @discardableResult
  static func run(_ command: Subprocess.Command, _ loop: EventLoop) async throws -> [UInt8] {
    let process = try await Subprocess.start(command, loop: loop)
    await process.closeInput()
    var output: [UInt8] = []
    while let piece = await process.read(1 << 20) { output += piece }
    let exit = await process.waitForExit()
    guard exit.isSuccess else {
      let errors = await process.errorOutput
      throw CameraError(
        .refused, "\(command.program) \(command.arguments.joined(separator: " ")): \(exit.inWords): \(errors)")
    }
    return output
  }

  /// The same as text.
  static func text(_ program: String, _ arguments: String..., loop: EventLoop) async throws -> String {
    String(decoding: try await run(Subprocess.Command(program, arguments), loop), as: UTF8.self)
  }

  /// Sets controls: `disconnect=1`.
  static func control(_ node: String, _ settings: String..., loop: EventLoop) async throws {
    try await run("v4l2-ctl", "-d", node, "-c", settings.joined(separator: ","), loop: loop)
  }

  /// The nth of vivid's cameras, drawing a still picture without text.
  static func vivid(_ index: Int, _ cameras: Cameras) async throws -> CameraDevice {
    let found = try await cameras.find().devices.filter { device in
      if case .v4l2(_, "vivid") = device.origin { true } else { false }
    }
    let device = try #require(found.indices.contains(index) ? found[index] : nil, "vivid is not there")
    // Once each, for a program's start takes a third of a second here: a test that turns another knob turns it back.
    if stills.withLock({ $0.insert(device.node!).inserted }) {
      try await control(
        device.node!, "test_pattern=0", "osd_text_mode=2", "horizontal_movement=3", "vertical_movement=3",
        loop: cameras.loop)
    }
    return device
  }

  private static let stills = Lock<Set<String>>([])

  /// What the fixed pattern looks like as `v4l2-ctl` reads it: the bytes of one frame.
  static func reference(_ device: CameraDevice, _ format: FrameFormat, loop: EventLoop) async throws -> [UInt8] {
    let file = "/tmp/reference-\(getpid()).raw"
    defer { unlink(file) }
    try await run(
      "v4l2-ctl", "-d", device.node!,
      "--set-fmt-video=width=\(format.size.width),height=\(format.size.height),pixelformat=\(format.pixels.padded)",
      "--stream-mmap", "--stream-count=1", "--stream-to=\(file)", loop: loop)
    return try Files.read(file, limit: 64 << 20)
  }
}

extension PixelFormat {
  /// Four characters, spaces and all, as v4l2-ctl wants them.
  var padded: String { description + String(repeating: " ", count: 4 - description.count) }

  /// What ffmpeg calls it; nil when it does not have it. Those that it only writes are rearranged for it by `planar`.
  var ffmpeg: String? {
    let names = [
      "YUYV": "yuyv422", "UYVY": "uyvy422", "YVYU": "yvyu422", "NV12": "nv12", "NV21": "nv21", "NV16": "yuv422p",
      "NV61": "yuv422p", "YV12": "yuv420p",
      "YU12": "yuv420p", "RGB3": "rgb24", "BGR3": "bgr24", "GREY": "gray", "RGBP": "rgb565le", "RGBO": "rgb555le",
      "RGB4": "0rgb", "BGR4": "bgr0", "XR24": "bgr0", "AR24": "bgr0", "BX24": "0rgb", "BA24": "0rgb",
      "BA81": "bayer_bggr8", "GBRG": "bayer_gbrg8", "GRBG": "bayer_grbg8", "RGGB": "bayer_rggb8",
    ]
    return names[description]
  }
}

extension Frame {
  /// Its bytes in the order of what ffmpeg calls it.
  var planar: [UInt8] {
    let area = size.area
    switch format.pixels {
    case .nv16, .nv61:
      let first = stride(from: area, to: 2 * area, by: 2).map { bytes[$0] }
      let second = stride(from: area + 1, to: 2 * area, by: 2).map { bytes[$0] }
      return bytes[..<area] + (format.pixels == .nv16 ? first + second : second + first)
    case .yv12: return Array(bytes[..<area] + bytes[(area * 5 / 4)..<(area * 3 / 2)] + bytes[area..<(area * 5 / 4)])
    default: return bytes
    }
  }
}

/// Writes JPEGs to a v4l2loopback device, as a camera that shows them.
final class Feeder: Sendable {
  static let node = "/dev/video40"
  private let flag = StopFlag()
  private let isOver = Lock(false)

  /// Shows `frames` in turn, again and again.
  convenience init(_ frames: [[UInt8]], size: Size, rate: Double = 15) throws {
    let index = Lock(0)
    try self.init(size: size, rate: rate) { _ in
      index.withLock { index in
        index += 1
        return frames[(index - 1) % frames.count]
      }
    }
  }

  /// Shows what `frame` gives for each moment (nanoseconds of the monotonic clock), from then on.
  init(size: Size, rate: Double, frame: @escaping @Sendable (UInt64) -> [UInt8]) throws {
    let descriptor = open(Self.node, O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open \(Self.node)", code: errno) }
    var format = v4l2_format()
    format.type = V4L2_BUF_TYPE_VIDEO_OUTPUT.rawValue
    format.fmt.pix.width = UInt32(size.width)
    format.fmt.pix.height = UInt32(size.height)
    format.fmt.pix.pixelformat = PixelFormat.mjpeg.rawValue
    format.fmt.pix.field = V4L2_FIELD_NONE.rawValue
    format.fmt.pix.sizeimage = 4 << 20
    let code = cv4l2_s_fmt(descriptor, &format)
    guard code == 0 else {
      close(descriptor)
      throw SystemError("set the format of \(Self.node)", code: -code)
    }
    // Who begins to stream is its writer and gives it back when it closes; who only writes leaves it without any capability.
    var kind = Int32(format.type)
    let streams = cv4l2_streamon(descriptor, &kind)
    guard streams == 0 else {
      close(descriptor)
      throw SystemError("write to \(Self.node)", code: -streams)
    }
    let isStarted = startThread(name: "feeder") { [flag, isOver] in
      while !flag.sleep(.nanoseconds(Int64(1e9 / rate))) {
        let next = frame(Monotonic.nanoseconds())
        _ = write(descriptor, next, next.count)
      }
      close(descriptor)
      isOver.withLock { $0 = true }
    }
    #expect(isStarted)
  }

  func end() async {
    flag.raise()
    while !isOver.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(2)) }
  }
}
