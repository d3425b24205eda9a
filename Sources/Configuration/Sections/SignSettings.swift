/// `[signs]`
public struct SignSettings: SettingsSection {
  public static let name = "signs"
  public static let summary =
    "How a person at this machine is told that something of theirs is used: the camera, the microphone, the place."

  public enum Use: Sendable, Equatable { case notification, command, none }

  /// What happens at each use of a capability that reveals a person.
  public var use: Use?
  public var useOrDefault: Use { use ?? .notification }

  /// The command run at each use when `use` is `command`: program and arguments.
  public var command: [String]?
  public var commandOrDefault: [String] { command ?? [] }

  public static let settings: [Setting<Self>] = [
    .choice(
      "use", \.use, default: \.useOrDefault, of: ["notification": .notification, "command": .command, "none": .none],
      """
      The sign given at every such use: a desktop notification, a command of your own (for a lamp or a sound), or none. \
      The use is written to the audit log in any case.
      """),
    .list(
      "command", \.command, default: \.commandOrDefault, count: 1...32, of: "strings: the program and its arguments",
      example: ["/usr/local/bin/lamp", "blink"],
      """
      The command for `use = "command"`. It is started without a shell; TALKNODE_COMMAND and TALKNODE_ORIGIN in its \
      environment say what is used and by whom.
      """),
  ]

  public var contradiction: (setting: String, sentence: String)? {
    useOrDefault == .command && commandOrDefault.isEmpty
      ? ("use", "is \"command\", and signs.command is not set.") : nil
  }

  public init() {}
}
