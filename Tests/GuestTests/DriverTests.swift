import Glibc
import System
import TestSupport
import Testing

@testable import Camera

extension SecondLane {
  /// Real V4L2 drivers, in the guest.
  struct DriverTests {

    @Test("of all the nodes only the cameras are listed: no outputs, no metadata, no loopback that nobody feeds")
    func list() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let found = try await cameras.find()
      // That one may be fed by the tests beside these.
      let devices = found.devices.filter { $0.node != Feeder.node }
      let nodes = Files.list("/dev").filter { $0.hasPrefix("video") }
      #expect(nodes.count > found.devices.count)
      #expect(found.denied.isEmpty && found.needingLibcamera.isEmpty)
      #expect(devices.count == GuestCamera.count)
      for device in devices {
        let node = try #require(device.node)
        guard case .v4l2(_, "vivid") = device.origin else {
          Issue.record("\(device) is not vivid's")
          continue
        }
        let told = String(
          decoding: try await GuestCamera.run("v4l2-ctl", "-d", node, "--info", loop: loop), as: UTF8.self)
        let own = told.split(separator: "Device Caps").last ?? ""
        #expect(own.contains("Video Capture") && !own.contains("Video Output"), "\(told)")
      }
      await cameras.close()
    }

    @Test("a format that nobody reads falls through to the next")
    func fallsThrough() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(0, cameras)
      let offered = try V4L2Device(device.node!, places: CameraPlaces()).formats()
      let unread = try #require(offered.first { !FormatChoice.isReadable($0) }, "vivid offers nothing unusual")
      let picture = try await cameras.snap(
        SnapRequest(device: device.id, limits: Picture.Limits(width: 320), delay: .zero, formats: [unread, .uyvy]))
      #expect(picture.source.pixels == .uyvy)
      let error = await failure { () throws(CameraError) in
        try await cameras.snap(SnapRequest(device: device.id, formats: [unread]))
      }
      #expect(error?.code == .formatUnsupported)
      await cameras.close()
    }

    @Test("times are the frames' own, on the monotonic clock")
    func times() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(0, cameras)
      let before = Monotonic.nanoseconds()
      let frames = try await cameras.frames(of: device, CaptureWish(.motion, width: 320))
      var last: UInt64 = 0
      for _ in 0..<5 {
        let frame = try #require(try await frames.next())
        #expect(frame.atNs > last && frame.atNs >= before && frame.atNs <= Monotonic.nanoseconds())
        last = frame.atNs
      }
      frames.end()
      await cameras.close()
    }

    @Test("two at once, and one while somebody films, share one opening")
    func shared() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(0, cameras)
      let film = try await cameras.frames(of: device, CaptureWish(.motion, width: 320))
      let small = Picture.Limits(width: 160)
      async let one = cameras.snap(SnapRequest(device: device.id, limits: small))
      async let two = cameras.snap(SnapRequest(device: device.id, limits: small))
      #expect(try await one.size.width == 160)
      #expect(try await two.size.width == 160)
      film.end()
      await cameras.close()
    }

    // MARK: Trouble

    @Test("a camera that another program holds is busy, and the program is named")
    func busy() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(1, cameras)
      let other = try await Subprocess.start(
        Subprocess.Command("v4l2-ctl", ["-d", device.node!, "--stream-mmap", "--stream-count=100000"]), loop: loop)
      // It says so for each frame it has.
      #expect(await eventually { await other.errorOutput.contains("<") })
      var error: CameraError?
      #expect(
        await eventually {
          error = await failure { () throws(CameraError) in
            try await cameras.snap(SnapRequest(device: device.id, delay: .zero))
          }
          return error?.code == .busy
        })
      #expect(error?.summary.contains("v4l2-ctl (pid \(other.processID))") == true, "\(error?.summary ?? "")")
      await other.end()
      // And free again when it has gone.
      #expect(
        await eventually {
          (try? await cameras.snap(SnapRequest(device: device.id, limits: Picture.Limits(width: 160), delay: .zero)))
            != nil
        })
      await cameras.close()
    }

    @Test("a stream that can't be started is tried another way")
    func streamon() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(1, cameras)
      for error in ["inject_vidioc_streamon_error=1", "inject_vidioc_reqbufs_error=1"] {
        try await GuestCamera.control(device.node!, error, loop: loop)
        let picture = try await cameras.snap(
          SnapRequest(device: device.id, limits: Picture.Limits(width: 320), delay: .zero))
        #expect(picture.size.width == 320)
      }
      await cameras.close()
    }

    @Test("frames that the driver marks as damaged are passed over, and lost ones waited for")
    func marked() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(1, cameras)
      let frames = try await cameras.frames(of: device, CaptureWish(.motion, width: 320))
      _ = try await frames.next()
      try await GuestCamera.control(device.node!, "inject_v4l2_buf_flag_error=1", loop: loop)
      var isMarked = false
      for _ in 0..<60 where !isMarked { isMarked = try await frames.next()?.isMarkedDamaged == true }
      #expect(isMarked)
      let picture = try await cameras.snap(SnapRequest(device: device.id, limits: Picture.Limits(width: 160)))
      #expect(picture.size.width == 160)
      frames.end()
      try await GuestCamera.control(device.node!, "percentage_of_dropped_buffers=60", loop: loop)
      let sparse = try await cameras.snap(
        SnapRequest(device: device.id, limits: Picture.Limits(width: 160), delay: .zero))
      #expect(sparse.size.width == 160)
      try await GuestCamera.control(device.node!, "percentage_of_dropped_buffers=0", loop: loop)
      await cameras.close()
    }

    @Test("no frame for 3 s is an error, not a hang")
    func starved() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(1, cameras)
      try await GuestCamera.control(device.node!, "percentage_of_dropped_buffers=100", loop: loop)
      let error = await failure { () throws(CameraError) in
        try await cameras.snap(SnapRequest(device: device.id, delay: .zero))
      }
      #expect(error?.code == .stuck)
      try await GuestCamera.control(device.node!, "percentage_of_dropped_buffers=0", loop: loop)
      #expect(
        await eventually {
          (try? await cameras.snap(SnapRequest(device: device.id, limits: Picture.Limits(width: 160), delay: .zero)))
            != nil
        })
      await cameras.close()
    }

    @Test("a fatal error of the stream ends it with the reason, and the next picture is there again")
    func fatal() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(1, cameras)
      let frames = try await cameras.frames(of: device, CaptureWish(.motion, width: 320))
      _ = try await frames.next()
      try await GuestCamera.control(device.node!, "inject_fatal_streaming_error=1", loop: loop)
      let error = await failure { () throws(CameraError) in
        while try await frames.next() != nil {}
      }
      #expect(
        error?.code == .stuck && error?.summary.contains("stopped streaming") == true, "\(String(describing: error))")
      let picture = try await cameras.snap(
        SnapRequest(device: device.id, limits: Picture.Limits(width: 160), delay: .zero))
      #expect(picture.size.width == 160)
      await cameras.close()
    }

    @Test("a camera without motors can't be turned")
    func ptz() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(0, cameras)
      #expect(await failure { () throws(CameraError) in try await cameras.ptz(of: device) }?.code == .ptzUnsupported)
      await cameras.close()
    }

    @Test("pulled out in mid-capture, the reader is told at once; the camera is gone until it is plugged in again")
    func unplugged() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(2, cameras)
      // vivid plugs itself in again when nobody has it open any more.
      let hand = open(device.node!, O_RDWR | O_CLOEXEC)
      #expect(hand >= 0)
      let frames = try await cameras.frames(of: device, CaptureWish(.motion, width: 320))
      _ = try await frames.next()
      try await GuestCamera.control(device.node!, "disconnect=1", loop: loop)
      let error = await failure { () throws(CameraError) in
        while try await frames.next() != nil {}
      }
      #expect(error?.code == .unplugged, "\(String(describing: error))")
      let request = SnapRequest(device: device.id, limits: Picture.Limits(width: 160), delay: .zero)
      let after = await failure { () throws(CameraError) in try await cameras.snap(request) }
      #expect(after?.code == .unplugged || after?.code == .unknownCamera, "\(String(describing: after))")
      close(hand)
      #expect(await eventually { (try? await cameras.snap(request)) != nil }, "it is not there again")
      await cameras.close()
    }
  }
}

enum GuestSamples {
  static func path(_ name: String) -> String {
    String(#filePath).split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/samples/camera/" + name
  }
}
