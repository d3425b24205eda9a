import GatewayClient
import GatewayProtocol
import Glibc
import System
import Transport

enum PairCommand {
  static let verb = Verb(
    "pair", "introduce this machine to a gateway, and wait for its approvals",
    operands: [Operand("CODE", "a setup code in any form, or the gateway's URL")],
    options: [.tokenFile, .passwordFile, .trust, .noWait, .json, .config],
    notes: [
      """
      CODE is what the gateway shows: a setup code, oc-pair://…, openclaw://…, its JSON, a text that contains one, or a URL such \
      as wss://host:18789 with --token-file or --password-file. A hyphen reads it from standard input.
      """,
      """
      A gateway asks its owner up to three times: for this device, for what it can do, and for its operator role. Each missing \
      approval is shown with the command for the gateway host; when all are there, the command ends. Ctrl-C ends the waiting; a \
      running talknode goes on with it.
      """,
    ], run: run)

  static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let settings = try context.settings()
    let introduction = try Introduction(
      try code(arguments[0]!), token: try context.secret(.tokenFile), password: try context.secret(.passwordFile),
      trust: arguments[.trust])
    let loop = context.loop()
    defer { loop.stop() }
    try context.instance.makeFolder()
    let registry: GatewayRegistry
    do { registry = GatewayRegistry(state: try StateFolder(path: context.instance.state)) } catch { throw Failure(error) }
    let record = try await introduction.write(
      into: registry, environment: context.environment.variables, isPersonal: true, loop: loop,
      ask: terminal.isInteractive ? { await ask($0, $1, terminal) } : nil, tell: { terminal.note($0) })
    terminal.note("\(record.name) is written down: \(record.endpoint)")
    if let client = try await context.daemon(loop) {
      _ = try await client.call(.use(gateway: record.id))
      if arguments.has(.noWait) { return .ok }
      return try await wait(context) { show throws(Failure) in try await client.follow(show) }
    }
    if arguments.has(.noWait) {
      terminal.note("Start talknode to connect: systemctl --user start talknode")
      return .ok
    }
    // Nobody else is connected as this device, so this command is the daemon while it waits.
    let daemon = try Daemon(context, settings: settings, loop: loop)
    try await daemon.start()
    let stop = Task {
      await daemon.untilStopped()
      exit(ExitStatus.interrupted.code)
    }
    defer { stop.cancel() }
    let status: ExitStatus
    do throws(Failure) {
      let statuses = await daemon.node.statuses()
      status = try await wait(context) { show throws(Failure) in
        for await status in statuses { if try !show(status.json) { return } }
      }
    } catch {
      await daemon.stop()
      throw error
    }
    await daemon.stop()
    terminal.note("Now let it run: systemctl --user enable --now talknode   (or in this terminal: talknode run)")
    return status
  }

  /// Shows what changes until all approvals are there.
  private static func wait(
    _ context: Context, _ follow: ((JSON) throws(Failure) -> Bool) async throws(Failure) -> Void
  ) async throws(Failure) -> ExitStatus {
    var story = ApprovalStory()
    var last: JSON = .null
    try await follow { status throws(Failure) in
      last = status
      guard let link = NodeStatus(json: status)?.link else { return true }
      for line in story.lines(link) { context.terminal.note(line) }
      if let failure = story.failure { throw failure }
      return !story.isComplete
    }
    if context.wantsJSON { context.terminal.print(last) }
    if !story.isComplete {
      throw Failure("DAEMON_LOST", "talknode ended while the approvals were awaited.", remedy: "talknode run", exit: .temporary)
    }
    return .ok
  }

  private static func code(_ operand: String) throws(Failure) -> String {
    if operand != "-" { return operand }
    do {
      return String(decoding: try Files.read("/dev/stdin", limit: GatewayOffer.longestText), as: UTF8.self)
    } catch { throw Failure("INPUT", "The code can't be read from standard input.", cause: "\(error)", exit: .noInput) }
  }

  private static func ask(_ sighting: CertificateSighting, _ endpoint: Endpoint, _ terminal: Terminal) async -> Bool {
    terminal.note("This system does not know the certificate of \(endpoint.authority).")
    if !sighting.subject.isEmpty { terminal.note("  subject      \(sighting.subject)") }
    terminal.note("  fingerprint  \(hexadecimal(sighting.fingerprint))")
    terminal.prompt("Is this the fingerprint shown on the gateway host? Trust it from now on? [y/N] ")
    let answer = readLine()?.trimmed.lowercased() ?? ""
    return answer == "y" || answer == "yes"
  }
}

extension Option {
  static let noWait = Option("no-wait", "do not wait for the approvals")
}
