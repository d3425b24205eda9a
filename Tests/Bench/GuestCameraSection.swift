import Camera
import GatewayProtocol
import Glibc
import System

/// Real drivers, in the guest of `make bench-vm`: a picture as an agent asks for it, beside what others need for one of the same camera at the
/// same size. Everything there is emulated and many times slower than here: it is the relations that tell.
extension Section {
  static let guestCamera = Section(name: "guest-camera") { options in
    let loop = EventLoop(name: "camera")
    defer { loop.stop() }
    let cameras = Cameras(settings: CameraSettings(), loop: loop)
    let found = try await cameras.find().devices.first { device in
      if case .v4l2(_, "vivid") = device.origin { true } else { false }
    }
    guard let device = found, let node = device.node else { throw BenchError("vivid's camera is not there") }
    var figures = try await openings(options, cameras, device)
    let encode = figures.removeLast()
    figures += try await snaps(options, node, encode: encode.value ?? 0) + [encode]
    figures.append(try await listing(options))
    await cameras.close()
    return figures
  }

  private static let size = Size(640, 480)

  /// From the wish for frames to the first; what encoding one costs, last.
  private static func openings(
    _ options: Options, _ cameras: Cameras, _ device: CameraDevice
  ) async throws -> [Figure] {
    var first = Samples()
    var encode = Samples()
    var interval = 0.0
    for _ in 0..<options.times(30) {
      let began = Monotonic.now()
      let frames = try await cameras.frames(
        of: device, CaptureWish(.picture, width: size.width, formats: [PixelFormat.yuyv]))
      guard let frame = try await frames.next() else { throw BenchError("the camera gives no frame") }
      first.add((Monotonic.now() - began).milliseconds)
      guard frame.size == size else { throw BenchError("the camera delivers \(frame.size), not \(size)") }
      interval = 1000 / (frames.format.rate ?? 30)
      frames.end()
      let encoding = Monotonic.now()
      _ = try Picture.make(of: frame, Picture.Limits(width: size.width))
      encode.add((Monotonic.now() - encoding).milliseconds)
    }
    var figure = figure("first frame of a camera", first, target: .atMost(2 * interval + 30))
    figure.note = "\(figure.note ?? ""); a frame each \(Report.text(interval, "ms"))"
    return [figure, Self.figure("frame of \(size) to JPEG, in it", encode)]
  }

  /// The whole way: operator, gateway, node, driver and back. In turns with the others, so that whatever else the machine does meets all alike.
  private static func snaps(_ options: Options, _ node: String, encode: Double) async throws -> [Figure] {
    let bed = try await TestBed(options, allow: ["camera.snap"])
    defer { withExtendedLifetime(bed) {} }
    do {
      _ = try Child.milliseconds(options.program, ["capabilities", "enable", "camera", "--state", bed.state])
      let id = try await bed.startNode(awaiting: "camera.snap")
      let client = try await bed.makeOperator()
      let picture = bed.folder + "/picture.jpg"
      let (width, height) = (String(size.width), String(size.height))
      let params: JSON = ["deviceId": .string(node), "maxWidth": .int(Int64(size.width)), "delayMs": 0]
      var times: [String: Samples] = [:]
      for round in 0...options.times(30) {
        func add(_ name: String, _ time: Double) {
          // What is loaded for the first time comes from the disk.
          if round > 0 { times[name, default: Samples()].add(time) }
        }
        let began = Monotonic.now()
        let answer = try await client.request("node.invoke", Operator.invoke("camera.snap", of: id, params))
        add("snap", (Monotonic.now() - began).milliseconds)
        if answer["ok"]?.bool == false { throw BenchError("no picture: \(answer.text.prefix(300))") }
        add(
          "v4l2-ctl",
          try Child.milliseconds(
            "v4l2-ctl",
            [
              "-d", node, "--set-fmt-video=width=\(width),height=\(height),pixelformat=YUYV", "--stream-mmap",
              "--stream-count=1", "--stream-to=\(picture)",
            ]))
        // These take seconds, so fewer of them.
        if round > options.times(10) { continue }
        add(
          "fswebcam",
          try Child.milliseconds(
            "fswebcam",
            ["-q", "-d", node, "-r", "\(width)x\(height)", "-S", "0", "--no-banner", "--jpeg", "90", picture]))
        add(
          "ffmpeg",
          try Child.milliseconds(
            "ffmpeg",
            [
              "-v", "error", "-y", "-f", "v4l2", "-video_size", "\(width)x\(height)", "-i", node, "-frames:v", "1",
              picture,
            ]))
        add("ffmpeg's start", try Child.milliseconds("ffmpeg", ["-v", "error", "-version"]))
      }
      let memory = try Machine.mostMemory(of: bed.process)
      await client.close()
      await bed.close()
      let floor = times["v4l2-ctl"]?.median ?? 0
      var snap = figure("camera.snap of \(size), an invoke", times["snap"], target: .atMost(floor + encode))
      snap.comparison = ("v4l2-ctl's one raw frame", floor)
      return [snap]
        + [
          ("v4l2-ctl --stream-count=1", "v4l2-ctl"), ("fswebcam", "fswebcam"),
          ("ffmpeg -f v4l2 … -frames:v 1", "ffmpeg"), ("ffmpeg's start alone", "ffmpeg's start"),
        ].map { figure($0.0, times[$0.1]) }
        + [Figure("most memory of the node", unit: "MB", value: memory, note: "pictures of \(size)")]
    } catch {
      await bed.close()
      throw error
    }
  }

  private static func figure(_ name: String, _ samples: Samples?, target: Figure.Target? = nil) -> Figure {
    guard let samples else { return Figure(name, unit: "ms", problem: "not measured") }
    var figure = Figure(name, unit: "ms", value: samples.median, target: target)
    figure.note = "95 % within \(Report.text(samples.quantile(0.95), "ms"))"
    return figure
  }
}
