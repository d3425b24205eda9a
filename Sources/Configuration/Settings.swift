/// All that can be set. Adding a section is a property here and a line in `sections`.
public struct Settings: Sendable {
  public var node = NodeSettings()
  public var log = LogSettings()
  public var gateway = GatewaySettings()
  public var signs = SignSettings()
  public var talk = TalkSettings()
  public var talkKey = TalkKeySettings()
  public var talkShortcut = TalkShortcutSettings()
  public var audio = AudioSection()
  public var voice = VoiceSettings()

  public init() {}

  /// In the order of the sample file.
  public static let sections: [SectionDeclaration] = [
    SectionDeclaration(\.node), SectionDeclaration(\.log), SectionDeclaration(\.gateway), SectionDeclaration(\.signs),
    SectionDeclaration(\.talk), SectionDeclaration(\.talkKey), SectionDeclaration(\.talkShortcut),
    SectionDeclaration(\.audio), SectionDeclaration(\.voice),
  ]

  /// Every setting with what holds for it, in the order of the declarations.
  public var values: [(setting: SettingDeclaration, value: SettingValue?)] {
    Self.sections.flatMap { $0.settings.map { ($0, $0.value(self)) } }
  }
}

/// A section, whatever its type.
public struct SectionDeclaration: Sendable {
  public let name: String
  public let summary: String
  public let settings: [SettingDeclaration]
  let contradiction: @Sendable (Settings) -> (setting: String, sentence: String)?

  init<Section: SettingsSection>(_ path: WritableKeyPath<Settings, Section> & Sendable) {
    name = Section.name
    summary = Section.summary
    contradiction = { $0[keyPath: path].contradiction }
    settings = Section.settings.map { setting in
      SettingDeclaration(
        section: Section.name, name: setting.name, help: setting.help, domain: setting.domain, example: setting.example,
        isSecret: setting.isSecret, take: { setting.take($0, &$1[keyPath: path]) },
        value: { setting.value($0[keyPath: path]) })
    }
  }
}

/// A setting, whatever its section's type.
public struct SettingDeclaration: Sendable {
  public let section: String
  public let name: String
  /// Sentences for a person.
  public let help: String
  /// What may be written.
  public let domain: String
  public let example: SettingValue?
  /// Whether its value must not be printed.
  public let isSecret: Bool
  let take: @Sendable (TOML, inout Settings) -> String?
  let value: @Sendable (Settings) -> SettingValue?

  /// `section.name`.
  public var key: String { "\(section).\(name)" }
}
