/// `[talk.key]`
public struct TalkKeySettings: SettingsSection {
  public static let name = "talk.key"
  public static let summary =
    "A key that is held, or tapped, to talk. Read from the keyboard itself, so it works on a console and under any desktop."

  /// The key's name; empty = none.
  public var key: String?
  public var keyOrDefault: String { key ?? "" }
  /// Which keyboard; empty = every one that has the key.
  public var device: String?
  public var deviceOrDefault: String { device ?? "" }
  /// In milliseconds.
  public var tap: Int?
  public var tapOrDefault: Int { tap ?? 200 }

  public static let settings: [Setting<Self>] = [
    .text(
      "key", \.key, default: \.keyOrDefault, length: 0...32, example: "F13",
      "The key: a name such as F13, RIGHTCTRL or PAUSE, or the kernel's number. It goes on typing what it types elsewhere."
    ),
    .text(
      "device", \.device, default: \.deviceOrDefault, length: 0...256,
      example: "/dev/input/by-id/usb-Foot_Switch-event-kbd",
      "The keyboard: a part of its name, or its path. When not set: every keyboard that has the key, also those plugged in later."
    ),
    .integer(
      "tap", \.tap, default: \.tapOrDefault, range: 0...2000, unit: "milliseconds",
      "A press shorter than this latches: it talks until the next press. 0: every press is a hold."),
  ]

  public init() {}
}
