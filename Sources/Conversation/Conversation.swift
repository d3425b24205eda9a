/// Conversation: the talking half of the node. A key opens the microphone (`Talk`, on the value `PushToTalk`), what was said becomes text
/// (`Hearing` with the transcribers of `TranscriberSet`), the text goes to the agent (`Delivery`, on the value `Turn`), and the answer
/// is spoken (`Mouth`). What could not be delivered, or not understood, is kept (`KeptTranscripts`).
import Speech

/// What a person may choose about talking. Every setting has its default here.
public struct TalkOptions: Sendable, Equatable {
  public enum TranscriberChoice: String, Sendable, CaseIterable {
    /// The gateway when it offers transcription, else the command, else pocketsphinx.
    case auto
    case gateway
    case command
    case pocketsphinx
  }

  public var transcriber = TranscriberChoice.auto
  /// BCP-47, for recogniser and voice; nil = their own choice.
  public var language: String?
  /// The session to talk in; nil = the gateway's main one.
  public var sessionKey: String?
  /// Whether answers are spoken.
  public var speaksAnswers = true
  /// Whether the gateway's voice is asked before this machine's.
  public var usesGatewayVoice = true
  /// Whether start, stop and trouble are heard.
  public var hasCues = true
  /// The longest capture that is not a once.
  public var longest: Duration = .seconds(300)

  public init() {}
}

/// Why talking did not work. Codes are the wire's (node-commands §4.4) where it has one.
public struct TalkError: Error, Sendable, Equatable, CustomStringConvertible {
  public let code: String
  public let summary: String
  public let remedy: String?
  public init(_ code: String, _ summary: String, remedy: String? = nil) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
  }
  public var description: String { remedy.map { "\(summary) \($0)" } ?? summary }
}

/// What goes on while a person talks: for those who show it. Never for logs: `partial` is what is being said.
public enum TalkNotice: Sendable, Equatable {
  public enum Phase: String, Sendable { case idle, preparing, listening, recognising, thinking, speaking }
  case phase(Phase)
  /// 0…1, smoothed.
  case level(Float)
  case partial(String)
  /// A sentence about the microphone, the transcriber, the gateway or the voice.
  case trouble(String)
}
