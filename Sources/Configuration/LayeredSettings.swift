import Glibc
import System

/// Where settings are looked for.
public struct ConfigurationSources: Sendable, Equatable {
  /// Holds `talknode.toml` and `conf.d`, for all users of the machine.
  public var systemFolder: String?
  /// Holds `config.toml` and `conf.d`, for one user.
  public var userFolder: String?
  /// Read in place of the user's folder. It must exist.
  public var explicitFile: String?

  public init(systemFolder: String? = "/etc/talknode", userFolder: String? = nil, explicitFile: String? = nil) {
    self.systemFolder = systemFolder
    self.userFolder = userFolder
    self.explicitFile = explicitFile
  }

  /// The files that may be there, weakest first.
  var files: [(path: String, isRequired: Bool)] {
    var files: [(String, Bool)] = []
    func add(_ folder: String, _ main: String) {
      files.append((folder + "/" + main, false))
      let more = Files.list(folder + "/conf.d").filter { $0.hasSuffix(".toml") && !$0.hasPrefix(".") }
      for name in more.prefix(64) { files.append((folder + "/conf.d/" + name, false)) }
    }
    if let systemFolder { add(systemFolder, "talknode.toml") }
    if let explicitFile {
      files.append((explicitFile, true))
    } else if let userFolder {
      add(userFolder, "config.toml")
    }
    return files
  }
}

/// The settings that hold, where each came from, and what is wrong with the files.
public struct LayeredSettings: Sendable {
  /// Where a value was written.
  public struct Origin: Sendable, Equatable, CustomStringConvertible {
    public let file: String
    public let line: Int
    public var description: String { "\(file):\(line)" }
  }

  public private(set) var settings = Settings()
  /// By `section.name`; what is not here has its default.
  public private(set) var origins: [String: Origin] = [:]
  public private(set) var problems: [ConfigurationProblem] = []
  /// The files that were read, weakest first.
  public private(set) var files: [String] = []

  /// What keeps the program from running with these files.
  public var errors: [ConfigurationProblem] { problems.filter { $0.severity == .error } }

  /// Reads all layers. Never fails: what can't be used is left out and told in `problems`.
  public init(from sources: ConfigurationSources) {
    for (path, isRequired) in sources.files {
      do {
        let bytes = try Files.read(path, limit: TOML.limit)
        files.append(path)
        merge(bytes, named: path)
      } catch  where error.code == ENOENT && !isRequired {
        continue
      } catch {
        let reason = error.code == EFBIG ? "it is longer than \(TOML.limit >> 10) KiB" : error.reason
        problems.append(ConfigurationProblem(.error, file: path, "The file can't be read: \(reason)."))
      }
    }
    findContradictions()
  }

  /// One layer from memory, over the defaults.
  public init(text: [UInt8], named file: String) {
    files = [file]
    merge(text, named: file)
    findContradictions()
  }

  private mutating func findContradictions() {
    for section in Settings.sections.flatMap({ $0.all(in: settings) }) {
      guard let (setting, sentence) = section.contradiction(settings) else { continue }
      let key = "\(section.name).\(setting)"
      problems.append(
        ConfigurationProblem(
          .error, file: origins[key]?.file ?? "the defaults", line: origins[key]?.line, "\(key) \(sentence)"))
    }
  }

  private mutating func merge(_ bytes: [UInt8], named file: String) {
    let members: [TOML.Member]
    do { members = try TOML.document(bytes) } catch {
      let known = error.line > 0
      problems.append(
        ConfigurationProblem(
          .error, file: file, line: known ? error.line : nil, column: known ? error.column : nil,
          "This is no TOML: \(error.problem)."))
      return
    }
    for member in members { merge(member, named: member.name, file) }
  }

  /// One section, and the sections within it: `[talk.key]` is the table `key` of the table `talk`.
  private mutating func merge(_ member: TOML.Member, named name: String, _ file: String) {
    guard let section = Settings.sections.first(where: { $0.name == name }) else {
      return unknownSection(member, file)
    }
    guard case .table(let entries) = member.value else {
      return problem(.error, file, member.place, "[\(name)] is a table, not \(member.value.kind).")
    }
    for entry in entries {
      if let instance = section.instance {
        mergeNamed(entry, instance, name, file)
        continue
      }
      let inner = "\(name).\(entry.name)"
      if Settings.sections.contains(where: { $0.name == inner }) {
        merge(entry, named: inner, file)
      } else {
        take(entry, in: section, file)
      }
    }
  }

