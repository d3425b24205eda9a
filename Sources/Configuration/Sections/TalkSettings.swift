/// `[talk]`
public struct TalkSettings: SettingsSection {
  public static let name = "talk"
  public static let summary = "Push-to-talk: who turns speech into text, and how the answer comes back."

  public enum Transcriber: Sendable, Equatable { case auto, gateway, command, pocketsphinx }

  public var transcriber: Transcriber?
  public var transcriberOrDefault: Transcriber { transcriber ?? .auto }

  /// The helper program for `command`, with its arguments.
  public var command: [String]?
  public var commandOrDefault: [String] { command ?? [] }

  /// Sentences that pocketsphinx is to understand; without any it tries free dictation.
  public var phrases: [String]?
  public var phrasesOrDefault: [String] { phrases ?? [] }

  /// BCP-47.
  public var language: String?
  public var languageOrDefault: String { language ?? "" }

  /// The session to talk in.
  public var session: String?
  public var sessionOrDefault: String { session ?? "" }

  public var speakAnswers: Bool?
  public var speakAnswersOrDefault: Bool { speakAnswers ?? true }

  public var gatewayVoice: Bool?
  public var gatewayVoiceOrDefault: Bool { gatewayVoice ?? true }

  public var cues: Bool?
  public var cuesOrDefault: Bool { cues ?? true }

  public var showTranscript: Bool?
  public var showTranscriptOrDefault: Bool { showTranscript ?? false }

  /// In seconds.
  public var longest: Int?
  public var longestOrDefault: Int { longest ?? 300 }

  public static let settings: [Setting<Self>] = [
    .choice(
      "transcriber", \.transcriber, default: \.transcriberOrDefault,
      of: ["auto": .auto, "gateway": .gateway, "command": .command, "pocketsphinx": .pocketsphinx],
      """
      Who turns speech into text. `auto`: the gateway where it offers transcription, else the command below, else \
      pocketsphinx on this machine. Any other word means that one and nobody else: with `command` or `pocketsphinx` the \
      sound never leaves this machine.
      """),
    .list(
      "command", \.command, default: \.commandOrDefault, count: 1...32, of: "strings: the program and its arguments",
      example: ["whisper-cli", "-m", "model.bin", "-nt", "-np", "{wav}"],
      """
      A recogniser of your own: a program that is run once for each capture, with {wav} where the file's path belongs, or a \
      helper that stays and speaks JSON lines. share/talknode/recipes has ready ones for whisper.
      """),
    .list(
      "phrases", \.phrases, default: \.phrasesOrDefault, count: 1...500, of: "sentences",
      example: ["turn on the kitchen lights", "what time is it"],
      "What pocketsphinx is to understand, word for word. With such a list it is reliable; without one it guesses."),
    .text(
      "language", \.language, default: \.languageOrDefault, length: 0...32, example: "de-DE",
      "The language that is spoken, as a BCP-47 tag, for the recogniser and for this machine's voice."),
    .text(
      "session", \.session, default: \.sessionOrDefault, length: 0...512, example: "agent:main:kitchen",
      "The session to talk in. When not set: the gateway's main one."),
    .flag(
      "speak_answers", \.speakAnswers, default: \.speakAnswersOrDefault, "Whether the agent's answers are spoken."),
    .flag(
      "gateway_voice", \.gatewayVoice, default: \.gatewayVoiceOrDefault,
      "Whether the gateway's voice speaks where it can. Else espeak-ng on this machine does."),
    .flag(
      "cues", \.cues, default: \.cuesOrDefault,
      "Whether the start and the end of a capture, and trouble, are heard as short tones."),
    .flag(
      "show_transcript", \.showTranscript, default: \.showTranscriptOrDefault,
      "Whether a notification shows what is understood, while it is said. Others who see the screen can read it."),
    .integer(
      "longest", \.longest, default: \.longestOrDefault, range: 5...300, unit: "seconds",
      "A capture that nobody ends is ended after this time; what was said until then is sent."),
  ]

  public var contradiction: (setting: String, sentence: String)? {
    transcriberOrDefault == .command && commandOrDefault.isEmpty
      ? ("transcriber", "is \"command\", and talk.command is not set.") : nil
  }

  public init() {}
}
