/// Frames as a video encoder wants them.
extension YUVPicture {
  /// I420 in rows without padding, in limited range, of even width and height. A picture of another size is brought to it, a smaller one
  /// too: a recording's frames need not be alike, and a clip has one size.
  func i420(_ target: Size) -> [UInt8] {
    let picture = resized(to: target)
    let source = picture.sampling == .s411 ? picture.withFullColour() : picture
    let chroma = Size(target.width / 2, target.height / 2)
    return [UInt8](unsafeUninitializedCapacity: target.area + 2 * chroma.area) { room, initialized in
      let luma = source.planes[0]
      precondition(luma.width >= target.width && luma.bytes.count >= luma.width * target.height, "a smaller picture")
      luma.bytes.withUnsafeBufferPointer { bytes in
        for row in 0..<target.height {
          let line = bytes.baseAddress! + row * luma.width
          let out = room.baseAddress! + row * target.width
          // 55/64 = 0.8594; 219/255 = 0.8588.
          for x in 0..<target.width {
            out[x] = UInt8(truncatingIfNeeded: (UInt32(truncatingIfNeeded: line[x]) &* 219 &+ 127) / 255 &+ 16)
          }
        }
      }
      for index in 1...2 {
        let start = target.area + (index - 1) * chroma.area
        let plane = UnsafeMutableBufferPointer(rebasing: room[start..<(start + chroma.area)])
        guard source.sampling != .grey else {
          plane.update(repeating: 128)
          continue
        }
        source.reduceColour(index, into: plane, chroma)
        for at in plane.indices {
          let value = (Int32(truncatingIfNeeded: plane[at]) &- 128) &* 224
          plane[at] = UInt8(truncatingIfNeeded: (value + (value < 0 ? -127 : 127)) / 255 &+ 128)
        }
      }
      initialized = target.area + 2 * chroma.area
    }
  }
}