  /// `[camera.source.garden]` is the table `garden` of the table `source`.
  private mutating func mergeNamed(
    _ member: TOML.Member, _ instance: (String) -> SectionDeclaration, _ kind: String, _ file: String
  ) {
    guard case .table(let entries) = member.value else {
      return problem(.error, file, member.place, "[\(kind).NAME] is a table with a name of your own.")
    }
    guard NamedSections<CameraSourceSection>.isName(member.name) else {
      return problem(
        .error, file, member.place,
        "The name of [\(kind).\(clipped(member.name))] must be 1 to 40 letters, digits, hyphens and underscores.")
    }
    let section = instance(member.name)
    let count = Settings.sections.first { $0.name == kind }?.all(in: settings).count ?? 0
    if count >= namedSectionLimit {
      return problem(.error, file, member.place, "There are more than \(namedSectionLimit) tables [\(kind).NAME].")
    }
    for entry in entries { take(entry, in: section, file) }
  }

  private mutating func take(_ entry: TOML.Member, in section: SectionDeclaration, _ file: String) {
    guard let setting = section.settings.first(where: { $0.name == entry.name }) else {
      return unknownSetting(entry, in: section, file)
    }
    if let complaint = setting.take(entry.value, &settings) {
      problem(.error, file, entry.place, "\(setting.key) \(complaint), not \(Self.shown(entry.value, setting)).")
    } else {
      origins[setting.key] = Origin(file: file, line: entry.place.line)
    }
  }

  /// A wrong value as it stands there, when it is short and no secret; else what kind of thing it is.
  private static func shown(_ value: TOML, _ setting: SettingDeclaration) -> String {
    let text: SettingValue? =
      switch value {
      case .string(let text) where text.count <= 40: .text(text)
      case .integer(let number): .integer(number)
      case .float(let number): .number(number)
      case .boolean(let flag): .boolean(flag)
      default: nil
      }
    guard let text, !setting.isSecret else { return setting.isSecret ? "what stands there" : value.kind }
    return text.description
  }

  private mutating func unknownSection(_ member: TOML.Member, _ file: String) {
    let isTable = if case .table = member.value { true } else { false }
    let home = Settings.sections.first { $0.settings.contains { $0.name == member.name } }
    let remedy: String? =
      if !isTable, let home {
        "Write it below [\(home.name)]."
      } else {
        nearest(to: member.name, among: Settings.sections.map(\.name)).map { "Did you mean [\($0)]?" }
      }
    let what =
      isTable ? "There is no section [\(clipped(member.name))]." : "There is no setting \(clipped(member.name))."
    problem(.warning, file, member.place, what, remedy)
  }

  private mutating func unknownSetting(_ entry: TOML.Member, in section: SectionDeclaration, _ file: String) {
    let elsewhere = Settings.sections.first { $0.settings.contains { $0.name == entry.name } }
    let remedy =
      nearest(to: entry.name, among: section.settings.map(\.name)).map { "Did you mean \($0)?" }
      ?? elsewhere.map { "It belongs below [\($0.name)]." }
    problem(.warning, file, entry.place, "There is no setting \(section.name).\(clipped(entry.name)).", remedy)
  }

  private func clipped(_ name: String) -> String {
    let visible = String(String.UnicodeScalarView(name.unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7F }))
    return visible.count <= 60 ? visible : visible.prefix(60) + "…"
  }

  private mutating func problem(
    _ severity: ConfigurationProblem.Severity, _ file: String, _ place: TOML.Place, _ summary: String,
    _ remedy: String? = nil
  ) {
    // A file of nothing but mistakes should not flood the terminal.
    if problems.count >= 100 { return }
    problems.append(
      ConfigurationProblem(severity, file: file, line: place.line, column: place.column, summary, remedy: remedy))
  }
}
