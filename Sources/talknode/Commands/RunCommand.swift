import Configuration
import GatewayClient
import System

enum RunCommand {
  static let verb = Verb(
    "run", "connect to the gateway and answer agents, until stopped",
    options: [.gateway, .tokenFile, .passwordFile, .trust, .config],
    notes: [
      """
      Stays in the foreground and writes its log to standard error. Under systemd it reports when it is ready and feeds the \
      watchdog. SIGHUP reads the settings anew; SIGTERM and SIGINT end it.
      """,
      """
      With --gateway it pairs a first time without asking, for scripts; what is missing for an approval is in the log and in \
      `talknode status`.
      """,
    ], run: run)

  static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let settings = try context.settings()
    let introduction = try context.introduction
    let loop = context.loop()
    defer { loop.stop() }
    let daemon = try Daemon(context, settings: settings, loop: loop)
    try await daemon.start(introduction)
    await daemon.untilStopped()
    await daemon.stop()
    return .ok
  }
}

extension Context {
  /// What --gateway and its companions say.
  fileprivate var introduction: Introduction? {
    get throws(Failure) {
      guard let url = arguments[.gateway] else {
        for option in [Option.tokenFile, .passwordFile, .trust] where arguments.has(option) {
          throw .usage("--\(option.name) belongs to --gateway.", remedy: "talknode run --gateway URL --\(option.name) …")
        }
        return nil
      }
      return try Introduction(
        url, token: try secret(.tokenFile), password: try secret(.passwordFile), trust: arguments[.trust])
    }
  }
}
