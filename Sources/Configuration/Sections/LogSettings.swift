import System

/// `[log]`
public struct LogSettings: SettingsSection {
  public static let name = "log"
  public static let summary = "What is written to standard error, or to the journal under systemd."

  /// Messages below it are dropped.
  public var level: Log.Level?
  public var levelOrDefault: Log.Level { level ?? .info }

  public static let settings: [Setting<Self>] = [
    .choice(
      "level", \.level, default: \.levelOrDefault,
      of: ["debug": .debug, "info": .info, "warning": .warning, "error": .error],
      "The least important message that is still written. `info` is one line a change of state.")
  ]

  public init() {}
}
