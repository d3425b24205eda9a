import CSndfile
import System

/// Sound files in memory: WAV, FLAC, Ogg (Vorbis, Opus) and MP3 are read, WAV is written.
public enum AudioFile {
  /// What is accepted of foreign bytes.
  public struct Limits: Sendable {
    /// Bytes of the file.
    public var bytes: Int
    /// Length of the sound.
    public var duration: Duration

    public init(bytes: Int = 32 << 20, duration: Duration = .seconds(300)) {
      self.bytes = bytes
      self.duration = duration
    }
  }

  /// The containers that are told apart by their first bytes.
  public enum Container: String, Sendable, CaseIterable {
    case wav = "WAV"
    case flac = "FLAC"
    case ogg = "Ogg"
    case mp3 = "MP3"
    /// Recognised, so that the message is clear, but not read.
    case webm = "WebM"
    case mp4 = "MP4"
    case aiff = "AIFF"

    /// Nil when the bytes begin like none of them.
    public init?(_ bytes: [UInt8]) {
      func has(_ text: String, at offset: Int = 0) -> Bool {
        bytes.count >= offset + text.utf8.count && bytes[offset...].starts(with: text.utf8)
      }
      if (has("RIFF") || has("RIFX") || has("RF64")) && has("WAVE", at: 8) {
        self = .wav
      } else if has("fLaC") {
        self = .flac
      } else if has("OggS") {
        self = .ogg
      } else if has("FORM") && (has("AIFF", at: 8) || has("AIFC", at: 8)) {
        self = .aiff
      } else if has("ftyp", at: 4) {
        self = .mp4
      } else if bytes.starts(with: [0x1A, 0x45, 0xDF, 0xA3]) {
        self = .webm
      } else if has("ID3") || Self.isMPEGAudioFrame(bytes) {
        self = .mp3
      } else {
        return nil
      }
    }

    /// Eleven set bits, then a version, a layer, a bit rate and a sample rate that exist (ISO 11172-3 §2.4.1).
    private static func isMPEGAudioFrame(_ bytes: [UInt8]) -> Bool {
      guard bytes.count >= 4, bytes[0] == 0xFF, bytes[1] & 0xE0 == 0xE0 else { return false }
      return bytes[1] & 0x18 != 0x08 && bytes[1] & 0x06 != 0 && bytes[2] & 0xF0 != 0xF0 && bytes[2] & 0x0C != 0x0C
    }
  }

  /// The sound in a file, mixed down to mono at its own rate.
  ///
  /// Takes milliseconds to seconds of computing, so it leaves the caller's executor. Throws `formatUnsupported` (unknown container,
  /// or one that this libsndfile does not read), `damaged`, `tooLong` or `libraryMissing`.
  @concurrent
  public static func decode(_ bytes: [UInt8], limits: Limits = Limits()) async throws(AudioError) -> PCM {
    try decodeNow(bytes, limits: limits)
  }

  /// The sound in received bytes, by what they are said to be.
  ///
  /// Throws `formatHeaderless` for samples without a known rate, and whatever `decode(_:limits:)` throws.
  @concurrent
  public static func decode(
    _ bytes: [UInt8], as format: ClipFormat, limits: Limits = Limits()
  ) async throws(AudioError) -> PCM {
    switch format {
    case .container: return try decodeNow(bytes, limits: limits)
    case .headerless(let name):
      throw AudioError(.formatHeaderless, "The sound is raw samples (\(name)) whose rate nobody names.")
    case .samples(let rate):
      if bytes.count > limits.bytes { throw tooLarge(limits) }
      if bytes.count < 2 { throw AudioError(.damaged, "The sound is empty.") }
      let sound = PCM(littleEndian: bytes, rate: rate)
      if sound.duration > limits.duration { throw tooLong(limits) }
      return sound
    }
  }

  /// Decodes on the calling thread. For fuzzing and for threads that may compute.
  public static func decodeNow(_ bytes: [UInt8], limits: Limits = Limits()) throws(AudioError) -> PCM {
    if bytes.count > limits.bytes { throw tooLarge(limits) }
    guard let container = Container(bytes) else {
      throw AudioError(.formatUnsupported, "The sound is in a file format that is not known here.")
    }
    switch container {
    case .wav, .flac, .ogg, .mp3: break
    case .webm, .mp4, .aiff:
      throw AudioError(.formatUnsupported, "\(container.rawValue) sound can't be played here.")
    }
    return try SndfileLibrary.shared.get().decode(bytes, container: container, limits: limits)
  }

  /// A WAV file of sixteen-bit mono samples.
  public static func wav(_ sound: PCM) -> [UInt8] {
    let data = sound.littleEndian
    func four(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
    func two(_ value: Int) -> [UInt8] { (0..<2).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
    var out = Array("RIFF".utf8) + four(36 + data.count) + Array("WAVEfmt ".utf8) + four(16)
    out += two(1) + two(1) + four(sound.rate) + four(sound.rate * 2) + two(2) + two(16)
    out += Array("data".utf8) + four(data.count)
    return out + data
  }

  static func tooLarge(_ limits: Limits) -> AudioError {
    AudioError(.tooLong, "The sound file is larger than \(limits.bytes >> 20) MiB.")
  }
  static func tooLong(_ limits: Limits) -> AudioError {
    AudioError(.tooLong, "The sound is longer than \(Int(limits.duration.inSeconds)) seconds.")
  }
}

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
      // MP3 came with libsndfile 1.1, Opus in Ogg with 1.0.29.
      return AudioError(
        .formatUnsupported, "\(version) does not read this \(container.rawValue) sound: \(reason)",
        remedy: container == .mp3 ? "MP3 needs libsndfile 1.1 or newer." : nil)
    }
    return AudioError(.damaged, "The \(container.rawValue) sound is damaged: \(reason)")
  }
}
