/// Speech: from text to sound and from sound to text on this machine. The synthesiser (espeak-ng), what of an answer is fit to be
/// spoken, the transcribers, and the rule by which an utterance has ended.
///
/// Nothing in here opens a sound device or knows a gateway: sound comes and goes as `PCM`. The one thing taken from
/// `GatewayProtocol` is its JSON, in which helper programs are spoken to.

/// Why speech could not be made or understood.
public struct SpeechError: Error, Sendable, Equatable, CustomStringConvertible {
  /// An open set: others may be added.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }

    /// A library, model or program that is needed is not installed.
    public static let missing = Code(rawValue: "SPEECH_MISSING")
    /// A setting can't be used: a grammar that does not parse, a command that does not start.
    public static let invalidSetting = Code(rawValue: "SPEECH_SETTING_INVALID")
    /// The engine or the helper program failed.
    public static let failed = Code(rawValue: "SPEECH_FAILED")
    /// The engine or the helper program did not answer in time.
    public static let timeout = Code(rawValue: "SPEECH_TIMEOUT")
    /// Ended by the caller.
    public static let cancelled = Code(rawValue: "SPEECH_CANCELLED")
    /// More work than is taken at once.
    public static let busy = Code(rawValue: "SPEECH_BUSY")
  }

  public let code: Code
  /// One sentence. Never holds what was said.
  public let summary: String
  /// What to do next, as a command where there is one.
  public let remedy: String?

  public init(_ code: Code, _ summary: String, remedy: String? = nil) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
  }

  public var description: String { remedy.map { "\(summary) \($0)" } ?? summary }
}

/// Whether an engine could be used now.
public enum SpeechAvailability: Sendable, Equatable {
  /// With a sentence that says honestly what it is good for; `doctor` prints it.
  case ready(String)
  case absent(reason: String, remedy: String?)

  public var isReady: Bool { if case .ready = self { true } else { false } }
}
