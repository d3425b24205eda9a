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
  public static func decode(_ bytes: [UInt8], limits: Limits = Limits()) async throws(AudioError) -> PCM {
    try await elsewhere { () throws(AudioError) in try decodeNow(bytes, limits: limits) }.get()
  }

  /// The sound in received bytes, by what they are said to be.
  ///
  /// Throws `formatHeaderless` for samples without a known rate, and whatever `decode(_:limits:)` throws.
  public static func decode(
    _ bytes: [UInt8], as format: ClipFormat, limits: Limits = Limits()
  ) async throws(AudioError) -> PCM {
    try await elsewhere { () throws(AudioError) in try decodeNow(bytes, as: format, limits: limits) }.get()
  }

  /// A result and no throw: after a typed throw out of a `@concurrent` function the caller's caller goes on off its actor (Swift 6.3).
  @concurrent
  private static func elsewhere(_ work: @Sendable () throws(AudioError) -> PCM) async -> Result<PCM, AudioError> {
    Result { () throws(AudioError) in try work() }
  }

  private static func decodeNow(
    _ bytes: [UInt8], as format: ClipFormat, limits: Limits
  ) throws(AudioError) -> PCM {
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
    case .wav, .flac, .ogg: return try SndfileLibrary.shared.get().decode(bytes, container: container, limits: limits)
    case .mp3: return try Mpg123Library.shared.get().decode(bytes, limits: limits)
    case .webm, .mp4, .aiff:
      throw AudioError(.formatUnsupported, "\(container.rawValue) sound can't be played here.")
    }
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
