import Camera
import CameraModule
import GatewayProtocol
import Glibc
import NodeKit
import System

/// What a picture costs from a driver, in the guest of Tests/Guest, whose kernel has cameras: `camera.snap` as an invoke beside the programs
/// that others would run for it, on the same device at the same size, by turns. Elsewhere it measures nothing.
extension Section {
  static let cameraDriver = Section(name: "camera-driver") { options in
    guard getenv("TALKNODE_GUEST") != nil else { return [] }
    let loop = EventLoop(name: "camera")
    defer { loop.stop() }
    let cameras = Cameras(settings: CameraSettings(), loop: loop)
    guard let device = try await cameras.find().devices.first, let node = device.node else {
      throw BenchError("this machine has no camera")
    }
    var figures = try await snaps(options, cameras, device.id, node, loop)
    figures += try await firstFrame(options, cameras, device)
    figures.append(try await list(options, cameras))
    await cameras.close()
    return figures
  }

  private static let width = 640

  private static func snaps(
    _ options: Options, _ cameras: Cameras, _ id: String, _ node: String, _ loop: EventLoop
  ) async throws -> [Figure] {
    let folder = "/tmp/talknode-bench-camera"
    try Files.makeFolder(folder)
    defer { try? Files.removeTree(folder) }
    try Files.writeAtomically(Array(#"{"camera":true}"#.utf8), to: folder + "/switches.json")
    let module = CameraModule(cameras: cameras, sound: nil) { () throws(CameraError) in EncoderProcess(loop: loop) }
    let router = CommandRouter(
      modules: [module], switches: SwitchStore(path: folder + "/switches.json"),
      audit: AuditLog(path: folder + "/audit.jsonl"), loop: loop)
    await router.start()
    let params = #"{"deviceId":"\#(id)","maxWidth":\#(width),"delayMs":0}"#
    var (snap, settled, bare, fswebcam, ffmpeg, start) = (
      Samples(), Samples(), Samples(), Samples(), Samples(), Samples()
    )
    func ask(_ params: String, _ number: Int) async throws -> Double {
      let began = Monotonic.now()
      let outcome = await router.handle(
        InvokeRequest(
          id: "\(number)", nodeID: "bench", command: "camera.snap", paramsText: Array(params.utf8), timeoutMs: 30_000),
        from: .local, payloadLimit: 25 << 20)
      guard case .success = outcome else { throw BenchError("camera.snap: \(outcome)") }
      return (Monotonic.now() - began).milliseconds
    }
    func run(_ words: String...) async throws -> Double {
      let began = Monotonic.now()
      let process = try await Subprocess.start(Subprocess.Command(words[0], Array(words.dropFirst())), loop: loop)
      await process.closeInput()
      while await process.read() != nil {}
      let exit = await process.waitForExit()
      guard exit.isSuccess else { throw BenchError("\(words[0]): \(exit.inWords): \(await process.errorOutput)") }
      return (Monotonic.now() - began).milliseconds
    }
    let size = "\(width)x480"
    for number in 0..<(options.times(20) + 1) {
      let own = try await ask(params, 2 * number)
      let calm = try await ask(#"{"deviceId":"\#(id)","maxWidth":\#(width)}"#, 2 * number + 1)
      let floor = try await run(
        "v4l2-ctl", "-d", node, "--set-fmt-video=width=\(width),height=480,pixelformat=YUYV", "--set-parm=30",
        "--stream-mmap", "--stream-count=1")
      let web = try? await run("fswebcam", "-d", node, "-r", size, "--no-banner", folder + "/fswebcam.jpg")
      let media = try? await run(
        "ffmpeg", "-loglevel", "error", "-f", "v4l2", "-video_size", size, "-i", node, "-frames:v", "1", "-y",
        folder + "/ffmpeg.jpg")
      let alone = try? await run("ffmpeg", "-version")
      // The first round reads the programs from the disk.
      if number == 0 { continue }
      snap.add(own)
      settled.add(calm)
      bare.add(floor)
      if let web { fswebcam.add(web) }
      if let media { ffmpeg.add(media) }
      if let alone { start.add(alone) }
    }
    await router.stop()
    func pair(_ name: String, _ samples: Samples, _ note: String? = nil) -> [Figure] {
      guard !samples.values.isEmpty else { return [Figure(name, unit: "ms", problem: "it is not installed")] }
      return [
        Figure("\(name), median", unit: "ms", value: samples.median, note: note),
        Figure("\(name), 95 of 100", unit: "ms", value: samples.quantile(0.95)),
      ]
    }
    var own = pair("camera.snap of the first frame", snap, "\(width) × 480 YUYV, as an invoke, with encoding")
    for (index, fraction) in [0.5, 0.95].enumerated() {
      let floor = bare.quantile(fraction)
      own[index].target = .atMost(floor)
      own[index].comparison = ("v4l2-ctl, one raw frame", floor)
    }
    return own + pair("camera.snap when the exposure rests", settled) + pair("v4l2-ctl", bare)
      + pair("fswebcam", fswebcam) + pair("ffmpeg", ffmpeg) + pair("ffmpeg -version, its start alone", start)
  }

  /// From the request to the first frame, against the time between frames.
  private static func firstFrame(
    _ options: Options, _ cameras: Cameras, _ device: CameraDevice
  ) async throws -> [Figure] {
    var (first, between) = (Samples(), Samples())
    for _ in 0..<options.times(20) {
      let began = Monotonic.now()
      let frames = try await cameras.frames(of: device, CaptureWish(.motion, width: 320))
      guard let one = try await frames.next() else { throw BenchError("no frame") }
      first.add((Monotonic.now() - began).milliseconds)
      if let two = try await frames.next(), two.sequence == one.sequence + 1 {
        between.add(Double(two.atNs - one.atNs) / 1e6)
      }
      frames.end()
    }
    var figure = Figure("first frame", unit: "ms", value: first.median, target: .atMost(2 * between.median + 30))
    figure.note = "a frame every \(Report.text(between.median, "ms"))"
    return [figure]
  }

  private static func list(_ options: Options, _ cameras: Cameras) async throws -> Figure {
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
