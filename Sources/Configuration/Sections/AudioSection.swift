/// `[audio]`
public struct AudioSection: SettingsSection {
  public static let name = "audio"
  public static let summary = "The microphone and the speaker. `talknode audio list` shows what there is."

  public enum Backend: Sendable, Equatable { case auto, pulse, alsa }

  public var backend: Backend?
  public var backendOrDefault: Backend { backend ?? .auto }
  public var input: String?
  public var inputOrDefault: String { input ?? "" }
  public var output: String?
  public var outputOrDefault: String { output ?? "" }
  public var server: String?
  public var serverOrDefault: String { server ?? "" }

  public static let settings: [Setting<Self>] = [
    .choice(
      "backend", \.backend, default: \.backendOrDefault, of: ["auto": .auto, "pulse": .pulse, "alsa": .alsa],
      "The way to the devices. `auto`: a running PulseAudio or PipeWire, else ALSA."),
    .text(
      "input", \.input, default: \.inputOrDefault, length: 0...256, example: "USB",
      "The microphone: a name from `talknode audio list`, or a part of one that fits one device only."),
    .text(
      "output", \.output, default: \.outputOrDefault, length: 0...256, example: "Headset",
      "The speaker, chosen like the microphone."),
    .text(
      "server", \.server, default: \.serverOrDefault, length: 0...256, example: "unix:/run/user/1000/pulse/native",
      "The sound server's address, where it is not the usual one."),
  ]

  public init() {}
}
