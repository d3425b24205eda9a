import Glibc
import System
import TestSupport
import Testing

@testable import Camera

/// Which of a camera's formats and sizes is asked for.
@Suite struct FormatChoiceTests {
  private func modes(_ text: String) -> [CaptureMode] {
    text.split(separator: " ").map { word in
      // MJPG@1280x720/30
      let parts = word.split(whereSeparator: { "@x/".contains($0) })
      let rate = parts.count > 3 ? Double(parts[3]) : nil
      return CaptureMode(PixelFormat(String(parts[0]))!, Size(Int(parts[1])!, Int(parts[2])!), rate: rate)
    }
  }

  private func best(_ text: String, _ wish: CaptureWish) -> String {
    guard let mode = FormatChoice.order(modes(text), for: wish).first else { return "none" }
    return "\(mode.pixels)@\(mode.size!.width)x\(mode.size!.height)"
  }

  @Test(
    "a picture: MJPEG at or above the width, else the best raw, the smallest that is large enough",
    arguments: [
      ("MJPG@640x480 MJPG@1600x1200 MJPG@1920x1080 YUYV@640x480", 1600, "MJPG@1600x1200"),
      ("MJPG@640x480 MJPG@1920x1080 MJPG@3840x2160 YUYV@1920x1080", 1600, "MJPG@1920x1080"),
      ("MJPG@1600x900 MJPG@1600x1200 YUYV@1600x1200", 1600, "MJPG@1600x1200"),
      // Too small as MJPEG: raw of the same reach; but more pixels are better whatever the format.
      ("MJPG@1280x720 YUYV@1280x720 YUYV@640x480", 1600, "YUYV@1280x720"),
      ("MJPG@1280x720 YUYV@640x480", 1600, "MJPG@1280x720"),
      ("UYVY@640x480 NV12@640x480 YUYV@640x480 RGB3@640x480", 640, "YUYV@640x480"),
      ("BGR3@640x480 NV21@640x480 YU12@640x480", 640, "NV21@640x480"),
      // Colour before grey, however large; what needs conversion after what does not.
      ("GREY@1920x1080 YUYV@640x480", 1600, "YUYV@640x480"),
      ("GREY@640x480", 1600, "GREY@640x480"),
      ("RGBP@640x480 RGB3@640x480", 640, "RGB3@640x480"),
      ("ZZZZ@1920x1080 RGBP@640x480", 1600, "RGBP@640x480"),
      ("ZZZZ@1920x1080", 1600, "none"),
    ])
  func picture(modes: String, width: Int, expected: String) {
    #expect(best(modes, CaptureWish(.picture, width: width)) == expected)
  }

  @Test(
    "a clip: fluent first, then the largest that is not too wide, as MJPEG where sizes are alike",
    arguments: [
      ("YUYV@1280x720/10 YUYV@640x480/30 MJPG@1280x720/30 MJPG@1920x1080/30", "MJPG@1280x720"),
      ("YUYV@1280x720/10 YUYV@640x480/30", "YUYV@640x480"),
      ("YUYV@1280x720/30 MJPG@1280x720/30", "MJPG@1280x720"),
      ("MJPG@1920x1080/30 MJPG@3840x2160/30", "MJPG@1920x1080"),
      ("YUYV@1280x720/5 YUYV@640x480/5", "YUYV@1280x720"),
    ])
  func motion(modes: String, expected: String) {
    #expect(best(modes, CaptureWish(.motion, width: 1280)) == expected)
  }

  @Test("formats that are asked for are tried in that order, and no others; one that is not known falls through")
  func asked() throws {
    let formats = ["ZZZZ", "NV12", "YUYV"].map { PixelFormat($0)! }
    let order = FormatChoice.order(
      modes("YUYV@640x480 NV12@640x480 MJPG@640x480 ZZZZ@640x480"),
      for: CaptureWish(.picture, width: 640, formats: formats))
    #expect(order.map(\.pixels) == [.nv12, .yuyv])
  }

