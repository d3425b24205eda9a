import Configuration
import GatewayClient
import System
import Transport

enum RunCommand {
  static let verb = Verb(
    "run", "connect to the gateway and answer agents, until stopped",
    options: [.gateway, .tokenFile, .passwordFile, .trust, .config],
    notes: [
      """
      Stays in the foreground and writes its log to standard error. Under systemd it reports when it is ready and feeds the \
      watchdog. SIGHUP reads the settings anew and says which of them count after a restart only; SIGTERM and SIGINT end it.
      """,
      """
      With --gateway it pairs a first time without asking, for scripts: what is missing for an approval is in the log and in \
      `talknode status`.
      """,
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let settings = try context.settings()
    let loop = context.loop()
    defer { loop.stop() }
    let introduction = try introduction(context)
    let daemon = try Daemon(context, settings: settings, loop: loop)
    if let introduction {
      let pairing = Pairing(
        registry: daemon.node.registry, loop: loop, trusted: introduction.trust, proxy: context.proxy,
        report: { Log.info($0.sentence) })
      do throws(LinkError) {
        _ = try await pairing.prepare(
          introduction.complete(try await pairing.offer(parsing: introduction.text)), isByPerson: false)
      } catch {
        throw Failure(error)
      }
    }
    await daemon.start()
    await daemon.untilStopped()
    await daemon.stop()
    return .ok
  }

  /// What --gateway and its companions say.
  private static func introduction(_ context: Context) throws(Failure) -> Introduction? {
    guard let text = context.arguments[.gateway] else {
      for option in [Option.tokenFile, .passwordFile, .trust] where context.arguments.has(option) {
        throw .usage("--\(option.name) belongs to --gateway.", remedy: "talknode run --gateway URL --\(option.name) …")
      }
      return nil
    }
    return try Introduction(text, context)
  }
}

/// What a person or a script gives to meet a gateway for the first time.
struct Introduction: Sendable {
  /// A setup code in any form, or a URL.
  let text: String
  /// A fingerprint that the person vouches for.
  let trust: [UInt8]?
  private let token: String?
  private let password: String?

  init(_ text: String, _ context: Context) throws(Failure) {
    self.text = text
    token = try context.secret(.tokenFile)
    password = try context.secret(.passwordFile)
    guard let given = context.arguments[.trust] else {
      trust = nil
      return
    }
    guard let print = fingerprint(parsing: given) else {
      throw .usage("--trust needs a SHA-256 fingerprint: 64 hexadecimal digits, colons allowed.")
    }
    trust = print
  }

  /// The offer, with the secrets that were given beside it.
  func complete(_ offer: GatewayOffer) -> GatewayOffer {
    var offer = offer
    if let token { offer.token = token }
    if let password { offer.password = password }
    return offer
  }
}

extension Context {
  /// The proxy that the environment names for an endpoint.
  var proxy: @Sendable (Endpoint) -> Proxy? {
    let variables = environment.variables
    return { Proxy.fromEnvironment(variables, for: $0) }
  }
}
