import CV4L2
import Glibc
import System

/// Frames of a V4L2 device, on a thread of its own: every call into a driver may block.
final class V4L2Source: FrameSource {
  let patience = FramePatience()
  private let node: String
  private let places: CameraPlaces
  private let flag = StopFlag()

  init(node: String, places: CameraPlaces) {
    self.node = node
    self.places = places
  }

  func start(_ wish: CaptureWish, _ sink: FrameSink) {
    let isStarted = startThread(name: "camera") { [node, places, flag] in
      // Told when the device is closed again, so that who opens it next finds it free.
      sink(.ended(Self.stream(node, places, wish, flag, sink)))
    }
    if !isStarted { sink(.ended(CameraError(.refused, "No thread is left for the camera."))) }
  }

  func stop() { flag.raise() }

  private static func stream(
    _ node: String, _ places: CameraPlaces, _ wish: CaptureWish, _ flag: StopFlag, _ sink: FrameSink
  ) -> CameraError? {
    do throws(CameraError) {
      let stream = try V4L2Stream.open(try V4L2Device(node, places: places), wish)
      sink(.opened(stream.format))
      try stream.run(until: flag, sink)
      return nil
    } catch {
      return error
    }
  }
}
