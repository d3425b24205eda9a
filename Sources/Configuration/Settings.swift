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
  public var location = LocationSettings()
  public var camera = CameraSection()
  public var cameraSources = NamedSections<CameraSourceSection>()
  public var health = HealthSection()

  public init() {}

  /// In the order of the sample file.
  public static let sections: [SectionDeclaration] = [
    SectionDeclaration(\.node), SectionDeclaration(\.log), SectionDeclaration(\.gateway), SectionDeclaration(\.signs),
    SectionDeclaration(\.talk), SectionDeclaration(\.talkKey), SectionDeclaration(\.talkShortcut),
    SectionDeclaration(\.audio), SectionDeclaration(\.voice),
    SectionDeclaration(\.location),
    SectionDeclaration(\.camera), SectionDeclaration(named: \.cameraSources),
    SectionDeclaration(\.health),
  ]

  /// Every setting with what holds for it, in the order of the declarations.
  public var values: [(setting: SettingDeclaration, value: SettingValue?)] {
    Self.sections.flatMap { section in
      section.all(in: self).flatMap { $0.settings.map { ($0, $0.value(self)) } }
    }
  }

  /// The names (`section.setting`) of what holds here and not there, or the other way round, in order.
  public func differences(from other: Settings) -> [String] {
    func table(_ settings: Settings) -> [String: SettingValue?] {
      Dictionary(settings.values.map { ("\($0.setting.section).\($0.setting.name)", $0.value) }) { $1 }
    }
    let (here, there) = (table(self), table(other))
    return Set(here.keys).union(there.keys).filter { here[$0] != there[$0] }.sorted()
  }
}

/// A section, whatever its type.
public struct SectionDeclaration: Sendable {
  public let name: String
  public let summary: String
  public let settings: [SettingDeclaration]
  let contradiction: @Sendable (Settings) -> (setting: String, sentence: String)?
  /// For a kind of section that there may be several of: the one with a name, and the names there are.
  let instance: (@Sendable (String) -> SectionDeclaration)?
  private let names: @Sendable (Settings) -> [String]

  /// The sections of this kind that hold values: itself, or each named one.
  func all(in settings: Settings) -> [SectionDeclaration] {
    instance.map { names(settings).map($0) } ?? [self]
  }

  init<Section: SettingsSection>(_ path: WritableKeyPath<Settings, Section> & Sendable) {
    name = Section.name
    summary = Section.summary
    contradiction = { $0[keyPath: path].contradiction }
    settings = Section.settings.map { setting in
      SettingDeclaration(
        section: Section.name, setting, take: { setting.take($0, &$1[keyPath: path]) },
        value: { setting.value($0[keyPath: path]) })
    }
    instance = nil
    names = { _ in [] }
  }

  init<Section: SettingsSection>(named path: WritableKeyPath<Settings, NamedSections<Section>> & Sendable) {
    name = Section.name
    summary = Section.summary
    contradiction = { _ in nil }
    settings = Section.settings.map { setting in
      SettingDeclaration(
        section: Section.name + ".NAME", setting, take: { _, _ in "needs a name: [\(Section.name).NAME]" },
        value: { _ in setting.value(Section()) })
    }
    instance = { SectionDeclaration(path, named: $0) }
    names = { $0[keyPath: path].names }
  }

  private init<Section: SettingsSection>(
    _ path: WritableKeyPath<Settings, NamedSections<Section>> & Sendable, named given: String
  ) {
    let own = "\(Section.name).\(given)"
    name = own
    summary = Section.summary
    contradiction = { $0[keyPath: path][given].contradiction }
    settings = Section.settings.map { setting in
      SettingDeclaration(
        section: own, setting, take: { setting.take($0, &$1[keyPath: path][given]) },
        value: { setting.value($0[keyPath: path][given]) })
    }
    instance = nil
    names = { _ in [] }
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

  init<Section>(
    section: String, _ setting: Setting<Section>, take: @escaping @Sendable (TOML, inout Settings) -> String?,
    value: @escaping @Sendable (Settings) -> SettingValue?
  ) {
    self.section = section
    name = setting.name
    help = setting.help
    domain = setting.domain
    example = setting.example
    isSecret = setting.isSecret
    self.take = take
    self.value = value
  }

  /// `section.name`.
  public var key: String { "\(section).\(name)" }
}
