/// Raw frames as planes in JPEG's own range and matrix.
extension YUVPicture {
  /// Unpacks a raw frame. Throws `damaged` for one that is too short, `formatUnsupported` for a format that is not read.
  init(raw frame: Frame) throws(CameraError) {
    let format = frame.format
    let size = format.size
    guard size.isSane else { throw CameraError(.damaged, "The camera names an impossible size.") }
    guard PixelFormat.raw.contains(format.pixels) else {
      self = try TurboJPEG.shared.get().planes(rgb: V4LConvert.shared.get().rgb(frame), size)
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
    case .grey, .y16, .y10b: self = Self.grey(frame, stride)
    case .yuyv, .uyvy, .yvyu: self = Self.packed(frame, stride)
    case .nv12, .nv21, .m420: self = Self.semiplanar(frame, stride, .s420)
    case .nv16, .nv61: self = Self.semiplanar(frame, stride, .s422)
    default: self = Self.planar(frame, stride)
    }
    if range.is709 && sampling != .grey { convertFrom709() }
  }

  private static func rows(_ frame: Frame, _ stride: Int, _ body: (UnsafePointer<UInt8>, Int) -> Void) {
    frame.bytes.withUnsafeBufferPointer { bytes in
      for row in 0..<frame.size.height { body(bytes.baseAddress! + row * stride, row) }
    }
  }

  /// Of the deeper ones the upper eight bits.
  private static func grey(_ frame: Frame, _ stride: Int) -> YUVPicture {
    let size = frame.size
    let range = frame.format.range
    return .made(size, .grey) { planes in
      rows(frame, stride) { source, row in
        let line = planes[0].baseAddress! + row * size.width
        switch frame.format.pixels {
        case .y16: Unpacking.luma(source + 1, step: 2, to: line, size.width, range)
        case .y10b:
          // Ten bits a pixel without gaps, the highest first.
          for x in 0..<size.width {
            let (byte, bit) = (x * 10 / 8, x * 10 % 8)
            let both = UInt16(source[byte]) << 8 | UInt16(source[byte + (bit == 0 ? 0 : 1)])
            line[x] = UInt8(truncatingIfNeeded: both >> (8 - UInt16(bit)))
          }
          Unpacking.luma(line, step: 1, to: line, size.width, range)
        default: Unpacking.luma(source, step: 1, to: line, size.width, range)
        }
      }
    }
  }

  private static func packed(_ frame: Frame, _ stride: Int) -> YUVPicture {
    let size = frame.size
    let pairs = (size.width + 1) / 2
    // Where the first brightness, blue and red are in four bytes.
    let (luma, blue, red) =
      switch frame.format.pixels {
      case .uyvy: (1, 0, 2)
      case .yvyu: (0, 3, 1)
      default: (0, 1, 3)
      }
    let range = frame.format.range
    return .made(size, .s422) { planes in
      rows(frame, stride) { source, row in
        let line = planes[0].baseAddress! + row * pairs * 2
        Unpacking.luma(source + luma, step: 2, to: line, pairs * 2, range)
        Unpacking.colour(source + blue, step: 4, to: planes[1].baseAddress! + row * pairs, pairs, range)
        Unpacking.colour(source + red, step: 4, to: planes[2].baseAddress! + row * pairs, pairs, range)
        // The second half of an odd row's last pair is nothing the camera saw.
        if size.width % 2 == 1 { line[size.width] = line[size.width - 1] }
      }
    }
  }

  /// Brightness in a plane of its own, with what is odd of its columns and rows there twice. In M420 each two rows are followed by their colours.
  private static func luma(
    _ frame: Frame, _ stride: Int, _ sampling: Sampling, to target: UnsafeMutableBufferPointer<UInt8>
  ) {
    let size = frame.size
    let plane = planeSize(0, of: size, sampling)
    let isMixed = frame.format.pixels == .m420
    rows(frame, stride) { source, row in
      let line = target.baseAddress! + row * plane.width
      Unpacking.luma(source + (isMixed ? row / 2 * stride : 0), step: 1, to: line, size.width, frame.format.range)
      if plane.width > size.width { line[size.width] = line[size.width - 1] }
    }
    if plane.height > size.height {
      let last = target.baseAddress! + (size.height - 1) * plane.width
      (last + plane.width).update(from: last, count: plane.width)
    }
  }

  private static func semiplanar(_ frame: Frame, _ stride: Int, _ sampling: Sampling) -> YUVPicture {
    let size = frame.size
    let chroma = planeSize(1, of: size, sampling)
    let (blue, red) = [.nv21, .nv61].contains(frame.format.pixels) ? (2, 1) : (1, 2)
    let isMixed = frame.format.pixels == .m420
    return .made(size, sampling) { planes in
      luma(frame, stride, sampling, to: planes[0])
      frame.bytes.withUnsafeBufferPointer { bytes in
        for row in 0..<chroma.height {
          let source = bytes.baseAddress! + stride * (isMixed ? 3 * row + 2 : size.height + row)
          for (plane, first) in [(blue, 0), (red, 1)] {
            Unpacking.colour(
              source + first, step: 2, to: planes[plane].baseAddress! + row * chroma.width, chroma.width,
              frame.format.range)
          }
        }
      }
    }
  }

  private static func planar(_ frame: Frame, _ stride: Int) -> YUVPicture {
    let size = frame.size
    let chroma = planeSize(1, of: size, .s420)
    let order = frame.format.pixels == .yv12 ? [2, 1] : [1, 2]
    return .made(size, .s420) { planes in
      luma(frame, stride, .s420, to: planes[0])
      frame.bytes.withUnsafeBufferPointer { bytes in
        for (place, plane) in order.enumerated() {
          let base = bytes.baseAddress! + stride * size.height + place * (stride / 2) * chroma.height
          for row in 0..<chroma.height {
            Unpacking.colour(
              base + row * (stride / 2), step: 1, to: planes[plane].baseAddress! + row * chroma.width, chroma.width,
              frame.format.range)
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
