/// Making pictures smaller.
extension YUVPicture {
  /// The picture at a smaller size, each pixel the mean of the area it stands for. Larger sizes than its own are not made.
  func scaled(to target: Size) -> YUVPicture {
    resized(to: Size(min(target.width, size.width), min(target.height, size.height)))
  }

  /// The picture at any size: smaller as `scaled` makes it, larger with each pixel as often as is needed.
  func resized(to target: Size) -> YUVPicture {
    let wanted = Size(max(1, target.width), max(1, target.height))
    if wanted == size { return self }
    return .made(wanted, sampling) { rooms in
      for index in rooms.indices {
        let goal = Self.planeSize(index, of: wanted, sampling)
        // The colour planes cover the same picture: what they have beyond its edge is of no weight.
        let seen = Size(
          index == 0 ? size.width : planes[index].width, index == 0 ? size.height : planes[index].height)
        Self.reduce(planes[index], seen, into: rooms[index], goal)
      }
    }
  }

  /// The part that each of `count` outputs has in `source` inputs: where it begins, and weights that sum to 4096.
  private struct Spans {
    var first: [Int32] = []
    var start: [Int32] = [0]
    var weights: [UInt32] = []

    init(from source: Int, to count: Int) {
      for index in 0..<count {
        let (low, high) = (index * source, (index + 1) * source)
        let begin = low / count
        let end = (high + count - 1) / count
        var parts = (begin..<end).map { input in
          let overlap = min(high, (input + 1) * count) - max(low, input * count)
          return UInt32((overlap * 4096 + source / 2) / source)
        }
        // Rounding goes to the middle, where it weighs least.
        let sum = parts.reduce(0, +)
        parts[parts.count / 2] = parts[parts.count / 2] &+ 4096 &- sum
        first.append(Int32(begin))
        weights += parts
        start.append(Int32(weights.count))
      }
    }
  }

  /// A colour plane at the resolution of 4:2:0.
  func reduceColour(_ index: Int, into room: UnsafeMutableBufferPointer<UInt8>, _ goal: Size) {
    Self.reduce(planes[index], planes[index].size, into: room, goal)
  }

  private static func reduce(
    _ plane: Plane, _ seen: Size, into room: UnsafeMutableBufferPointer<UInt8>, _ goal: Size
  ) {
    let across = Spans(from: min(seen.width, plane.width), to: goal.width)
    let down = Spans(from: min(seen.height, plane.height), to: goal.height)
    let width = plane.width
    withUnsafeTemporaryAllocation(of: UInt32.self, capacity: width) { sums in
      plane.bytes.withUnsafeBufferPointer { source in
        let line = sums.baseAddress!
        for y in 0..<goal.height {
          sums.update(repeating: 0)
          // Rows first: the inner loop is plain and becomes vector code. At most 255 × 4096.
          for part in Int(down.start[y])..<Int(down.start[y + 1]) {
            let row = source.baseAddress! + (Int(down.first[y]) + part - Int(down.start[y])) * width
            let weight = down.weights[part]
            if weight == 0 { continue }
            for x in 0..<width { line[x] = line[x] &+ UInt32(truncatingIfNeeded: row[x]) &* weight }
          }
          across.first.withUnsafeBufferPointer { first in
            across.start.withUnsafeBufferPointer { start in
              across.weights.withUnsafeBufferPointer { weights in
                for x in 0..<goal.width {
                  // At most 255 × 4096 × 4096, which fits.
                  var sum: UInt32 = 1 << 23
                  var input = Int(first[x])
                  for part in Int(start[x])..<Int(start[x + 1]) {
                    sum = sum &+ line[input] &* weights[part]
                    input += 1
                  }
                  room[y * goal.width + x] = UInt8(truncatingIfNeeded: sum >> 24)
                }
              }
            }
          }
        }
      }
    }
  }
}
