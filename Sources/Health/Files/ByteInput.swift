import Glibc
import System

/// Bytes from first to last.
public protocol ByteInput: AnyObject {
  /// Fills some of a buffer that is not empty; 0 at the end.
  func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int
}

/// Bytes in memory.
final class MemoryInput: ByteInput {
  private let bytes: [UInt8]
  private var at = 0
  init(_ bytes: [UInt8]) { self.bytes = bytes }

  func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
    let count = min(buffer.count, bytes.count - at)
    bytes.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[at..<(at + count)])) }
    at += count
    return count
  }
}

/// A file that is open for reading at any place. Not mapped: a mapped file that is cut short under the reader ends the program.
final class OpenFile {
  let descriptor: Int32
  let path: String
  let identity: FileIdentity

  init(_ path: String) throws(HealthError) {
    self.path = path
    // Not blocking, for a pipe in the folder would wait for its writer.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    if descriptor < 0 {
      throw HealthError(.unreadable, "It can't be opened: \(String(cString: strerror(errno))).")
    }
    guard let identity = FileIdentity(descriptor: descriptor) else {
      close(descriptor)
      throw HealthError(.unreadable, "It is no file.")
    }
    self.descriptor = descriptor
    self.identity = identity
  }

  deinit { close(descriptor) }

  var size: Int64 { identity.size }

  /// Some bytes from a place on; 0 at the end.
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
    while true {
      let count = pread(descriptor, buffer.baseAddress!, buffer.count, off_t(offset))
      if count >= 0 { return count }
      if errno != EINTR {
        throw HealthError(
          .unreadable, place: "at byte \(offset)", "It can't be read on: \(String(cString: strerror(errno))).")
      }
    }
  }

  /// Exactly so many bytes, at most 64 MB; nil when the file ends before.
  func bytes(at offset: Int64, count: Int) throws(HealthError) -> [UInt8]? {
    guard offset >= 0, count >= 0, count <= 64 << 20, Int64(count) <= size - offset else { return nil }
    var bytes = [UInt8](repeating: 0, count: count)
    var have = 0
    while have < count {
      let at = have
      var got = 0
      var failure: HealthError?
      bytes.withUnsafeMutableBytes { buffer in
        do throws(HealthError) {
          got = try read(at: offset + Int64(at), into: UnsafeMutableRawBufferPointer(rebasing: buffer[at...]))
        } catch { failure = error }
      }
      if let failure { throw failure }
      if got == 0 { return nil }
      have += got
    }
    return bytes
  }

  /// Whether the file is what it was when it was opened.
  var isUnchanged: Bool { FileIdentity(descriptor: descriptor) == identity && FileIdentity(path: path) == identity }
}

/// By what a file is known again: another version of it has another.
public struct FileIdentity: Sendable, Hashable {
  public let device: UInt64
  public let number: UInt64
  public let size: Int64
  /// Nanoseconds since 1970 of the last change.
  public let changed: Int64

  public init(device: UInt64, number: UInt64, size: Int64, changed: Int64) {
    self.device = device
    self.number = number
    self.size = size
    self.changed = changed
  }

  /// nil when it is no regular file.
  init?(descriptor: Int32) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return nil }
    self.init(status)
  }

  init?(path: String) {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    self.init(status)
  }

  private init?(_ status: stat) {
    guard status.st_mode & S_IFMT == S_IFREG else { return nil }
    self.init(
      device: UInt64(status.st_dev), number: UInt64(status.st_ino), size: Int64(status.st_size),
      changed: Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec))
  }
}

/// A part of an open file.
final class FileInput: ByteInput {
  private let file: OpenFile
  private var at: Int64
  private let end: Int64

  init(_ file: OpenFile, _ range: Range<Int64>? = nil) {
    self.file = file
    at = range?.lowerBound ?? 0
    end = range?.upperBound ?? .max
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
    let count = Int(min(Int64(buffer.count), end - at))
    if count <= 0 { return 0 }
    let got = try file.read(at: at, into: UnsafeMutableRawBufferPointer(rebasing: buffer[0..<count]))
    at += Int64(got)
    return got
  }
}

/// A window that slides over an input: some bytes at a time lie in memory.
final class BufferedInput {
  let bytes: UnsafeMutablePointer<UInt8>
  let capacity: Int
  /// What is in memory and not yet passed.
  private(set) var start = 0
  private(set) var end = 0
  /// Where in the input `bytes[0]` lies.
  private var base: Int64
  private(set) var hasEnded = false
  private let input: any ByteInput
  private let check: () throws(HealthError) -> Void

  /// - Parameters:
  ///   - offset: where in the file the input begins, for messages and the index.
  ///   - check: called before each reading; throws when nobody waits any more.
  init(
    _ input: any ByteInput, capacity: Int = 256 << 10, offset: Int64 = 0,
    check: @escaping () throws(HealthError) -> Void
  ) {
    self.input = input
    self.capacity = capacity
    self.check = check
    base = offset
    bytes = .allocate(capacity: capacity)
  }

  deinit { bytes.deallocate() }

  var available: Int { end - start }
  var position: Int64 { base + Int64(start) }
  var current: UnsafeMutablePointer<UInt8> { bytes + start }

  func skip(_ count: Int) { start += count }

  /// Moves on over any number of bytes; false when the input ends before.
  func skipFar(_ count: Int64) throws(HealthError) -> Bool {
    var left = count
    while left > Int64(available) {
      left -= Int64(available)
      start = end
      if try !more() { return false }
    }
    start += Int(left)
    return true
  }

  /// Brings at least `count` bytes (at most `capacity`) into memory; false when the input ends before.
  func ensure(_ count: Int) throws(HealthError) -> Bool {
    while available < count {
      if try !more() { return false }
    }
    return true
  }

  /// Brings in more; false when there is no more, or no room.
  func more() throws(HealthError) -> Bool {
    if hasEnded { return false }
    if start > 0 {
      memmove(bytes, bytes + start, end - start)
      base += Int64(start)
      end -= start
      start = 0
    }
    if end == capacity { return false }
    try check()
    let got = try input.read(into: UnsafeMutableRawBufferPointer(start: bytes + end, count: capacity - end))
    if got == 0 { hasEnded = true }
    end += got
    return got > 0
  }
}
