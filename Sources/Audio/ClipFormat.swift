/// What a piece of received sound is said to be, and whether that can be played.
///
/// A gateway's voices send container files (MP3, WAV, FLAC, Ogg) or raw samples. Raw samples whose rate nobody names must
/// never be played: at a wrong rate they are noise at full volume.
public enum ClipFormat: Sendable, Equatable {
  /// Sixteen-bit little-endian mono samples at this rate.
  case samples(rate: Int)
  /// A file that says itself what it is.
  case container
  /// Samples without header and without a rate; the name that says so.
  case headerless(String)

  /// Decides by the format's name (`mp3_44100_128`, `pcm_24000`, `mulaw`), the MIME type and the file extension, any of
  /// which may be unknown. `pcm_<rate>` counts as samples only with `allowingSamples`; otherwise it is headerless too.
  public init(name: String?, mimeType: String? = nil, fileExtension: String? = nil, allowingSamples: Bool) {
    let name = (name ?? "").lowercased()
    if name.hasPrefix("pcm_") {
      if allowingSamples, let rate = Int(name.dropFirst(4)), (1...384_000).contains(rate) {
        self = .samples(rate: rate)
      } else {
        self = .headerless(name)
      }
      return
    }
    if Self.bareNames.contains(name) || Self.barePrefixes.contains(where: name.hasPrefix) {
      self = .headerless(name)
      return
    }
    let bare = (fileExtension ?? "").lowercased()
    let suffix = bare.hasPrefix(".") ? String(bare.dropFirst()) : bare
    // A MIME type may carry parameters: audio/L16;rate=24000. They are not trusted either (byte order is not named).
    let mime = String((mimeType ?? "").lowercased().prefix { $0 != ";" && !$0.isWhitespace })
    if Self.bareNames.contains(suffix) {
      self = .headerless(suffix)
    } else if Self.bareTypes.contains(mime) {
      self = .headerless(mime)
    } else {
      self = .container
    }
  }

  private static let bareNames: Set<String> = ["pcm", "raw", "mulaw", "ulaw", "alaw"]
  private static let barePrefixes = ["raw-", "raw_", "mulaw_", "ulaw_", "alaw_"]
  private static let bareTypes: Set<String> = ["audio/pcm", "audio/l16", "audio/pcmu", "audio/pcma", "audio/x-raw"]
}