  @Test("a camera that does not say its sizes is asked for what is wanted")
  func unsized() {
    let order = FormatChoice.order(
      [CaptureMode(.yuyv, nil, rate: nil), CaptureMode(.mjpeg, nil, rate: nil)], for: CaptureWish(.picture, width: 800))
    #expect(order.map(\.pixels) == [.mjpeg, .yuyv])
  }

  @Test("four characters are a format, and print as they were")
  func characters() {
    #expect(PixelFormat("Y16")?.description == "Y16")
    #expect(PixelFormat("YUYV") == .yuyv)
    #expect(PixelFormat.yuyv.rawValue == 0x5659_5559)
    #expect(PixelFormat("") == nil && PixelFormat("TOOLONG") == nil)
    #expect(PixelFormat(rawValue: 0).description == "....")
  }
}

// V4L2's numbers, as drivers write them.
private let capture: UInt32 = 0x1
private let output: UInt32 = 0x2
private let m2m: UInt32 = 0x8000
private let meta: UInt32 = 0x80_0000
private let streaming: UInt32 = 0x400_0000

/// Which V4L2 nodes are cameras, and which one is meant.
@Suite struct DeviceTests {
  @Test(
    "a camera captures and streams, and its driver is none of those that only look like one",
    arguments: [
      ("uvcvideo", capture | streaming, NodeFacts.Verdict.camera),
      ("vivid", capture | streaming | 0x20_0000, .camera),
      ("v4l2 loopback", capture | streaming, .camera),
      ("uvcvideo", meta | streaming, .noCamera),
      ("uvcvideo", capture, .noCamera),
      ("vivid", output | streaming, .noCamera),
      ("v4l2 loopback", capture | output | streaming, .noCamera),
      ("bcm2835-codec-decode", m2m | streaming, .noCamera),
      ("bcm2835-codec", capture | streaming, .noCamera), ("bcm2835-isp", capture | streaming, .noCamera),
      ("pispbe", capture | streaming, .noCamera), ("rpivid", capture | streaming, .noCamera),
      ("rpi-hevc-dec", capture | streaming, .noCamera),
      ("unicam", capture | streaming, .needsLibcamera), ("rp1-cfe", capture | streaming, .needsLibcamera),
      ("rp1-cfe", meta | streaming, .noCamera),
    ])
  func verdicts(driver: String, capabilities: UInt32, expected: NodeFacts.Verdict) {
    #expect(NodeFacts(driver: driver, card: "x", capabilities: capabilities).verdict == expected)
  }

  @Test("nodes are in the order of their numbers, and what is no V4L2 node is no camera")
  func order() async throws {
    let folder = TemporaryFolder()
    for name in ["video10", "video2", "video0", "videox", "video", "vbi0"] { try folder.write(name, "") }
    let list = CameraList(places: CameraPlaces(dev: folder.path))
    #expect(list.nodes() == ["video0", "video2", "video10"].map { folder($0) })
    let places = list.places
    #expect(await list.find(NodeProbes { NodeProbes.Answer(asking: $0, places) }) == CameraList.Findings())
  }

