/// Raw frames as planes in JPEG's own range and matrix.
extension YUVPicture {
  /// Unpacks a raw frame. Throws `damaged` for one that is too short, `formatUnsupported` for a format that is not read.
  init(raw frame: Frame) throws(CameraError) {
    let format = frame.format
    let size = format.size
    guard size.isSane else { throw CameraError(.damaged, "The camera names an impossible size.") }
    guard PixelFormat.raw.contains(format.pixels) else {
      let library = try V4LConvert.shared.get()
      self = try TurboJPEG.shared.get().planes(rgb: library.rgb(frame), size)
      // libv4lconvert takes every YUV for full range. What it made of limited range lies within it, so that it can be undone here.
      if V4LConvert.isLuma(format.pixels) && !format.range.isFull { stretch() }
      if V4LConvert.isLuma(format.pixels) && format.range.is709 { convertFrom709() }
      return
    }
    let stride = max(format.stride, format.pixels.leastStride(width: size.width) ?? 0)
    // Checked again here, whatever the driver promised: the loops below trust it.
    guard stride <= 1 << 20,
      let least = format.pixels.leastBytes(width: size.width, height: size.height, stride: stride),
      frame.bytes.count >= least
    else {
      throw CameraError(.damaged, "The frame is too short.")
    }
    let range = format.range
    switch format.pixels {
    case .rgb24, .bgr24:
      let library = try TurboJPEG.shared.get()
      self = try library.planes(rgb: frame.bytes, size, stride: stride, isBGR: format.pixels == .bgr24)
      return
    case .grey:
      // A grey camera's numbers are brightness as the sensor has it: V4L2 gives GREY no quantization of its own, and what is
      // delivered is the luma of its YUV formats.
      self = .made(size, .grey) { planes in
        Self.rows(frame, stride) { source, row in
          Self.spread(source, 0, 1, planes[0].baseAddress! + row * size.width, size.width, .luma(range))
        }
      }
    case .yuyv, .uyvy:
      self = Self.packed(frame, stride, lumaAt: format.pixels == .yuyv ? 0 : 1)
    case .nv12, .nv21:
      self = Self.semiplanar(frame, stride, redFirst: format.pixels == .nv21)
    default:
      self = Self.planar(frame, stride)
    }
    if range.is709 && sampling != .grey { convertFrom709() }
  }

  /// What is done to each byte on its way.
  private enum Change {
    case none
    /// 16…235 to 0…255.
    case stretchLuma
    /// 16…240 about 128 to 0…255.
    case stretchColour

    static func luma(_ range: ColourRange) -> Change { range.isFull ? .none : .stretchLuma }
    static func colour(_ range: ColourRange) -> Change { range.isFull ? .none : .stretchColour }
  }

  private static func rows(_ frame: Frame, _ stride: Int, _ body: (UnsafePointer<UInt8>, Int) -> Void) {
    frame.bytes.withUnsafeBufferPointer { bytes in
      for row in 0..<frame.size.height { body(bytes.baseAddress! + row * stride, row) }
    }
  }

  /// Copies every `step`th byte. The loops are plain so that the compiler turns them into vector code.
  @inline(__always)
  private static func spread(
    _ source: UnsafePointer<UInt8>, _ first: Int, _ step: Int, _ target: UnsafeMutablePointer<UInt8>, _ count: Int,
    _ change: Change
  ) {
    switch change {
    case .none:
      for index in 0..<count { target[index] = source[first &+ index &* step] }
    case .stretchLuma:
      for index in 0..<count {
        // 149/128 = 1.1641; 255/219 = 1.1644.
        let value = (Int32(truncatingIfNeeded: source[first &+ index &* step]) &- 16) &* 149 &+ 64
        target[index] = UInt8(truncatingIfNeeded: min(max(value &>> 7, 0), 255))
      }
    case .stretchColour:
      for index in 0..<count {
        // 583/512 = 1.1387; 255/224 = 1.1384.
        let value = (Int32(truncatingIfNeeded: source[first &+ index &* step]) &- 128) &* 583 &+ 256
        target[index] = UInt8(truncatingIfNeeded: min(max((value &>> 9) &+ 128, 0), 255))
      }
    }
  }

  /// Limited range made full.
  private mutating func stretch() {
    for index in planes.indices {
      let count = planes[index].bytes.count
      planes[index].bytes.withUnsafeMutableBufferPointer { bytes in
        let base = bytes.baseAddress!
        Self.spread(base, 0, 1, base, count, index == 0 ? .stretchLuma : .stretchColour)
      }
    }
  }

