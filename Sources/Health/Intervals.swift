/// Stretches of time that do not touch, ascending; milliseconds, ends left out.
struct Intervals: Sendable, Equatable {
  private(set) var ranges: [Range<Int64>] = []

  init() {}

  /// The union of any stretches.
  init(_ stretches: some Sequence<Range<Int64>>) {
    for stretch in stretches.sorted(by: { $0.lowerBound < $1.lowerBound }) where !stretch.isEmpty { append(stretch) }
  }

  var length: Int64 { ranges.reduce(0) { $0 + $1.upperBound - $1.lowerBound } }
  var isEmpty: Bool { ranges.isEmpty }

  func union(_ other: Intervals) -> Intervals {
    var union = Intervals()
    union.ranges.reserveCapacity(ranges.count + other.ranges.count)
    var (left, right) = (ranges[...], other.ranges[...])
    while let range = (left.first?.lowerBound ?? .max) <= (right.first?.lowerBound ?? .max)
      ? left.popFirst() : right.popFirst()
    {
      union.append(range)
    }
    return union
  }

  /// A stretch that begins no earlier than the last one.
  private mutating func append(_ stretch: Range<Int64>) {
    if let last = ranges.last, stretch.lowerBound <= last.upperBound {
      ranges[ranges.count - 1] = last.lowerBound..<max(last.upperBound, stretch.upperBound)
    } else {
      ranges.append(stretch)
    }
  }

  /// How much of a stretch lies in here.
  func overlap(_ stretch: Range<Int64>) -> Int64 {
    var low = first(after: stretch.lowerBound)
    var length: Int64 = 0
    while low < ranges.count, ranges[low].lowerBound < stretch.upperBound {
      length += min(ranges[low].upperBound, stretch.upperBound) - max(ranges[low].lowerBound, stretch.lowerBound)
      low += 1
    }
    return length
  }

  /// Whether some of a stretch lies in here.
  func touches(_ stretch: Range<Int64>) -> Bool {
    let index = first(after: stretch.lowerBound)
    return index < ranges.count && ranges[index].lowerBound < stretch.upperBound
  }

  /// The index of the first one that ends later; all that there are when none does.
  private func first(after time: Int64) -> Int {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].upperBound <= time { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

extension Intervals {
  /// What of a stretch does not lie in here.
  func gaps(in stretch: Range<Int64>) -> [Range<Int64>] {
    var gaps: [Range<Int64>] = []
    var at = stretch.lowerBound
    for range in ranges[first(after: stretch.lowerBound)...].prefix(while: { $0.lowerBound < stretch.upperBound }) {
      if range.lowerBound > at { gaps.append(at..<range.lowerBound) }
      at = max(at, range.upperBound)
    }
    if at < stretch.upperBound { gaps.append(at..<stretch.upperBound) }
    return gaps
  }
}