  @Test("a driver that hangs takes no other camera along, is told of by name, and costs one thread until it answers")
  func stuck() async throws {
    let folder = TemporaryFolder()
    for name in ["video0", "video1", "video2", "video3"] { try folder.write(name, "") }
    let list = CameraList(
      places: CameraPlaces(dev: folder.path), sources: [.init(name: "film", kind: .recording(path: "", rate: 1))])
    let hangs = Lock(true)
    let asked = Lock(0)
    let probes = NodeProbes(limit: .seconds(3)) { [stuck = folder("video1"), denied = folder("video2")] node in
      if node == denied { return .notPermitted }
      if node == stuck {
        asked.withLock { $0 += 1 }
        while hangs.withLock({ $0 }) { usleep(10_000) }
      }
      return .camera(name: "Cam \(node.suffix(1))", driver: "test")
    }
    for _ in 0..<3 {
      let found = await list.find(probes)
      #expect(found.devices.map(\.name) == ["Cam 0", "Cam 3", "film"])
      #expect(found.denied == [folder("video2")] && found.stuck == [folder("video1")])
      #expect(try found.device(nil).node == folder("video0"))
      let error = await failure { () throws(CameraError) in try found.device(folder("video1")) }
      #expect(error?.code == .stuck && error?.summary.contains(folder("video1")) == true)
    }
    #expect(asked.withLock { $0 } == 1)
    hangs.withLock { $0 = false }
    #expect(await eventually { await list.find(probes).devices.count == 4 })
    // Two who look at the same time ask once.
    asked.withLock { $0 = 0 }
    hangs.withLock { $0 = true }
    async let one = list.find(probes)
    async let two = list.find(probes)
    #expect(await eventually { asked.withLock { $0 } == 1 })
    hangs.withLock { $0 = false }
    #expect(await one.devices.count == 4)
    #expect(await two.devices.count == 4)
  }

  @Test("an id must be one of the list; the settings may name a part of a name; nothing means the first")
  func chosen() async throws {
    var findings = CameraList.Findings()
    findings.devices = [
      CameraDevice(id: "/dev/v4l/by-id/a", name: "HD Webcam", origin: .v4l2(node: "/dev/video0", driver: "uvcvideo")),
      CameraDevice(id: "/dev/video2", name: "Document Camera", origin: .v4l2(node: "/dev/video2", driver: "uvcvideo")),
    ]
    #expect(try findings.device(nil).name == "HD Webcam")
    #expect(try findings.device("/dev/v4l/by-id/a").name == "HD Webcam")
    #expect(try findings.device("/dev/video0").name == "HD Webcam")
    #expect(try findings.device("document", isPreference: true).name == "Document Camera")
    for id in ["document", "/dev/video9"] {
      let error = await failure { () throws(CameraError) in try findings.device(id) }
      #expect(error?.code == .unknownCamera)
    }
    for (id, why) in [("cam", "fits several: HD Webcam, Document Camera"), ("zzz", "is not there")] {
      let error = await failure { () throws(CameraError) in try findings.device(id, isPreference: true) }
      #expect(error?.code == .preferenceAbsent)
      #expect(error?.summary.contains("camera.device in the settings") == true && error?.summary.contains(why) == true)
    }
  }

  @Test("a driver's time counts when the monotonic clock may have said it, and no number of its is too large")
  func stamps() {
    let now: UInt64 = 5_000_000_000_000
    func credible(_ seconds: Int, _ microseconds: Int) -> UInt64? {
      V4L2Stream.credible(timeval(tv_sec: seconds, tv_usec: microseconds), now: now)
    }
    #expect(credible(4999, 999_000) == 4_999_999_000_000)
    #expect(credible(5000, 4_000) == 5_000_004_000_000)
    for (seconds, microseconds) in [
      (0, 0), (-1, 0), (4980, 0), (5000, 6_000), (5002, 0), (4999, -1), (4999, 1_000_000), (4999, .max), (.max, .max),
      (.max, 0), (.min, .min), (18_446_744_074, 0), (1_700_000_000, 0),
    ] {
      #expect(credible(seconds, microseconds) == nil, "\(seconds) \(microseconds)")
    }
  }

  @Test("no camera is told with what to do: permission, libcamera, or nothing there")
  func absent() async {
    var findings = CameraList.Findings()
    #expect(findings.absence.code == .noCamera)
    findings.needingLibcamera = ["/dev/video0"]
    #expect(findings.absence.remedy?.contains("share/talknode/recipes") == true)
    findings.denied = ["/dev/null"]
    #expect(findings.absence.code == .notPermitted)
    // Also when there are others, for the one that was asked for.
    findings.devices = [CameraDevice(id: "other", name: "other", origin: .recording)]
    let refusal = await failure { () throws(CameraError) in try findings.device("/dev/null") }
    #expect(refusal?.code == .notPermitted)
    #expect(findings.absence.remedy?.hasPrefix("sudo usermod -aG ") == true)
  }

