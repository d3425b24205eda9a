import Glibc
import System
import TestSupport
import Testing

@testable import Camera

extension FirstLane {
  /// What the camera draws, read by three: us, `v4l2-ctl` and ffmpeg.
  struct PictureTests {
    @Test("each format that vivid offers and we read is seen as v4l2-ctl and ffmpeg see it")
    func formats() async throws {
      let (cameras, loop) = GuestCamera.bed()
      defer { loop.stop() }
      let device = try await GuestCamera.vivid(GuestCamera.count - 1, cameras)
      // Draws the same, so that the other program can look while we do.
      let twin = try await GuestCamera.vivid(GuestCamera.count - 2, cameras)
      let offered = try V4L2Device(device.node!, places: CameraPlaces()).formats()
      let readable = Set(offered).filter { FormatChoice.isReadable($0) }.sorted { $0.rawValue < $1.rawValue }
      for pixels in PixelFormat.raw where ![.m420, .y10b].contains(pixels) {
        #expect(readable.contains(pixels), "vivid lacks \(pixels)")
      }
      let scaler = try FFmpegScaler()
      let rgb = try #require(scaler.rgb(try await frame(.rgb24, device, twin, cameras)))
      // vivid's grey is the luma of BT.709 in full range.
      let luma = stride(from: 0, to: rgb.count, by: 3).map { (at: Int) -> UInt8 in
        let (red, green, blue) = (Int(rgb[at]), Int(rgb[at + 1]), Int(rgb[at + 2]))
        return UInt8((13_879 * red + 46_688 * green + 4713 * blue) >> 16)
      }
      let library = try TurboJPEG.shared.get()
      for pixels in readable {
        let frame = try await frame(pixels, device, twin, cameras)
        let inspected = try InspectedFrame(frame)
        let raw = try inspected.upright()
        let jpeg = try library.decode(JPEGRepair(Picture.make(of: inspected, Picture.Limits(width: 1600)).bytes))
        let expected = isTight(frame.format) ? scaler.rgb(frame) : nil
        let step: Double
        let whole: Double
        if pixels.isGrey {
          step = likeness(raw.planes[0].bytes, luma)
          whole = likeness(jpeg.planes[0].bytes, luma)
        } else {
          // What ffmpeg does not have is held against the RGB of the same pattern, where edges are sharper.
          step = likeness(try library.rgb(raw), expected ?? rgb)
          whole = likeness(try library.rgb(jpeg), expected ?? rgb)
        }
        print("\(pixels): raw to RGB \(Int(step * 10) / 10) dB, JPEG \(Int(whole * 10) / 10) dB")
        // A Bayer pattern's colours are guessed from the neighbours, by each program in its own way: at the bars' edges they differ.
        let isBayer = ["BA81", "GBRG", "GRBG", "RGGB"].contains(pixels.description)
        let least: Double = isBayer ? 25 : expected != nil || pixels.isGrey ? 40 : 28
        #expect(step >= least, "\(pixels): \(step) dB")
        #expect(whole >= min(least, 28), "\(pixels): \(whole) dB")
      }
      await cameras.close()
    }

    /// What we read, which must be what v4l2-ctl reads.
    private func frame(
      _ pixels: PixelFormat, _ device: CameraDevice, _ twin: CameraDevice, _ cameras: Cameras
    ) async throws -> Frame {
      let stream = try await cameras.frames(of: device, CaptureWish(.picture, width: 320, formats: [pixels]))
      #expect(stream.format.pixels == pixels)
      async let reference = GuestCamera.reference(twin, stream.format, loop: cameras.loop)
      // Marked as damaged are only frames that vivid was told to damage.
      let frame = try #require(try await stream.next())
      stream.end()
      #expect(!frame.isMarkedDamaged)
      // Not compared in the macro, which would look for the way from one to the other.
      let isSame = try await reference == frame.bytes
      #expect(isSame, "\(frame.format): not v4l2-ctl's bytes")
      return frame
    }

    private func isTight(_ format: FrameFormat) -> Bool {
      format.pixels.leastStride(width: format.size.width).map { $0 == format.stride } ?? true
    }
  }
}

/// How like two pictures of a size are, in dB; 100 when they are the same. By every 31st byte, which comes by all columns and colours: the
/// guest is slow.
func likeness(_ left: [UInt8], _ right: [UInt8]) -> Double {
  guard left.count == right.count, !left.isEmpty else { return 0 }
  var (sum, count) = (0, 0)
  for index in stride(from: 0, to: left.count, by: 31) {
    let difference = Int(left[index]) - Int(right[index])
    sum += difference * difference
    count += 1
  }
  return sum == 0 ? 100 : 10 * log10(255 * 255 * Double(count) / Double(sum))
}
