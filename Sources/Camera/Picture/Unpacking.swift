/// Takes the samples of a raw frame out of its rows and into JPEG's range: brightness from 16…235, colours from 16…240 about 128, both to
/// 0…255.
///
/// Plain loops with numbers of 16 bits and a step that is known, which the compiler turns into vector code: a row of 4:2:2 read three
/// times takes half as long as one that is taken apart in one pass.
enum Unpacking {
  /// Brightness: `count` samples, each `step` (1, 2 or 4) bytes after the last. May be done in place.
  static func luma(
    _ source: UnsafePointer<UInt8>, step: Int, to target: UnsafeMutablePointer<UInt8>, _ count: Int,
    _ range: ColourRange
  ) {
    if range.isFull { return copy(source, step, target, count) }
    every(step, of: source, to: target, count) { wide(luma: $0) }
  }

  /// One of the colours, likewise.
  static func colour(
    _ source: UnsafePointer<UInt8>, step: Int, to target: UnsafeMutablePointer<UInt8>, _ count: Int,
    _ range: ColourRange
  ) {
    if range.isFull { return copy(source, step, target, count) }
    every(step, of: source, to: target, count) { wide(colour: $0) }
  }

  private static func copy(
    _ source: UnsafePointer<UInt8>, _ step: Int, _ target: UnsafeMutablePointer<UInt8>, _ count: Int
  ) {
    if step == 1 { return target.update(from: source, count: count) }
    every(step, of: source, to: target, count) { $0 }
  }

  /// Each step that occurs has a loop of its own: only one that is known becomes vector code.
  @inline(__always)
  private static func every(
    _ step: Int, of source: UnsafePointer<UInt8>, to target: UnsafeMutablePointer<UInt8>, _ count: Int,
    _ change: (UInt8) -> UInt8
  ) {
    @inline(__always) func each(_ step: Int) {
      for index in 0..<count { target[index] = change(source[index &* step]) }
    }
    switch step {
    case 1: each(1)
    case 2: each(2)
    case 4: each(4)
    default: each(step)
    }
  }

  /// 149/128 = 1.1641; 255/219 = 1.1644.
  @inline(__always)
  private static func wide(luma value: UInt8) -> UInt8 {
    UInt8(truncatingIfNeeded: ((min(max(UInt16(truncatingIfNeeded: value), 16), 235) &- 16) &* 149 &+ 64) &>> 7)
  }

  /// 1 + 283/2048 = 1.1382; 255/224 = 1.1384. Rounded a little down, so that 16 is 0.
  @inline(__always)
  private static func wide(colour value: UInt8) -> UInt8 {
    let distance = min(max(Int16(truncatingIfNeeded: value), 16), 240) &- 128
    return UInt8(truncatingIfNeeded: distance &+ ((distance &* 283 &+ 960) &>> 11) &+ 128)
  }
}
