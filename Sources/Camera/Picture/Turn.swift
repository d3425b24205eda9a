/// Turning pictures upright.
extension YUVPicture {
  /// The picture as Exif's `orientation` says that it is to be seen; 1 and what is no orientation leave it as it is.
  func turned(_ orientation: Int) -> YUVPicture {
    guard (2...8).contains(orientation) else { return self }
    let swaps = orientation >= 5
    if swaps && sampling.turned == nil { return withFullColour().turned(orientation) }
    let sampling = swaps ? self.sampling.turned! : self.sampling
    let target = swaps ? Size(size.height, size.width) : size
    return .made(target, sampling) { rooms in
      for index in rooms.indices {
        // Of the brightness only what is the picture; what fills the last colour sample is made anew.
        let seen = index == 0 ? size : planes[index].size
        Self.turn(planes[index], seen, orientation, into: rooms[index], Self.planeSize(index, of: target, sampling))
      }
    }
  }

  private static func turn(
    _ plane: Plane, _ seen: Size, _ orientation: Int, into room: UnsafeMutableBufferPointer<UInt8>, _ goal: Size
  ) {
    let (width, height) = (seen.width, seen.height)
    plane.bytes.withUnsafeBufferPointer { source in
      for y in 0..<goal.height {
        for x in 0..<goal.width {
          let (u, v) = (
            min(x, (orientation >= 5 ? height : width) - 1), min(y, (orientation >= 5 ? width : height) - 1)
          )
          let (column, row) =
            switch orientation {
            case 2: (width - 1 - u, v)
            case 3: (width - 1 - u, height - 1 - v)
            case 4: (u, height - 1 - v)
            case 5: (v, u)
            case 6: (v, height - 1 - u)
            case 7: (width - 1 - v, height - 1 - u)
            default: (width - 1 - v, u)
            }
          room[y * goal.width + x] = source[row * plane.width + column]
        }
      }
    }
  }

  /// Each pixel with a colour of its own.
  func withFullColour() -> YUVPicture {
    .made(size, .s444) { rooms in
      for y in 0..<size.height {
        for x in 0..<size.width {
          rooms[0][y * size.width + x] = planes[0].bytes[y * planes[0].width + x]
          for index in 1...2 {
            let at = y / sampling.down * planes[index].width + x / sampling.across
            rooms[index][y * size.width + x] = planes[index].bytes[at]
          }
        }
      }
    }
  }
}
