// covers, as jpeg: Sources/Camera/JPEG/JPEGRepair.swift Sources/Camera/JPEG/Orientation.swift
// covers, as recording: Sources/Camera/JPEG/JPEGSplitter.swift
import Camera

/// What cameras call a JPEG: what comes out is a file that needs no more cleaning, with a size that can be worked with.
@Sendable func fuzzJPEG(_ bytes: UnsafeRawBufferPointer) {
  guard let cleaned = try? JPEGRepair([UInt8](bytes)) else { return }
  precondition((1...8).contains(cleaned.orientation) && [1, 3, 4].contains(cleaned.components))
  precondition(cleaned.size.width > 0 && cleaned.size.height > 0 && cleaned.size.area <= 80_000_000)
  precondition(cleaned.isChanged || cleaned.bytes.elementsEqual(bytes), "changed without saying so")
  precondition(cleaned.bytes.starts(with: [0xFF, 0xD8]) && cleaned.bytes.suffix(2) == [0xFF, 0xD9])
  guard let again = try? JPEGRepair(cleaned.bytes) else {
    // So little may be left that it is no picture any more.
    precondition(cleaned.bytes.count < 100, "a cleaned file is refused")
    return
  }
  precondition(again.bytes == cleaned.bytes && again.size == cleaned.size, "cleaned twice is something else")
  precondition(again.orientation == 1, "the orientation is still in it")
}

/// A stream of JPEGs: the first byte says in what pieces it comes, which may not change what is found.
@Sendable func fuzzRecording(_ bytes: UnsafeRawBufferPointer) {
  guard let first = bytes.first else { return }
  let stream = [UInt8](bytes.dropFirst())
  func frames(in step: Int) -> [[UInt8]] {
    var splitter = JPEGSplitter()
    var found: [[UInt8]] = []
    var start = 0
    while start < stream.count {
      let end = min(start + step, stream.count)
      splitter.feed(Array(stream[start..<end]))
      while let frame = splitter.next() { found.append(frame) }
      start = end
    }
    while let frame = splitter.finish() { found.append(frame) }
    return found
  }
  let whole = frames(in: max(1, stream.count))
  precondition(whole == frames(in: 1 + Int(first) % 64), "a stream in pieces is cut otherwise")
  precondition(whole.allSatisfy { $0.starts(with: [0xFF, 0xD8]) }, "a frame without a beginning")
  precondition(whole.reduce(0) { $0 + $1.count } <= stream.count, "more than there was")
}
