import System

/// The memory of pictures that nobody needs any more, for the next ones of that size. What the kernel gives out it has to find and clear
/// first: 3.8 ms for the planes of 1920 × 1080, which are filled in 1.4 ms.
///
/// Bounded: beyond `bound` bytes the oldest go. Empty again when a camera is closed.
enum SpareMemory {
  private static let spare = Lock<[[UInt8]]>([])
  /// Two pictures of 1920 × 1080.
  private static let bound = 8 << 20

  /// `count` bytes of no particular content.
  static func bytes(_ count: Int) -> [UInt8] {
    let found = spare.withLock { spare in
      spare.lastIndex { $0.count == count }.map { spare.remove(at: $0) }
    }
    return found ?? [UInt8](unsafeUninitializedCapacity: count) { $1 = count }
  }

  static func keep(_ bytes: consuming [UInt8]) {
    let bytes = bytes
    if bytes.isEmpty || bytes.count > bound { return }
    spare.withLock { spare in
      spare.append(bytes)
      while spare.reduce(0, { $0 + $1.count }) > bound { spare.removeFirst() }
    }
  }

  static func clear() { spare.withLock { $0 = [] } }
}
