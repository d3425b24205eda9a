/// `[health]`
public struct HealthSection: SettingsSection {
  public static let name = "health"
  public static let summary =
    "The files that health.summary is read from. They are exports of phones and watches; README.md tells where each is found."

  /// Files and folders; empty = the folder in the user's data.
  public var files: [String]?
  public var filesOrDefault: [String] { files ?? [] }

  /// IANA name; empty = the machine's.
  public var timeZone: String?
  public var timeZoneOrDefault: String { timeZone ?? "" }

  /// Parts of devices' names, the most believed first.
  public var sources: [String]?
  public var sourcesOrDefault: [String] { sources ?? [] }

  public var estimateResting: Bool?
  public var estimateRestingOrDefault: Bool { estimateResting ?? true }

  public static let settings: [Setting<Self>] = [
    .list(
      "files", \.files, default: \.filesOrDefault, count: 0...64, of: "paths",
      example: ["~/Sync/health", "~/export.zip"],
      check: { $0.hasPrefix("/") || $0.hasPrefix("~/") ? nil : "must begin with / or ~/" },
      "Files, and folders that are searched with all that lies in them. When not set: ~/.local/share/talknode/health."),
    .text(
      "time_zone", \.timeZone, default: \.timeZoneOrDefault, length: 0...64, example: "Europe/Berlin",
      "Whose midnights a day has. When not set: this machine's zone."),
    .list(
      "sources", \.sources, default: \.sourcesOrDefault, count: 0...32, of: "names", example: ["Watch", "Pixel"],
      """
      Parts of the names of devices and apps, the most believed first: whose steps count where several counted over the same \
      time. After these: what is worn, what is carried, then everything else. `talknode health --explain` shows the names.
      """),
    .flag(
      "estimate_resting", \.estimateResting, default: \.estimateRestingOrDefault,
      "On days on which no device measured a resting heart rate, tell the mean of the calmest half hour, where heart rates are known."
    ),
  ]

  public init() {}
}
