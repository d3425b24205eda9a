import Camera
import GatewayProtocol
import Glibc
import System

/// A picture from a camera of the guest's (vivid), as an agent gets it, beside what other programs take for one from the same camera in the
/// same run. In the guest only: `make bench` runs it there.
extension Section {
  static let guestCamera = Section(name: "camera in the guest") { options in
    let loop = EventLoop(name: "bench cameras")
    defer { loop.stop() }
    let cameras = Cameras(settings: CameraSettings(), loop: loop)
    guard let device = try await cameras.find().devices.first(where: \.isVivid), let node = device.node else {
      throw BenchError("vivid's cameras are not here: it is measured by `make bench`, in the guest")
    }
    let format = try await still(device, node, cameras)
    var figures = try await firstFrame(options, device, format, cameras)
    await cameras.close()
    figures += try await snaps(options, device, node, format)
    return figures
  }

  /// Pictures of this width are asked for.
  private static let width = 640

  /// Makes the picture stand still, and gives what the camera delivers.
  private static func still(
    _ device: CameraDevice, _ node: String, _ cameras: Cameras
  ) async throws -> FrameFormat {
    _ = try Child.milliseconds(
      "v4l2-ctl", ["-d", node, "-c", "test_pattern=0,osd_text_mode=2,horizontal_movement=3,vertical_movement=3"])
    let frames = try await cameras.frames(of: device, CaptureWish(.picture, width: width))
    frames.end()
    await cameras.close()
    return frames.format
  }

  /// From asking for frames to having one, the camera opened for it each time.
  private static func firstFrame(
    _ options: Options, _ device: CameraDevice, _ format: FrameFormat, _ cameras: Cameras
  ) async throws -> [Figure] {
    var times = Samples()
    for _ in 0..<options.times(20) {
      let began = Monotonic.now()
      let frames = try await cameras.frames(of: device, CaptureWish(.picture, width: width))
      _ = try await frames.next()
      times.add((Monotonic.now() - began).milliseconds)
      frames.end()
      await cameras.close()
    }
    let interval = 1000 / (format.rate ?? 30)
    var list = Samples()
    for _ in 0..<options.times(50) {
      let began = Monotonic.now()
      _ = try await cameras.find()
      list.add((Monotonic.now() - began).milliseconds)
    }
    let nodes = Files.list("/dev").filter { $0.hasPrefix("video") }.count
    return [
      Figure(
        "first frame", unit: "ms", value: times.median, target: .atMost(2 * interval + 30),
        note: "\(format); p95 \(Report.text(times.quantile(0.95), "ms"))"),
      Figure(
        "camera list", unit: "ms", value: list.median, target: .atMost(20),
        note: "\(nodes) video nodes; p95 \(Report.text(list.quantile(0.95), "ms"))"),
    ]
  }

  /// `camera.snap` as an invoke, beside programs that take one picture.
  private static func snaps(
    _ options: Options, _ device: CameraDevice, _ node: String, _ format: FrameFormat
  ) async throws -> [Figure] {
    let size = "\(format.size.width)x\(format.size.height)"
    let times = options.times(20)
    func program(_ name: String, _ arguments: [String]) throws -> Samples {
      var samples = Samples()
      // Once for the files, which the guest reads over a wire.
      _ = try Child.milliseconds(name, arguments)
      for _ in 0..<times { samples.add(try Child.milliseconds(name, arguments)) }
      return samples
    }
    let pixels = "\(format.pixels)"
    let floor = try program(
      "v4l2-ctl",
      [
        "-d", node, "--set-fmt-video=width=\(format.size.width),height=\(format.size.height),pixelformat=\(pixels)",
        "--stream-mmap", "--stream-count=1", "--stream-to=/dev/null",
      ])
    let fswebcam = try program("fswebcam", ["-q", "-d", node, "-r", size, "--no-banner", "/tmp/bench.jpg"])
    let ffmpeg = try program(
      "ffmpeg",
      [
        "-loglevel", "error", "-f", "v4l2", "-video_size", size, "-i", node, "-frames:v", "1", "-f", "mjpeg", "-y",
        "/dev/null",
      ])
    let ffmpegStart = try program("ffmpeg", ["-version"])

    let bed = try await TestBed(options, allow: ["camera.snap", "device.info"])
    do {
      try Files.makeFolder(bed.state)
      try Files.writeAtomically(Array(#"{"camera":true}"#.utf8), to: bed.state + "/switches.json")
      let id = try await bed.startNode(awaiting: "camera.snap", settings: "[signs]\nuse = \"none\"")
      let client = try await bed.makeOperator()
      func snap(_ params: JSON) async throws -> Samples {
        var samples = Samples()
        _ = try await client.request("node.invoke", Operator.invoke("camera.snap", of: id, params))
        for _ in 0..<times {
          let began = Monotonic.now()
          _ = try await client.request("node.invoke", Operator.invoke("camera.snap", of: id, params))
          samples.add((Monotonic.now() - began).milliseconds)
        }
        return samples
      }
      let base: [String: JSON] = ["deviceId": .string(device.id), "maxWidth": .int(Int64(width))]
      let quick = try await snap(.object(base.merging(["delayMs": 0]) { $1 }))
      let settled = try await snap(.object(base))
      let memory = try Machine.mostMemory(of: bed.process)
      await client.close()
      await bed.close()
      func figure(_ name: String, _ samples: Samples, _ other: String, _ beside: Samples) -> Figure {
        var figure = Figure(name, unit: "ms", value: samples.median)
        figure.comparison = (other, beside.median)
        figure.note =
          "p95 \(Report.text(samples.quantile(0.95), "ms")) beside \(Report.text(beside.quantile(0.95), "ms"))"
        return figure
      }
      var first = figure("`node.invoke camera.snap`, delayMs 0", quick, "v4l2-ctl, one raw frame", floor)
      first.target = .atMost(floor.median)
      return [
        first, figure("`node.invoke camera.snap`, delayMs 0", quick, "fswebcam", fswebcam),
        figure("`node.invoke camera.snap`, delayMs 0", quick, "ffmpeg", ffmpeg),
        figure("`node.invoke camera.snap`, exposure settled", settled, "ffmpeg's start alone", ffmpegStart),
        Figure("the daemon's most memory after \(2 * times) pictures", unit: "MB", value: memory),
      ]
    } catch {
      await bed.close()
      throw error
    }
  }
}

extension CameraDevice {
  fileprivate var isVivid: Bool {
    if case .v4l2(_, "vivid") = origin { true } else { false }
  }
}
