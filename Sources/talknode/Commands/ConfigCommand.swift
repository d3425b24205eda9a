import Configuration
import GatewayProtocol

enum ConfigCommand {
  private static let origin = Option("origin", "also the file and line that each value came from")

  static let show = Verb(
    "config show", "every setting and what holds for it", options: [origin, .json, .config],
    notes: [
      """
      Settings come from /etc/talknode/talknode.toml, /etc/talknode/conf.d/*.toml, config.toml and conf.d/*.toml in \
      ~/.config/talknode, the later one counting. --config FILE stands in for the last two.
      """
    ], run: runShow)
  static let sample = Verb("config sample", "a commented settings file with every setting", run: runSample)

  private static func runShow(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let layers = LayeredSettings(from: context.sources)
    if context.wantsJSON {
      terminal.print(json(layers))
    } else {
      terminal.print(
        table: layers.settings.values.map { setting, value in
          let text = "\(setting.key) = \(shown(setting, value))"
          if !arguments.has(origin) { return [text] }
          return [text, "# " + (layers.origins[setting.key]?.description ?? "default")]
        })
    }
    for problem in layers.problems { terminal.note("talknode: \(problem)") }
    return layers.errors.isEmpty ? .ok : .configuration
  }

  private static func shown(_ setting: SettingDeclaration, _ value: SettingValue?) -> String {
    guard setting.isSecret, case .list(let values)? = value, !values.isEmpty else { return value?.description ?? "" }
    return "[\(values.count) not shown]"
  }

  private static func json(_ layers: LayeredSettings) -> JSON {
    var settings: [String: JSON] = [:]
    for (setting, value) in layers.settings.values {
      settings[setting.key] = .object(present: [
        "value": setting.isSecret ? nil : value.map(JSON.init(setting:)),
        "origin": .string(layers.origins[setting.key]?.description ?? "default"),
      ])
    }
    let problems = layers.problems.map { problem in
      JSON.object(present: [
        "severity": .string(problem.severity.rawValue), "file": .string(problem.file),
        "line": problem.line.map { .int(Int64($0)) }, "column": problem.column.map { .int(Int64($0)) },
        "summary": .string(problem.summary), "remedy": problem.remedy.map(JSON.string),
      ])
    }
    return ["settings": .object(settings), "files": .strings(layers.files), "problems": .array(problems)]
  }

  private static func runSample(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    terminal.print(bytes: Array(Settings.sample.utf8))
    return .ok
  }
}

extension JSON {
  init(setting value: SettingValue) {
    self =
      switch value {
      case .boolean(let flag): .bool(flag)
      case .integer(let number): .int(number)
      case .number(let number): .double(number)
      case .text(let text): .string(text)
      case .list(let texts): .strings(texts)
      }
  }
}
