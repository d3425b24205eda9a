import Glibc
import System

/// One file to be read: on disk, in a zip, or in memory.
public final class HealthInput {
  /// Its name with the folders it lies in.
  public let name: String
  /// Bytes; nil when that is not known beforehand.
  public let size: Int64?
  /// Where it lies on disk as a file of its own.
  public let path: String?
  private let file: OpenFile?
  private let opener: () throws(HealthError) -> any ByteInput
  /// The parts to read, when it is known where the wanted days lie.
  var ranges: [Range<Int64>]?
  /// Is told where records of which time lie, when an index is to be made.
  var blocks: BlockMap?

  /// Anything that gives bytes; `opener` is called each time that they are read from the beginning.
  public init(name: String, size: Int64?, _ opener: @escaping () throws(HealthError) -> any ByteInput) {
    self.name = name
    self.size = size
    path = nil
    file = nil
    self.opener = opener
  }

  /// A file on disk.
  init(name: String, file: OpenFile) {
    self.name = name
    size = file.size
    path = file.path
    self.file = file
    opener = { FileInput(file) }
  }

  /// Bytes in memory.
  public convenience init(name: String, bytes: [UInt8]) {
    self.init(name: name, size: Int64(bytes.count)) { MemoryInput(bytes) }
  }

  /// All of it, from the beginning.
  func open() throws(HealthError) -> any ByteInput { try opener() }

  /// A part of it; only of files on disk.
  func open(_ range: Range<Int64>) throws(HealthError) -> any ByteInput {
    guard let file else { throw HealthError(.unreadable, "It can't be read from its middle.") }
    return FileInput(file, range)
  }

  /// The first bytes, at most 4096; fewer when it can't be read.
  func head() -> [UInt8] {
    guard let input = try? open() else { return [] }
    var head = [UInt8](repeating: 0, count: 4096)
    var have = 0
    while have < head.count {
      let got = head.withUnsafeMutableBytes { buffer in
        (try? input.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[have...]))) ?? 0
      }
      if got == 0 { break }
      have += got
    }
    return Array(head.prefix(have))
  }

  /// All of it in memory. Throws `tooLarge` beyond `limit` bytes.
  func bytes(limit: Int) throws(HealthError) -> [UInt8] {
    let input = try open()
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let result = chunk.withUnsafeMutableBytes { buffer in
        Result { () throws(HealthError) in try input.read(into: buffer) }
      }
      let got = try result.get()
      if got == 0 { return bytes }
      if bytes.count + got > limit { throw HealthError(.tooLarge, "It is larger than \(limit >> 20) MB.") }
      bytes += chunk[0..<got]
    }
  }

  /// Runs `body` with a path at which a C library can open the whole file. What is no file on disk is written to one in `folder`, of which
  /// `body` is told that it is ours; it has a name only until `body` has opened it, so that nothing stays behind.
  func withFile(
    folder: String, check: () throws(HealthError) -> Void, _ body: (String, _ isOurs: Bool) throws(HealthError) -> Void
  ) throws(HealthError) {
    if let path { return try body(path, false) }
    let unpacked = try UnpackedFile(in: folder)
    var failure: HealthError?
    do throws(HealthError) { try unpack(to: unpacked.descriptor, check: check) } catch {
      if error.code != .damaged { throw error }
      // What is there of it may still be read.
      failure = error
    }
    let path = try unpacked.named()
    do throws(HealthError) { try body(path, true) } catch { throw failure ?? error }
    if let failure { throw failure }
  }

  private func unpack(to descriptor: Int32, check: () throws(HealthError) -> Void) throws(HealthError) {
    let input = try open()
    var left: Int64 = 8 << 30
    var chunk = [UInt8](repeating: 0, count: 256 << 10)
    while true {
      try check()
      let result = chunk.withUnsafeMutableBytes { buffer in
        Result { () throws(HealthError) in try input.read(into: buffer) }
      }
      let got = try result.get()
      if got == 0 { return }
      left -= Int64(got)
      if left < 0 { throw HealthError(.tooLarge, "It unpacks to more than 8 GB.") }
      do throws(SystemError) {
        try Files.write(Array(chunk[0..<got]), to: descriptor, named: "the unpacked file")
      } catch {
        throw HealthError(.unreadable, "It can't be unpacked: \(error.reason).")
      }
    }
  }
}

/// Where in a long file records of which time lie: a stretch of bytes each, with the earliest and latest minute in it. The stretches follow
/// one another; those without records of use are left out.
public final class BlockMap {
  public struct Block: Sendable, Equatable {
    public var start: Int64
    public var end: Int64
    /// Minutes since 1970.
    public var from: Int32
    public var to: Int32
    public init(start: Int64, end: Int64, from: Int32, to: Int32) {
      self.start = start
      self.end = end
      self.from = from
      self.to = to
    }
  }

  public private(set) var blocks: [Block] = []
  private let length: Int64 = 128 << 10

  public init() {}

  /// An element of some time (milliseconds) lies at these bytes. In ascending order.
  func note(_ start: Int64, _ end: Int64, from: Int64, to: Int64) {
    let from = Int32(clamping: from.floorDivided(by: 60_000))
    let to = Int32(clamping: to.floorDivided(by: 60_000))
    if let last = blocks.last, end - last.start <= length {
      blocks[blocks.count - 1] = Block(
        start: last.start, end: end, from: min(last.from, from), to: max(last.to, to))
    } else {
      blocks.append(Block(start: start, end: end, from: from, to: to))
    }
  }

  /// The bytes that may hold records of a span (milliseconds), neighbours joined.
  static func ranges(_ blocks: [Block], touching span: Range<Int64>) -> [Range<Int64>] {
    let from = Int32(clamping: span.lowerBound.floorDivided(by: 60_000))
    let to = Int32(clamping: span.upperBound.floorDivided(by: 60_000))
    var ranges: [Range<Int64>] = []
    for block in blocks where block.to >= from && block.from <= to && block.start < block.end {
      if let last = ranges.last, block.start <= last.upperBound {
        ranges[ranges.count - 1] = last.lowerBound..<max(last.upperBound, block.end)
      } else {
        ranges.append(block.start..<block.end)
      }
    }
    return ranges
  }
}
