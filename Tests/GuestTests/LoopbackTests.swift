import System
import TestSupport
import Testing

@testable import Camera

extension SecondLane {
  /// MJPEG as USB cameras send it, through v4l2loopback.
  struct LoopbackTests {
    @Test("what is plugged in later is there without more ado, and gone when it is gone")
    func hotPlug() async throws {
      let loop = EventLoop(name: "guest")
      defer { loop.stop() }
      let cameras = Cameras(settings: CameraSettings(), loop: loop)
      #expect(try await cameras.find().devices.allSatisfy { $0.node != Feeder.node })
      let feeder = try Feeder([try Files.read(GuestSamples.path("whole.jpg"))], size: Size(320, 240))
      #expect(await eventually { (try? await cameras.device(Feeder.node)) != nil })
      await feeder.end()
      #expect(await eventually { (try? await cameras.device(Feeder.node)) == nil })
      await cameras.close()
    }

    @Test("a camera's own JPEG is passed on byte for byte; one without tables is completed; damage is passed over")
    func mjpeg() async throws {
      let loop = EventLoop(name: "guest")
      defer { loop.stop() }
      let whole = try Files.read(GuestSamples.path("whole.jpg"))
      let bare = try Files.read(GuestSamples.path("no-tables.jpg"))
      let cut = try Files.read(GuestSamples.path("truncated.jpg"))
      for (frames, expected) in [([whole], whole), ([cut, bare], try JPEGRepair(bare).bytes)] {
        let feeder = try Feeder(frames, size: Size(320, 240))
        let cameras = Cameras(settings: CameraSettings(), loop: loop)
        #expect(await eventually { (try? await cameras.device(Feeder.node)) != nil })
        let picture = try await cameras.snap(SnapRequest(device: Feeder.node, delay: .zero))
        #expect(picture.isPassedThrough && picture.source.pixels == .mjpeg)
        let place = zip(picture.bytes, expected).enumerated().first { $0.element.0 != $0.element.1 }?.offset
        #expect(
          picture.bytes.count == expected.count && place == nil,
          "\(picture.bytes.count) bytes are not \(expected.count): \(place ?? -1)")
        await cameras.close()
        await feeder.end()
      }
    }

    @Test("a camera that lies about its size is believed by its pictures")
    func lies() async throws {
      let loop = EventLoop(name: "guest")
      defer { loop.stop() }
      let feeder = try Feeder([try Files.read(GuestSamples.path("whole.jpg"))], size: Size(640, 480))
      let cameras = Cameras(settings: CameraSettings(), loop: loop)
      #expect(await eventually { (try? await cameras.device(Feeder.node)) != nil })
      let picture = try await cameras.snap(SnapRequest(device: Feeder.node, delay: .zero))
      #expect(picture.size == Size(320, 240) && picture.source.size == Size(640, 480))
      await cameras.close()
      await feeder.end()
    }

    @Test("a camera that only ever sends half a picture is an error")
    func onlyDamaged() async throws {
      let loop = EventLoop(name: "guest")
      defer { loop.stop() }
      let feeder = try Feeder([try Files.read(GuestSamples.path("truncated.jpg"))], size: Size(320, 240))
      let cameras = Cameras(settings: CameraSettings(), loop: loop)
      #expect(await eventually { (try? await cameras.device(Feeder.node)) != nil })
      let error = await failure { () throws(CameraError) in
        try await cameras.snap(SnapRequest(device: Feeder.node, delay: .zero))
      }
      #expect(error?.code == .damaged)
      await cameras.close()
      await feeder.end()
    }
  }
}
