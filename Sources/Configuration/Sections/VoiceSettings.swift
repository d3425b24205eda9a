/// `[voice]`
public struct VoiceSettings: SettingsSection {
  public static let name = "voice"
  public static let summary = "This machine's own voice, espeak-ng, for answers that the gateway does not speak."

  public var voice: String?
  public var voiceOrDefault: String { voice ?? "" }
  public var rate: Int?
  public var rateOrDefault: Int { rate ?? 175 }
  public var pitch: Int?
  public var pitchOrDefault: Int { pitch ?? 50 }
  public var volume: Int?
  public var volumeOrDefault: Int { volume ?? 100 }

  public static let settings: [Setting<Self>] = [
    .text(
      "voice", \.voice, default: \.voiceOrDefault, length: 0...64, example: "en-gb",
      "A voice by its name, as `espeak-ng --voices` lists them. When not set: by talk.language."),
    .integer("rate", \.rate, default: \.rateOrDefault, range: 80...450, unit: "words a minute", "How fast it speaks."),
    .integer("pitch", \.pitch, default: \.pitchOrDefault, range: 0...99, unit: "", "How high it speaks."),
    .integer("volume", \.volume, default: \.volumeOrDefault, range: 0...200, unit: "percent", "How loud it speaks."),
  ]

  public init() {}
}
