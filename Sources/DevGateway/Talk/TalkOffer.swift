import System

/// What a gateway has for those who talk (talk-and-chat §3). Its recogniser and its voice are programs of their own, so that the gateway
/// can know no more than a real one: the recogniser gets the relayed sound and nothing else.
public struct TalkOffer: Sendable, Equatable {
  /// Turns sound into text. Nil = the gateway has no transcription.
  ///
  /// On its input comes what clients append, headerless G.711 µ-law of 8 kHz, until there is no more. On its output it says one JSON object a
  /// line: `{"type":"ready"}`, `{"type":"speechStart"}`, `{"type":"partial","text":…}`, `{"type":"final","text":…}` and, when it can't go
  /// on, `{"type":"error","message":…}`. It ends after its input.
  public var recogniser: Subprocess.Command?
  /// Nil = the gateway has no voice.
  public var voice: Voice?
  /// `talk.silenceTimeoutMs` of `talk.config`; nil leaves it out.
  public var silenceTimeoutMs: Int64?
  public var interruptsOnSpeech = true
  /// How long a recogniser may take for late finals once its session is closed.
  public var flushLimit = Duration.seconds(5)
  /// How long a session lives.
  public var sessionLife = Duration.seconds(1800)

  /// A program that speaks: it gets a text on its input and writes a sound file to its output.
  public struct Voice: Sendable, Equatable {
    public var command: Subprocess.Command
    /// What clients are told about its sound.
    public var outputFormat: String?
    public var mimeType: String?
    public var fileExtension: String?

    public init(
      _ command: Subprocess.Command, outputFormat: String? = nil, mimeType: String? = "audio/wav",
      fileExtension: String? = ".wav"
    ) {
      self.command = command
      self.outputFormat = outputFormat
      self.mimeType = mimeType
      self.fileExtension = fileExtension
    }

    /// A voice of flite, which people and recognisers understand. It reads and writes files only.
    public static func flite(_ name: String = "slt") -> Voice {
      let script = """
        folder=$(mktemp -d) || exit 1; trap 'rm -rf "$folder"' EXIT
        cat >"$folder/text" && flite -voice "$0" -f "$folder/text" -o "$folder/sound.wav" >&2 && cat "$folder/sound.wav"
        """
      return Voice(Subprocess.Command("sh", ["-c", script, name]), outputFormat: "wav")
    }
  }

  public init() {}
}
