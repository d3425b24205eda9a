/// What the encoder says.
public enum EncoderReply: Sendable, Equatable {
  public enum Failure: UInt8, Sendable {
    /// The clip does not fit into its limit.
    case tooLarge = 1
    /// This machine's libavcodec has no encoder for it.
    case noEncoder = 2
    /// The input made no sense, or has no frame.
    case badInput = 3
    /// libavcodec or libavformat refused.
    case encoding = 4
  }

  /// The encoder that is used, by libavcodec's name.
  case ready(encoder: String)
  /// The finished clip.
  case movie([UInt8])
  /// In a few words for a person; without the clip's content.
  case failed(Failure, String)

  private enum Kind {
    static let ready = UInt8(ascii: "r")
    static let movie = UInt8(ascii: "m")
    static let failed = UInt8(ascii: "x")
  }
  /// The longest text, in bytes.
  private static let longestText = 500
  /// The longest payload of a reply for a clip of at most `maxBytes`.
  public static func longest(maxBytes: Int) -> Int { max(maxBytes, longestText + 1) }

  public var message: EncoderMessage {
    switch self {
    case .ready(let encoder):
      EncoderMessage(kind: Kind.ready, payload: Array(encoder.utf8.prefix(Self.longestText)))
    case .movie(let bytes):
      EncoderMessage(kind: Kind.movie, payload: bytes)
    case .failed(let failure, let text):
      EncoderMessage(kind: Kind.failed, payload: [failure.rawValue] + text.utf8.prefix(Self.longestText))
    }
  }

  /// Reads a message of the encoder.
  public init(_ message: EncoderMessage) throws(EncoderProtocolError) {
    switch message.kind {
    case Kind.ready:
      self = .ready(encoder: String(decoding: message.payload.prefix(Self.longestText), as: UTF8.self))
    case Kind.movie:
      self = .movie(message.payload)
    case Kind.failed:
      guard let first = message.payload.first, let failure = Failure(rawValue: first) else {
        throw EncoderProtocolError("a failure of no known kind")
      }
      self = .failed(
        failure, String(decoding: message.payload.dropFirst().prefix(Self.longestText), as: UTF8.self))
    default:
      throw EncoderProtocolError("a reply of kind \(message.kind)")
    }
  }
}
