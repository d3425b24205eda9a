import CMpg123
import System

/// libmpg123's functions: MP3, which libsndfile reads by this very library, but only since its version 1.1, and with a line on
/// standard error for every damaged frame.
// @unchecked Sendable: the table is filled once and only read after that.
final class Mpg123Library: @unchecked Sendable {
  private let table: cmpg123

  static let shared: Result<Mpg123Library, AudioError> = Result { () throws(AudioError) in try Mpg123Library() }

  private init() throws(AudioError) {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libmpg123.so.0")
      var table = cmpg123()
      if let missing = cmpg123_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libmpg123.so.0", reason: "it has no \(String(cString: missing))")
      }
      // Needed before version 1.27, harmless after it.
      _ = table.mpg123_init()
      self.table = table
    } catch {
      throw AudioError(
        .libraryMissing, "MP3 can't be read: \(error.library): \(error.reason).", remedy: "sudo apt install libmpg123-0"
      )
    }
  }

  func decode(_ bytes: [UInt8], limits: AudioFile.Limits) throws(AudioError) -> PCM {
    var code: Int32 = 0
    guard let decoder = table.mpg123_new(nil, &code) else { throw damaged(code) }
    defer { table.mpg123_delete(decoder) }
    let flags = Int(MPG123_QUIET.rawValue | MPG123_FORCE_FLOAT.rawValue | MPG123_MONO_MIX.rawValue)
    code = table.mpg123_param(decoder, MPG123_ADD_FLAGS, flags, 0)
    // Whatever is damaged is skipped up to the end of the file.
    if code == 0 { code = table.mpg123_param(decoder, MPG123_RESYNC_LIMIT, -1, 0) }
    if code == 0 { code = table.mpg123_open_feed(decoder) }
    if code == 0 { code = bytes.withUnsafeBytes { table.mpg123_feed(decoder, $0.baseAddress, $0.count) } }
    if code != 0 { throw damaged(code) }
    var rate = 0
    var sound: [Float] = []
    var block = [Float](repeating: 0, count: 8192)
    while true {
      var done = 0
      let code = block.withUnsafeMutableBytes { table.mpg123_read(decoder, $0.baseAddress, $0.count, &done) }
      sound += block[..<(done / MemoryLayout<Float>.size)]
      if rate > 0 && sound.count > limits.duration.samples(at: rate) { throw AudioFile.tooLong(limits) }
      if code == MPG123_NEW_FORMAT.rawValue {
        var (newRate, channels, encoding) = (0, Int32(0), Int32(0))
        _ = table.mpg123_getformat(decoder, &newRate, &channels, &encoding)
        // A change of rate in mid-file is damage, or another sound glued behind this one: what came before it counts.
        if rate != 0 && newRate != rate { break }
        guard (1...768_000).contains(newRate), channels == 1, encoding == MPG123_ENC_FLOAT_32.rawValue else {
          throw damaged(0)
        }
        rate = newRate
      } else if code != MPG123_OK.rawValue {
        // The end of what was fed, or of what can be read.
        break
      }
    }
    if sound.isEmpty || rate == 0 { throw damaged(0) }
    // The decoder's floats may go a little beyond full scale, and a damaged file's anywhere.
    for index in sound.indices {
      let sample = sound[index]
      sound[index] = sample.isNaN ? 0 : max(-1, min(1, sample))
    }
    return PCM(sound, rate: rate)
  }

  private func damaged(_ code: Int32) -> AudioError {
    let reason = code == 0 ? nil : table.mpg123_plain_strerror(code).map { String(cString: $0) }
    return AudioError(.damaged, "The MP3 sound is empty or damaged" + (reason.map { ": \($0)" } ?? "") + ".")
  }
}
