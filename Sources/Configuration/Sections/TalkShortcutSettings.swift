/// `[talk.shortcut]`
public struct TalkShortcutSettings: SettingsSection {
  public static let name = "talk.shortcut"
  public static let summary = """
    A shortcut of the desktop that is held, or tapped, to talk. It comes through the desktop's portal (KDE Plasma, Hyprland, GNOME \
    since 48), which asks once, so no rights on the keyboard are needed.
    """

  public var use: Bool?
  public var useOrDefault: Bool { use ?? false }
  /// Empty = the person chooses.
  public var keys: String?
  public var keysOrDefault: String { keys ?? "" }
  /// In milliseconds.
  public var tap: Int?
  public var tapOrDefault: Int { tap ?? 200 }

  public static let settings: [Setting<Self>] = [
    .flag("use", \.use, default: \.useOrDefault, "Whether the desktop is asked for the shortcut when talknode starts."),
    .text(
      "keys", \.keys, default: \.keysOrDefault, length: 0...64, example: "LOGO+F9",
      "The keys to propose: CTRL, ALT, SHIFT, LOGO and a key, joined by +. The desktop's settings have the last word."),
    .integer(
      "tap", \.tap, default: \.tapOrDefault, range: 0...2000, unit: "milliseconds",
      "A press shorter than this latches: it talks until the next press. 0: every press is a hold."),
  ]

  public init() {}
}
