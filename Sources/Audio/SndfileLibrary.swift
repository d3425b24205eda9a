import CSndfile
import System

/// libsndfile's functions.
// @unchecked Sendable: the table is filled once and only read after that.
final class SndfileLibrary: @unchecked Sendable {
  private let table: csndfile

  static let shared: Result<SndfileLibrary, AudioError> = Result { () throws(AudioError) in try SndfileLibrary() }

  private init() throws(AudioError) {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libsndfile.so.1")
      var table = csndfile()
      if let missing = csndfile_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libsndfile.so.1", reason: "it has no \(String(cString: missing))")
      }
      self.table = table
    } catch {
      throw AudioError(
        .libraryMissing, "Sound files can't be read: \(error.library): \(error.reason).",
        remedy: "sudo apt install libsndfile1")
    }
  }

  /// For example `libsndfile-1.2.0`.
  var version: String { table.sf_version_string().map { String(cString: $0) } ?? "libsndfile" }

  /// The bytes and how far libsndfile has read them.
  private struct Cursor {
    let bytes: UnsafeRawBufferPointer
    var position = 0
  }

  func decode(_ bytes: [UInt8], container: AudioFile.Container, limits: AudioFile.Limits) throws(AudioError) -> PCM {
    let result: Result<PCM, AudioError> = bytes.withUnsafeBytes { raw in
      var cursor = Cursor(bytes: raw)
      return withUnsafeMutablePointer(to: &cursor) { cursor in
        Result { () throws(AudioError) in try decode(cursor, container: container, limits: limits) }
      }
    }
    return try result.get()
  }

  private func decode(
    _ cursor: UnsafeMutablePointer<Cursor>, container: AudioFile.Container, limits: AudioFile.Limits
  ) throws(AudioError) -> PCM {
    var access = SF_VIRTUAL_IO(
      get_filelen: { Int64($0!.assumingMemoryBound(to: Cursor.self).pointee.bytes.count) },
      seek: { offset, whence, user in
        let cursor = user!.assumingMemoryBound(to: Cursor.self)
        let base =
          whence == SF_SEEK_SET ? 0 : whence == SF_SEEK_CUR ? cursor.pointee.position : cursor.pointee.bytes.count
        let (target, overflow) = base.addingReportingOverflow(Int(offset))
        if overflow || target < 0 || target > cursor.pointee.bytes.count { return -1 }
        cursor.pointee.position = target
        return Int64(target)
      },
      read: { target, count, user in
        let cursor = user!.assumingMemoryBound(to: Cursor.self)
        let given = max(0, min(Int(count), cursor.pointee.bytes.count - cursor.pointee.position))
        if given > 0 {
          target!.copyMemory(from: cursor.pointee.bytes.baseAddress! + cursor.pointee.position, byteCount: given)
          cursor.pointee.position += given
        }
        return Int64(given)
      },
      write: { _, _, _ in 0 },
      tell: { Int64($0!.assumingMemoryBound(to: Cursor.self).pointee.position) })
    var info = SF_INFO()
    guard let file = table.sf_open_virtual(&access, Int32(SFM_READ), &info, cursor) else {
      throw refusal(container)
    }
    defer { _ = table.sf_close(file) }
    let rate = Int(info.samplerate)
    let channels = Int(info.channels)
    guard (1...768_000).contains(rate), (1...64).contains(channels) else {
      throw AudioError(.damaged, "The \(container.rawValue) sound names an impossible rate or number of channels.")
    }
    // The header's own length is only used to refuse early; what is really there is counted below.
    let most = limits.duration.samples(at: rate)
    if info.frames > most && info.frames != Int64.max { throw AudioFile.tooLong(limits) }
    let format = AudioFormat(.float32le, rate: rate, channels: channels)
    var sound: [Float] = []
    var block = [Float](repeating: 0, count: 4096 * channels)
    while true {
      let frames = Int(block.withUnsafeMutableBufferPointer { table.sf_readf_float(file, $0.baseAddress!, 4096) })
      if frames <= 0 { break }
      if sound.count + frames > most { throw AudioFile.tooLong(limits) }
      block.withUnsafeBytes {
        sound += format.mono(UnsafeRawBufferPointer(rebasing: $0[..<(min(frames, 4096) * format.frameSize)]))
      }
    }
    if sound.isEmpty { throw AudioError(.damaged, "The \(container.rawValue) sound is empty or damaged.") }
    return PCM(sound, rate: rate)
  }

  private func refusal(_ container: AudioFile.Container) -> AudioError {
    let reason = table.sf_strerror(nil).map { String(cString: $0) } ?? "no reason given"
    if table.sf_error(nil) == Int32(SF_ERR_UNRECOGNISED_FORMAT) {
      return AudioError(
        .formatUnsupported, "\(version) does not read this \(container.rawValue) sound: \(reason)",
        remedy: container == .ogg ? "Opus in Ogg needs libsndfile 1.0.29 or newer." : nil)
    }
    return AudioError(.damaged, "The \(container.rawValue) sound is damaged: \(reason)")
  }
}
