import CZlib
import Glibc
import System

/// libz, opened when a zip is first read.
// @unchecked Sendable: the table is written once, and holds functions of the library alone.
struct ZlibLibrary: @unchecked Sendable {
  let functions: czlib

  static let shared: Result<ZlibLibrary, HealthError> = {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libz.so.1")
      var functions = czlib()
      if let symbol = czlib_load(&functions, library.handle) {
        return .failure(
          HealthError(
            .missing, "libz.so.1 is too old: it has no \(String(cString: symbol)).", remedy: "apt install zlib1g"))
      }
      return .success(ZlibLibrary(functions: functions))
    } catch {
      return .failure(
        HealthError(.missing, "zlib is not installed, so no zip can be read.", remedy: "apt install zlib1g"))
    }
  }()
}

/// Unpacks a raw deflate stream, and checks what comes out.
final class InflateInput: ByteInput {
  private let functions: czlib
  private let packed: BufferedInput
  private let stream: UnsafeMutablePointer<z_stream>
  private var hasEnded = false
  private var checksum: UInt
  private let expected: UInt32?
  private var left: Int64
  private var pending: HealthError?

  /// - Parameters:
  ///   - size: of what is unpacked; more than that is damage.
  ///   - expected: its CRC-32; nil = not known.
  init(_ packed: BufferedInput, size: Int64?, expected: UInt32?) throws(HealthError) {
    functions = try ZlibLibrary.shared.get().functions
    self.packed = packed
    self.expected = expected
    left = size ?? .max
    checksum = UInt(functions.crc32(0, nil, 0))
    stream = .allocate(capacity: 1)
    stream.initialize(to: z_stream())
    // -15: no header of zlib's own, as in zip files.
    let code = functions.inflateInit2_(
      stream, -15, functions.zlibVersion(), Int32(MemoryLayout<z_stream>.size))
    // `deinit` frees the stream: all is set.
    if code != Z_OK { throw HealthError(.unreadable, "zlib does not start (\(code)).") }
  }

  deinit {
    _ = functions.inflateEnd(stream)
    stream.deallocate()
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
    if let pending { throw pending }
    if hasEnded { return 0 }
    let out = buffer.baseAddress!.assumingMemoryBound(to: UInt8.self)
    stream.pointee.next_out = out
    stream.pointee.avail_out = UInt32(clamping: buffer.count)
    while stream.pointee.next_out == out {
      if packed.available == 0, try !packed.more() {
        throw .damaged(at: packed.position, "The archive ends in the middle of a file.")
      }
      stream.pointee.next_in = packed.current
      stream.pointee.avail_in = UInt32(packed.available)
      let code = functions.inflate(stream, Z_NO_FLUSH)
      packed.skip(packed.available - Int(stream.pointee.avail_in))
      if code == Z_STREAM_END {
        hasEnded = true
        break
      }
      if code != Z_OK && code != Z_BUF_ERROR {
        let damage = HealthError.damaged(at: packed.position, "What is packed there can't be unpacked.")
        if stream.pointee.next_out == out { throw damage }
        pending = damage
        break
      }
    }
    let count = stream.pointee.next_out - out
    left -= Int64(count)
    if left < 0 { throw .damaged(at: packed.position, "More is packed there than the archive says.") }
    checksum = UInt(functions.crc32(checksum, out, UInt32(count)))
    if hasEnded, let expected, UInt32(truncatingIfNeeded: checksum) != expected {
      // Told with the next reading: the last bytes are most likely right, and the reader shall have them.
      pending = .damaged(at: packed.position, "The checksum is wrong: some of it may be damaged.")
      if count == 0 { throw pending! }
    }
    return count
  }
}
