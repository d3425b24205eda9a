import System

/// A frame that is whole.
struct InspectedFrame: Sendable {
  let frame: Frame
  /// The cleaned file, of frames that are JPEGs.
  let jpeg: JPEGRepair?
  let light: Light

  /// Looks whether a frame is whole, and how light. The first frames of many webcams are damaged, for they begin in mid-exposure.
  /// Throws `damaged` for one that is not; `missing` or `formatUnsupported` when no frame of this camera can be read.
  init(_ frame: Frame) throws(CameraError) {
    self.frame = frame
    if frame.isMarkedDamaged { throw CameraError(.damaged, "The driver marked the frame as damaged.") }
    if frame.format.pixels.isJPEG {
      let jpeg = try Self.clean(frame.bytes)
      // Decoding the brightness at an eighth walks through all of the compressed data, at half the cost of decoding it.
      light = Light(try TurboJPEG.shared.get().thumbnail(jpeg).bytes)
      self.jpeg = jpeg
      return
    }
    jpeg = nil
    let format = frame.format
    if let least = format.pixels.leastBytes(
      width: format.size.width, height: format.size.height, stride: format.stride), frame.bytes.count >= least
    {
      light = Self.light(of: frame)
    } else {
      // Formats that libv4lconvert reads: it says whether the frame is whole.
      let luma = try YUVPicture(raw: frame).planes[0].bytes
      light = Light(stride(from: 0, to: luma.count, by: 61).lazy.map { luma[$0] })
    }
  }

  private static func clean(_ bytes: [UInt8]) throws(CameraError) -> JPEGRepair {
    do throws(JPEGRepair.Damage) { return try JPEGRepair(bytes) } catch {
      throw CameraError(.damaged, "The frame is no whole JPEG: \(error.rawValue).")
    }
  }

  /// Of every 8th pixel of every 8th row.
  private static func light(of frame: Frame) -> Light {
    let (step, first): (Int, Int) =
      switch frame.format.pixels {
      case .yuyv, .yvyu: (2, 0)
      case .uyvy, .y16: (2, 1)
      // Green is most of the brightness.
      case .rgb24, .bgr24: (3, 1)
      default: (1, 0)
      }
    let isFull = frame.format.range.isFull || frame.format.pixels == .rgb24 || frame.format.pixels == .bgr24
    // In M420 a row of colours follows each two rows; of ten bits in a row, every 8th pixel's upper eight are a byte.
    let isMixed = frame.format.pixels == .m420
    let pace = frame.format.pixels == .y10b ? 10 : 8 * step
    let (across, down) = ((frame.size.width + 7) / 8, (frame.size.height + 7) / 8)
    var (sum, white) = (0, 0)
    frame.bytes.withUnsafeBufferPointer { bytes in
      for row in 0..<down {
        var place = (isMixed ? 12 : 8) * row * frame.format.stride + first
        for _ in 0..<across {
          var value = Int(bytes[place])
          if !isFull { value = max(0, min(255, ((value - 16) * 149) >> 7)) }
          sum += value
          if value >= Light.white { white += 1 }
          place += pace
        }
      }
    }
    return Light(sum: sum, white: white, count: across * down)
  }

  /// The picture upright. With `least`, a JPEG is scaled down in the decoder as far as it stays that large.
  func upright(least: Size? = nil) throws(CameraError) -> YUVPicture {
    guard let jpeg else { return try YUVPicture(raw: frame) }
    let swaps = jpeg.orientation >= 5
    let stored = least.map { swaps ? Size($0.height, $0.width) : $0 }
    return try TurboJPEG.shared.get().decode(jpeg, least: stored).turned(jpeg.orientation)
  }

  /// Its size as it is to be seen.
  var size: Size {
    guard let jpeg else { return frame.size }
    return jpeg.orientation >= 5 ? Size(jpeg.size.height, jpeg.size.width) : jpeg.size
  }
}
