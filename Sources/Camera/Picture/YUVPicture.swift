/// A picture in the form JPEG has it: brightness and two colour planes (BT.601, full range), the colours at full or lower resolution.
struct YUVPicture: Sendable, Equatable {
  /// How the colour planes relate to the brightness.
  enum Sampling: Int32, Sendable, CaseIterable {
    // The raw values are TurboJPEG's TJSAMP.
    case s444 = 0
    case s422 = 1
    case s420 = 2
    case grey = 3
    case s440 = 4
    case s411 = 5

    /// Pixels to a colour sample, across and down.
    var across: Int {
      switch self {
      case .s444, .grey, .s440: 1
      case .s422, .s420: 2
      case .s411: 4
      }
    }
    var down: Int { self == .s420 || self == .s440 ? 2 : 1 }
    var planeCount: Int { self == .grey ? 1 : 3 }

    /// With width and height exchanged; nil when JPEG has no such.
    var turned: Sampling? {
      switch self {
      case .s444, .s420, .grey: self
      case .s422: .s440
      case .s440: .s422
      case .s411: nil
      }
    }
  }

  /// Rows without padding.
  struct Plane: Sendable, Equatable {
    var size: Size
    var bytes: [UInt8]
    var width: Int { size.width }
    var height: Int { size.height }
  }

  let size: Size
  let sampling: Sampling
  /// Each of the size that `planeSize` says: an odd last column or row is there twice where colour samples span two.
  var planes: [Plane]

  init(_ size: Size, _ sampling: Sampling, planes: [Plane]) {
    precondition(planes.count == sampling.planeCount)
    self.size = size
    self.sampling = sampling
    self.planes = planes
  }

  /// A plane's size: 0 is brightness.
  static func planeSize(_ index: Int, of size: Size, _ sampling: Sampling) -> Size {
    let across = (size.width + sampling.across - 1) / sampling.across
    let down = (size.height + sampling.down - 1) / sampling.down
    return index == 0 ? Size(across * sampling.across, down * sampling.down) : Size(across, down)
  }

  /// Planes made by `fill`, which writes every byte of what it is given.
  static func made(
    _ size: Size, _ sampling: Sampling, _ fill: (inout [UnsafeMutableBufferPointer<UInt8>]) -> Void
  ) -> YUVPicture {
    let sizes = (0..<sampling.planeCount).map { planeSize($0, of: size, sampling) }
    let total = sizes.reduce(0) { $0 + $1.area }
    // One stretch of memory for all, cut up afterwards, would be copied; so a plane each.
    var planes = sizes.map { Plane(size: $0, bytes: []) }
    var pointers: [UnsafeMutableBufferPointer<UInt8>] = []
    pointers.reserveCapacity(sizes.count)
    func nest(_ index: Int) {
      if index == sizes.count { return fill(&pointers) }
      var bytes = SpareMemory.bytes(sizes[index].area)
      bytes.withUnsafeMutableBufferPointer { room in
        pointers.append(room)
        nest(index + 1)
      }
      planes[index].bytes = bytes
    }
    if total > 0 { nest(0) }
    return YUVPicture(size, sampling, planes: planes)
  }

  /// Ends it: its memory is the next picture's.
  mutating func recycle() {
    for index in planes.indices {
      var bytes: [UInt8] = []
      swap(&bytes, &planes[index].bytes)
      SpareMemory.keep(bytes)
    }
  }
}
