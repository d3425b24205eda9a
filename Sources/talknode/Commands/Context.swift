import Configuration
import System

/// What a command works with: the state folder, the settings and the loop, each made when it is asked for.
struct Context: Sendable {
  let arguments: Arguments
  let terminal: Terminal
  let environment: Environment

  init(_ arguments: Arguments, _ terminal: Terminal, environment: Environment = .process) {
    self.arguments = arguments
    self.terminal = terminal
    self.environment = environment
  }

  var instance: Instance { Instance(state: arguments[.state], environment: environment) }
  var wantsJSON: Bool { arguments.has(.json) }

  var sources: ConfigurationSources {
    ConfigurationSources(userFolder: environment.configurationFolder, explicitFile: arguments[.config])
  }

  /// The settings that hold. Mistakes are shown; one that keeps the program from running is a failure.
  func settings() throws(Failure) -> Settings {
    let layers = LayeredSettings(from: sources)
    for problem in layers.problems where problem.severity == .warning { terminal.note("talknode: \(problem)") }
    if let first = layers.errors.first {
      for problem in layers.errors.dropFirst() { terminal.note("talknode: \(problem)") }
      throw Failure(
        "CONFIGURATION", "The settings can't be used.", cause: first.description,
        remedy: first.remedy ?? "talknode config show", exit: .configuration)
    }
    Self.configureLog(layers.settings, environment)
    return layers.settings
  }

  static func configureLog(_ settings: Settings, _ environment: Environment) {
    Log.configure(threshold: settings.log.levelOrDefault, journal: environment["JOURNAL_STREAM"] != nil)
  }

  /// The daemon of this state folder, when one runs.
  func daemon(_ loop: EventLoop) async throws(Failure) -> ControlClient? {
    try await ControlClient.connect(to: instance, loop: loop)
  }

  /// A new loop for this command.
  func loop() -> EventLoop { EventLoop(name: "io") }
}

extension Option {
  static let gateway = Option("gateway", value: "URL", "pair with this gateway first, without asking")
  static let tokenFile = Option(
    "token-file", value: "FILE", "the gateway's token, in a file of yours (- is standard input)")
  static let passwordFile = Option("password-file", value: "FILE", "the gateway's password, in a file of yours")
  static let trust = Option("trust", value: "SHA256", "accept the certificate with this fingerprint")
}

extension Context {
  /// The secret in a file, without the white space around it. Secrets are not taken from the command line: others can see it.
  func secret(_ option: Option) throws(Failure) -> String? {
    guard let path = arguments[option] else { return nil }
    let text: String
    do {
      let bytes = try path == "-" ? Files.read("/dev/stdin", limit: 65536) : Files.read(path, limit: 65536)
      guard let decoded = String(validating: bytes, as: UTF8.self) else {
        throw Failure("SECRET", "The file for --\(option.name) is no text.", cause: path, exit: .data)
      }
      text = decoded.trimmed
    } catch let error as SystemError {
      throw Failure(
        "SECRET", "The file for --\(option.name) can't be read.", cause: error.description, exit: .noInput)
    } catch {
      throw error as? Failure ?? Failure("SECRET", "The file for --\(option.name) can't be read.", exit: .noInput)
    }
    if text.isEmpty { throw Failure("SECRET", "The file for --\(option.name) is empty.", cause: path, exit: .data) }
    return text
  }
}