  @Test("a busy camera names the process that holds it")
  func holder() async throws {
    let folder = TemporaryFolder()
    try folder.write("video0", "")
    let loop = EventLoop(name: "holder")
    defer { loop.stop() }
    let process = try await Subprocess.start(
      Subprocess.Command("sh", ["-c", "exec 3<\(folder("video0")); echo ready; exec sleep 60"]), loop: loop)
    _ = try await process.readLine()
    let found = await eventually { DeviceHolder.of(folder("video0")).first?.name == "sleep" }
    #expect(found)
    #expect(DeviceHolder.of(folder("video0")).map(\.pid) == [process.processID])
    let error = V4L2Device.failure(EBUSY, folder("video0"), "opened", CameraPlaces())
    #expect(error.code == .busy)
    #expect(error.summary.contains("sleep (pid \(process.processID))"))
    await process.end()
  }
}

/// Turning and zooming.
@Suite struct PTZTests {
  private func controls(_ value: Int = 0) -> PTZControls {
    PTZControls(controls: [
      PTZControl(
        kind: .absolute(.pan), minimum: -36000, maximum: 36000, step: 3600, standard: 0, value: value, canWrite: true),
      PTZControl(
        kind: .relative(.tilt), minimum: -3600, maximum: 3600, step: 1, standard: 0, value: nil, canWrite: true),
      PTZControl(
        kind: .absolute(.zoom), minimum: 100, maximum: 500, step: 1, standard: 100, value: 200, canWrite: true),
    ])
  }

  @Test("arc-seconds are degrees, zoom is a share of its range, and only axes that exist are told")
  func state() {
    let state = controls(7200).state
    #expect(state.axes.map(\.axis) == [.pan, .tilt, .zoom])
    #expect(state.axes[0].current == 2 && state.axes[0].minimum == -10 && state.axes[0].step == 1)
    #expect(!state.axes[1].canSet && state.axes[1].canMove && state.axes[1].maximum == 1)
    #expect(state.axes[2].current == 25 && state.axes[2].unit == "percent" && state.axes[2].maximum == 100)
    #expect(state.canHome)
    #expect(PTZControls(controls: []).state.axes.isEmpty)
  }

  @Test("what lies beyond the range is clamped and told, what lies between steps goes to the nearest")
  func planned() throws {
    let (writes, adjusted) = try controls().plan(.set([.pan: 4.4, .zoom: 200]))
    #expect(writes == [.init(kind: .absolute(.pan), value: 14400), .init(kind: .absolute(.zoom), value: 500)])
    #expect(adjusted == [.zoom])
    let moved = try controls(32400).plan(.move([.pan: 5, .tilt: -0.5]))
    #expect(moved.writes == [.init(kind: .absolute(.pan), value: 36000), .init(kind: .relative(.tilt), value: -1800)])
    #expect(moved.adjusted == [.pan])
    #expect(try controls().plan(.home).writes.map(\.value) == [0, 100])
  }

  @Test("an axis that is not there, or can only be moved, is refused by name")
  func refused() async {
    let noAxes = await failure { () throws(CameraError) in try PTZControls(controls: []).plan(.home) }
    #expect(noAxes?.code == .ptzUnsupported)
    let onlyMoved = await failure { () throws(CameraError) in try controls().plan(.set([.tilt: 1])) }
    #expect(onlyMoved?.code == .ptzAxisUnsupported)
    #expect(onlyMoved?.summary.contains("only be moved") == true)
    var panOnly = controls()
    panOnly.controls.removeLast()
    let noZoom = await failure { () throws(CameraError) in try panOnly.plan(.move([.zoom: 1])) }
    #expect(noZoom?.summary == "This camera has no zoom.")
  }
}