  private static func packed(_ frame: Frame, _ stride: Int, lumaAt: Int) -> YUVPicture {
    let size = frame.size
    let pairs = (size.width + 1) / 2
    let range = frame.format.range
    return .made(size, .s422) { planes in
      rows(frame, stride) { source, row in
        let luma = planes[0].baseAddress! + row * pairs * 2
        let blue = planes[1].baseAddress! + row * pairs
        let red = planes[2].baseAddress! + row * pairs
        if lumaAt == 0 {
          spread(source, 0, 2, luma, pairs * 2, .luma(range))
          spread(source, 1, 4, blue, pairs, .colour(range))
          spread(source, 3, 4, red, pairs, .colour(range))
        } else {
          spread(source, 1, 2, luma, pairs * 2, .luma(range))
          spread(source, 0, 4, blue, pairs, .colour(range))
          spread(source, 2, 4, red, pairs, .colour(range))
        }
        // The second half of an odd row's last pair is nothing the camera saw.
        if size.width % 2 == 1 { luma[size.width] = luma[size.width - 1] }
      }
    }
  }

  /// The brightness of 4:2:0 formats, with an odd last column and row there twice.
  private static func luma420(_ frame: Frame, _ stride: Int, _ target: UnsafeMutableBufferPointer<UInt8>) {
    let size = frame.size
    let plane = planeSize(0, of: size, .s420)
    rows(frame, stride) { source, row in
      let line = target.baseAddress! + row * plane.width
      spread(source, 0, 1, line, size.width, .luma(frame.format.range))
      if plane.width > size.width { line[size.width] = line[size.width - 1] }
    }
    if plane.height > size.height {
      let last = target.baseAddress! + (size.height - 1) * plane.width
      (last + plane.width).update(from: last, count: plane.width)
    }
  }

  private static func semiplanar(_ frame: Frame, _ stride: Int, redFirst: Bool) -> YUVPicture {
    let size = frame.size
    let chroma = planeSize(1, of: size, .s420)
    return .made(size, .s420) { planes in
      luma420(frame, stride, planes[0])
      frame.bytes.withUnsafeBufferPointer { bytes in
        for row in 0..<chroma.height {
          let source = bytes.baseAddress! + stride * (size.height + row)
          let change = Change.colour(frame.format.range)
          spread(source, redFirst ? 1 : 0, 2, planes[1].baseAddress! + row * chroma.width, chroma.width, change)
          spread(source, redFirst ? 0 : 1, 2, planes[2].baseAddress! + row * chroma.width, chroma.width, change)
        }
      }
    }
  }

  private static func planar(_ frame: Frame, _ stride: Int) -> YUVPicture {
    let size = frame.size
    let chroma = planeSize(1, of: size, .s420)
    return .made(size, .s420) { planes in
      luma420(frame, stride, planes[0])
      frame.bytes.withUnsafeBufferPointer { bytes in
        for plane in 1...2 {
          let base = bytes.baseAddress! + stride * size.height + (plane - 1) * (stride / 2) * chroma.height
          for row in 0..<chroma.height {
            spread(
              base + row * (stride / 2), 0, 1, planes[plane].baseAddress! + row * chroma.width, chroma.width,
              .colour(frame.format.range))
          }
        }
      }
    }
  }

  /// BT.709's planes as BT.601's, which is what a JPEG's are taken for. Both in full range; the matrix is that of 709 to RGB times that of
  /// RGB to 601.
  private mutating func convertFrom709() {
    let (across, down) = (sampling.across, sampling.down)
    let chroma = planes[1].size
    let lumaWidth = planes[0].width
    func clipped(_ value: Int) -> UInt8 { UInt8(max(0, min(255, value))) }
    for y in 0..<chroma.height {
      for x in 0..<chroma.width {
        let index = y * chroma.width + x
        let blue = Int(planes[1].bytes[index]) - 128
        let red = Int(planes[2].bytes[index]) - 128
        // In 1/65536.
        let lift = (6657 * blue + 12850 * red + 32768) >> 16
        planes[1].bytes[index] = clipped(((64871 * blue - 7252 * red + 32768) >> 16) + 128)
        planes[2].bytes[index] = clipped(((-4748 * blue + 64448 * red + 32768) >> 16) + 128)
        if lift == 0 { continue }
        for line in (y * down)..<(y * down + down) {
          for column in (x * across)..<(x * across + across) {
            let at = line * lumaWidth + column
            planes[0].bytes[at] = clipped(Int(planes[0].bytes[at]) + lift)
          }
        }
      }
    }
  }
}
