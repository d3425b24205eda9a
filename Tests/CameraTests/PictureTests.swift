import TestSupport
import Testing

@testable import Camera

/// Pixels on their way from a camera into a JPEG.
@Suite struct PictureTests {
  /// A YUV picture with every number in it, as each raw format has it, in rows with padding.
  private func frames(
    _ size: Size, padding: Int, range: ColourRange, _ random: inout SeededRandom
  ) -> (luma: [UInt8], frames: [Frame]) {
    let luma = (0..<size.area).map { _ in UInt8(random.below(256)) }
    func frame(_ pixels: PixelFormat, _ fill: (inout [UInt8], Int) -> Void) -> Frame {
      let stride = pixels.leastStride(width: size.width)! + padding
      var bytes = [UInt8](repeating: 0xEE, count: stride * (size.height + (size.height + 1) / 2 * 2))
      fill(&bytes, stride)
      return Frame(FrameFormat(pixels, size, stride: stride, range: range), bytes, atNs: 1)
    }
    func each(_ body: (Int, Int) -> Void) { for y in 0..<size.height { for x in 0..<size.width { body(x, y) } } }
    let made: [Frame] = [
      frame(.yuyv) { bytes, stride in each { bytes[$1 * stride + 2 * $0] = luma[$1 * size.width + $0] } },
      frame(.uyvy) { bytes, stride in each { bytes[$1 * stride + 2 * $0 + 1] = luma[$1 * size.width + $0] } },
      frame(.nv12) { bytes, stride in each { bytes[$1 * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.nv21) { bytes, stride in each { bytes[$1 * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.yuv420) { bytes, stride in each { bytes[$1 * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.yvyu) { bytes, stride in each { bytes[$1 * stride + 2 * $0] = luma[$1 * size.width + $0] } },
      frame(.yv12) { bytes, stride in each { bytes[$1 * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.nv16) { bytes, stride in each { bytes[$1 * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.nv61) { bytes, stride in each { bytes[$1 * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.m420) { bytes, stride in each { bytes[($1 + $1 / 2) * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.grey) { bytes, stride in each { bytes[$1 * stride + $0] = luma[$1 * size.width + $0] } },
      frame(.y16) { bytes, stride in each { bytes[$1 * stride + 2 * $0 + 1] = luma[$1 * size.width + $0] } },
      frame(.y10b) { bytes, stride in
        each { x, y in
          for bit in 0..<10 {
            let at = y * stride * 8 + x * 10 + bit
            let isSet = bit < 8 ? luma[y * size.width + x] >> (7 - UInt8(bit)) & 1 == 1 : x % 2 == 0
            let mask = UInt8(0x80) >> UInt8(at % 8)
            bytes[at / 8] = isSet ? bytes[at / 8] | mask : bytes[at / 8] & ~mask
          }
        }
      },
    ]
    return (luma, made)
  }

  @Test("each raw format's brightness arrives where it was, with odd sizes and padded rows", arguments: [0, 6, 64])
  func unpacked(padding: Int) throws {
    var random = SeededRandom()
    for size in [Size(16, 8), Size(17, 9), Size(2, 2), Size(1, 1)] {
      let (luma, frames) = frames(size, padding: padding, range: .full, &random)
      for frame in frames {
        let picture = try YUVPicture(raw: frame)
        #expect(picture.luma == luma, "\(frame.format), seed \(random.seed)")
        #expect(picture.planes[0].size == YUVPicture.planeSize(0, of: size, picture.sampling))
      }
    }
  }

  @Test("16…235 becomes 0…255, and colours about 128 alike")
  func stretched() throws {
    let size = Size(256, 2)
    let values = (0...255).map { UInt8($0) }
    let frame = Frame(
      FrameFormat(.nv12, size, stride: 256, range: .limited), values + values + values, atNs: 1)
    let picture = try YUVPicture(raw: frame)
    for (value, got) in zip(0...255, picture.luma) {
      let exact = (Double(value) - 16) * 255 / 219
      #expect(abs(Double(got) - min(max(exact, 0), 255)) <= 0.6, "\(value)")
    }
    for (index, got) in picture.planes[1].bytes.enumerated() {
      let exact = (Double(2 * index) - 128) * 255 / 224 + 128
      #expect(abs(Double(got) - min(max(exact, 0), 255)) <= 0.6, "\(2 * index)")
    }
  }

  @Test("colours go to their own planes", arguments: PixelFormat.raw)
  func colours(pixels: PixelFormat) throws {
    // One colour all over: Y 90, U 60, V 200 in full range.
    let size = Size(32, 16)
    let stride = pixels.leastStride(width: size.width)!
    var bytes: [UInt8]
    switch pixels {
    case .yuyv: bytes = (0..<(size.area / 2)).flatMap { _ in [90, 60, 90, 200] as [UInt8] }
    case .uyvy: bytes = (0..<(size.area / 2)).flatMap { _ in [60, 90, 200, 90] as [UInt8] }
    case .nv12: bytes = [UInt8](repeating: 90, count: size.area) + (0..<(size.area / 4)).flatMap { _ in [60, 200] }
    case .nv21: bytes = [UInt8](repeating: 90, count: size.area) + (0..<(size.area / 4)).flatMap { _ in [200, 60] }
    case .yuv420:
      bytes = [UInt8](repeating: 90, count: size.area) + [UInt8](repeating: 60, count: size.area / 4)
      bytes += [UInt8](repeating: 200, count: size.area / 4)
    case .yvyu: bytes = (0..<(size.area / 2)).flatMap { _ in [90, 200, 90, 60] as [UInt8] }
    case .yv12:
      bytes = [UInt8](repeating: 90, count: size.area) + [UInt8](repeating: 200, count: size.area / 4)
      bytes += [UInt8](repeating: 60, count: size.area / 4)
    case .nv16: bytes = [UInt8](repeating: 90, count: size.area) + (0..<(size.area / 2)).flatMap { _ in [60, 200] }
    case .nv61: bytes = [UInt8](repeating: 90, count: size.area) + (0..<(size.area / 2)).flatMap { _ in [200, 60] }
    case .m420:
      let rows = [UInt8](repeating: 90, count: 2 * size.width) + (0..<(size.width / 2)).flatMap { _ in [60, 200] }
      bytes = (0..<(size.height / 2)).flatMap { _ in rows }
    case .y16: bytes = (0..<size.area).flatMap { _ in [0xEE, 90] as [UInt8] }
    // Four times 90·4 in ten bits each.
    case .y10b: bytes = (0..<(size.area / 4)).flatMap { _ in [0x5A, 0x16, 0x85, 0xA1, 0x68] as [UInt8] }
    // 90 + 1.402·72 = 190.9; 90 − 0.344·(−68) − 0.714·72 = 62.0; 90 + 1.772·(−68) = −30.5, which is 0: so another colour.
    case .rgb24: bytes = (0..<size.area).flatMap { _ in [200, 50, 30] as [UInt8] }
    case .bgr24: bytes = (0..<size.area).flatMap { _ in [30, 50, 200] as [UInt8] }
    default: bytes = [UInt8](repeating: 90, count: size.area)
    }
    let picture = try YUVPicture(raw: Frame(FrameFormat(pixels, size, stride: stride, range: .full), bytes, atNs: 1))
    let expected: [UInt8] =
      switch pixels {
      // 0.299·200 + 0.587·50 + 0.114·30 = 92.6; U = 128 + 0.564·(30 − 92.6); V = 128 + 0.713·(200 − 92.6).
      case .rgb24, .bgr24: [93, 93, 205]
      case .grey, .y16, .y10b: [90]
      default: [90, 60, 200]
      }
    for (plane, value) in zip(picture.planes, expected) {
      #expect(plane.bytes.allSatisfy { abs(Int($0) - Int(value)) <= 1 }, "\(plane.bytes[0]) is not \(value)")
    }
  }

  @Test("BT.709's colours are seen as they were")
  func matrix() throws {
    // Saturated red in BT.709, full range: R 200, G 40, B 40.
    let (red, green, blue) = (200.0, 40.0, 40.0)
    let luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    let pixel = [luma, 128 + (blue - luma) / 1.8556, luma, 128 + (red - luma) / 1.5748].map { UInt8($0.rounded()) }
    let frame = Frame(
      FrameFormat(.yuyv, Size(16, 16), stride: 32, range: ColourRange(isFull: true, is709: true)),
      (0..<128).flatMap { _ in pixel }, atNs: 1)
    let rgb = try TurboJPEG.shared.get().rgb(YUVPicture(raw: frame))
    #expect(abs(Int(rgb[0]) - 200) <= 3 && abs(Int(rgb[1]) - 40) <= 3 && abs(Int(rgb[2]) - 40) <= 3, "\(rgb[0..<3])")
  }

  @Test("a raw frame that is too short for what it claims is damaged, whatever its stride", arguments: PixelFormat.raw)
  func short(pixels: PixelFormat) {
    for (stride, count) in [(64, 100), (1 << 24, 4096), (0, 10), (Int.max / 4096, 4096)] {
      let frame = Frame(
        FrameFormat(pixels, Size(32, 32), stride: stride), [UInt8](repeating: 0, count: count), atNs: 1)
      #expect(throws: CameraError.self) { try YUVPicture(raw: frame) }
    }
  }

  @Test("turned by its orientation, every sample is the same picture", arguments: 2...8)
  func turned(orientation: Int) throws {
    let upright = try Sample.picture("orientation-1.jpg")
    let cleaned = try JPEGRepair(try Sample.bytes("orientation-\(orientation).jpg"))
    let picture = try TurboJPEG.shared.get().decode(cleaned).turned(orientation)
    #expect(picture.size == upright.size)
    #expect(likeness(picture.luma, upright.luma) > 30)
    let library = try TurboJPEG.shared.get()
    #expect(likeness(try library.rgb(picture), try library.rgb(upright)) > 26)
  }

  @Test("turning there and back gives the picture again, of any sampling and odd sizes")
  func thereAndBack() throws {
    let back = [1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6]
    for name in ["odd-420.jpg", "odd-422.jpg", "440.jpg", "grey.jpg", "whole.jpg"] {
      let picture = try Sample.picture(name)
      for orientation in 1...8 {
        #expect(picture.turned(orientation).turned(back[orientation]!).luma == picture.luma, "\(name) \(orientation)")
      }
    }
    let coarse = try Sample.picture("411.jpg")
    #expect(coarse.turned(6).sampling == .s444)
    #expect(coarse.turned(6).turned(8).luma == coarse.luma)
  }

  @Test("scaled down, one colour stays that colour, and a picture stays itself")
  func scaled() throws {
    for size in [Size(640, 480), Size(641, 479), Size(3, 1000)] {
      let flat = YUVPicture.made(size, .s420) { for plane in $0 { plane.update(repeating: 201) } }
      for goal in [Size(320, 240), Size(333, 217), Size(1, 1), Size(2, 999)] {
        let small = flat.scaled(to: goal)
        #expect(small.size == Size(min(goal.width, size.width), min(goal.height, size.height)))
        #expect(small.planes.allSatisfy { $0.bytes.allSatisfy { $0 == 201 } }, "\(size) to \(goal)")
      }
    }
    // The decoder's own scaling of the same picture is the other opinion.
    let library = try TurboJPEG.shared.get()
    let cleaned = try JPEGRepair(try Sample.bytes("whole.jpg"))
    let ours = try library.decode(cleaned).scaled(to: Size(160, 120))
    let theirs = try library.decode(cleaned, least: Size(160, 120))
    #expect(theirs.size == Size(160, 120))
    #expect(likeness(ours.luma, theirs.luma) > 35)
  }

  @Test("a picture is never made larger")
  func neverLarger() throws {
    let picture = try Sample.picture("whole.jpg")
    #expect(picture.scaled(to: Size(1000, 1000)) == picture)
    #expect(Picture.goal(Size(320, 240), 1600) == Size(320, 240))
    #expect(Picture.goal(Size(1920, 1080), 1600) == Size(1600, 900))
    #expect(Picture.goal(Size(1920, 1081), 1601) == Size(1601, 902))
    #expect(Picture.goal(Size(4000, 3), 100) == Size(100, 2))
    #expect(Picture.goal(Size(10, 10), 0) == Size(2, 2))
  }

  @Test(
    "frames for an encoder are I420 in limited range, whatever they were",
    arguments: [
      "whole.jpg", "odd-420.jpg", "grey.jpg", "440.jpg", "411.jpg", "rgb.jpg", "progressive.jpg",
    ])
  func i420(name: String) throws {
    let picture = try Sample.picture(name)
    let size = Size(picture.size.width / 2 * 2, picture.size.height / 2 * 2)
    let bytes = picture.i420(size)
    #expect(bytes.count == size.area * 3 / 2)
    #expect(bytes[..<size.area].allSatisfy { (16...235).contains($0) })
    #expect(bytes[size.area...].allSatisfy { (16...240).contains($0) })
    let back = try YUVPicture(raw: Frame(FrameFormat(.yuv420, size, stride: size.width), bytes, atNs: 1))
    let cropped = picture.size == size ? picture : picture.scaled(to: size)
    #expect(likeness(back.luma, cropped.luma) > 45)
  }

  @Test("an RGB and a progressive file decode like the plain one")
  func otherForms() throws {
    let plain = try Sample.picture("whole.jpg")
    for name in ["rgb.jpg", "progressive.jpg", "440.jpg", "restarts.jpg"] {
      #expect(likeness(try Sample.picture(name).luma, plain.luma) > 30, "\(name)")
    }
  }
}

/// Formats that libv4lconvert reads.
@Suite struct V4LConvertTests {
  @Test("every format on our list is read by the installed libv4lconvert")
  func list() throws {
    let library = try V4LConvert.shared.get()
    for pixels in V4LConvert.formats {
      let size = Size(64, 32)
      let frame = Frame(
        FrameFormat(pixels, size, stride: 64 * 4), [UInt8](repeating: 128, count: 64 * 32 * 8), atNs: 1)
      #expect(throws: Never.self, "\(pixels)") { _ = try library.rgb(frame) }
    }
  }

  @Test("its red is ours, and so is where it is")
  func agrees() throws {
    let size = Size(64, 32)
    var random = SeededRandom()
    var rgb: [UInt8] = []
    var xr24: [UInt8] = []
    for _ in 0..<size.area {
      let (red, green, blue) = (UInt8(random.below(256)), UInt8(random.below(256)), UInt8(random.below(256)))
      rgb += [red, green, blue]
      xr24 += [blue, green, red, 0xEE]
    }
    let pixels = try #require(PixelFormat("XR24"))
    let seen = try V4LConvert.shared.get().rgb(Frame(FrameFormat(pixels, size, stride: 256), xr24, atNs: 1))
    #expect(seen == rgb, "seed \(random.seed)")
  }

  @Test("a frame that is too short is refused, not read over its end")
  func short() throws {
    let library = try V4LConvert.shared.get()
    for pixels in V4LConvert.formats {
      let frame = Frame(
        FrameFormat(pixels, Size(64, 32), stride: 64 * 4), [UInt8](repeating: 1, count: 40), atNs: 1)
      #expect(throws: CameraError.self, "\(pixels)") { _ = try library.rgb(frame) }
    }
  }

  @Test("a format that nobody knows is none that is tried")
  func unknown() throws {
    #expect(!FormatChoice.isReadable(try #require(PixelFormat("ZZZZ"))))
  }
}
