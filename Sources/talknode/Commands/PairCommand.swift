import GatewayClient
import GatewayProtocol
import Glibc
import System

enum PairCommand {
  private static let noWait = Option("no-wait", "do not wait for the approvals")

  static let verb = Verb(
    "pair", "introduce this machine to a gateway, and wait for its approvals",
    operands: [Operand("CODE", "a setup code in any form, or the gateway's URL (- reads standard input)")],
    options: [.tokenFile, .passwordFile, .trust, noWait, .json, .config],
    notes: [
      """
      CODE is what the gateway shows: a setup code, oc-pair://…, openclaw://…, its JSON, a text that contains one, a join link, \
      or a URL such as wss://host:18789 with --token-file or --password-file.
      """,
      """
      A gateway asks its owner up to three times: for this device, for what it can do, and for its operator role. Each missing \
      approval is shown with the command for the gateway host; when all are there, the command ends. Ctrl-C ends the waiting; a \
      running talknode goes on with it. With --json each step is an object on a line.
      """,
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let settings = try context.settings()
    let introduction = try Introduction(try code(arguments[0]!), context)
    let loop = context.loop()
    defer { loop.stop() }
    let record = try await write(introduction, context, loop)
    if let client = try await context.daemon(loop) {
      _ = try await client.call(.use(gateway: record.id))
      if arguments.has(noWait) { return .ok }
      return try await completing(record, context) { () async throws(Failure) in
        try await follow(client, context)
      } again: { () async throws(Failure) in
        guard let client = try await context.daemon(loop) else { throw Wait.daemonLost }
        _ = try await client.call(.use(gateway: record.id))
        return try await follow(client, context)
      }
    }
    if arguments.has(noWait) {
      terminal.note("It is connected to when talknode runs: systemctl --user enable --now talknode")
      return .ok
    }
    // Nobody else is connected as this device, so this command is the daemon while it waits.
    let daemon = try Daemon(context, settings: settings, loop: loop)
    await daemon.start()
    let work = Task { () -> Result<ExitStatus, Failure> in
      do throws(Failure) {
        return .success(
          try await completing(record, context) { () async throws(Failure) in
            try await follow(daemon.node, context)
          } again: { () async throws(Failure) in
            try await daemon.node.use(record.id)
            return try await follow(daemon.node, context)
          })
      } catch {
        return .failure(error)
      }
    }
    let stop = Task {
      await daemon.untilStopped()
      work.cancel()
    }
    let result = await work.value
    stop.cancel()
    await daemon.stop()
    let status = try result.get()
    terminal.note(
      status == .ok
        ? "Now let it run: systemctl --user enable --now talknode   (or in this terminal: talknode run)"
        : "The gateway is remembered. It is asked again when talknode runs: talknode run")
    return status
  }

  private static func follow(_ client: ControlClient, _ context: Context) async throws(Failure) -> ExitStatus {
    var wait = Wait(context)
    try await client.follow { status throws(Failure) in try wait.goesOn(NodeStatus(json: status)) }
    return try wait.end()
  }

  private static func follow(_ node: Node, _ context: Context) async throws(Failure) -> ExitStatus {
    var wait = Wait(context)
    for await status in await node.statuses() { if try !wait.goesOn(status) { break } }
    if Task.isCancelled { return .interrupted }
    return try wait.end()
  }

  /// Waits; and when the gateway lets the device in as a node only (a node code), asks the person for the gateway's token, which the
  /// operator half needs once, and waits `again`.
  private static func completing(
    _ record: GatewayRecord, _ context: Context, wait: () async throws(Failure) -> ExitStatus,
    again: () async throws(Failure) -> ExitStatus
  ) async throws(Failure) -> ExitStatus {
    do throws(Failure) { return try await wait() } catch {
      guard error.code == ConnectVerdict.operatorCredentialMissing, !context.wantsJSON else { throw error }
      let question = "\(error.summary)\nThe gateway's token (Enter: go on without): "
      guard let token = await SecretPrompt.ask(question, context.terminal) else { throw error }
      do throws(LinkError) {
        let registry = GatewayRegistry(state: try StateFolder(path: context.instance.state))
        try await registry.updateCredentials(of: record.id) { $0.sharedToken = token }
      } catch {
        throw Failure(error)
      }
      return try await again()
    }
  }

  /// Reads what was given, settles route and certificate, and writes the gateway down as the active one.
  private static func write(
    _ introduction: Introduction, _ context: Context, _ loop: EventLoop
  ) async throws(Failure) -> GatewayRecord {
    let show = Show(context)
    let terminal = context.terminal
    do throws(LinkError) {
      let pairing = Pairing(
        registry: GatewayRegistry(state: try StateFolder(path: context.instance.state)), loop: loop,
        trusted: introduction.trust, proxy: context.proxy,
        ask: { question in terminal.isInteractive ? await ask(question, terminal) : false }, report: show.event)
      return try await pairing.prepare(introduction.complete(try await pairing.offer(parsing: introduction.text)))
    } catch {
      throw Failure(error)
    }
  }

  private static func code(_ operand: String) throws(Failure) -> String {
    if operand != "-" { return operand }
    do {
      return String(decoding: try Files.read("/dev/stdin", limit: GatewayOffer.longestText), as: UTF8.self)
    } catch {
      throw Failure("INPUT", "The code can't be read from standard input.", cause: "\(error)", exit: .noInput)
    }
  }

  @concurrent private static func ask(_ question: Pairing.Question, _ terminal: Terminal) async -> Bool {
    terminal.note("This system does not vouch for the certificate of \(question.endpoint.authority).")
    if !question.subject.isEmpty { terminal.note("  subject      \(question.subject)") }
    terminal.note("  fingerprint  \(hexadecimal(question.fingerprint))")
    if let previous = question.previous { terminal.note("  before       \(hexadecimal(previous))") }
    terminal.prompt("Is this the fingerprint that the gateway host shows? Trust it from now on? [y/N] ")
    let answer = readLine()?.trimmed.lowercased() ?? ""
    return answer == "y" || answer == "yes"
  }
}

/// How the steps of pairing are shown.
private struct Show: Sendable {
  let context: Context
  init(_ context: Context) { self.context = context }

  func event(_ event: PairingEvent) {
    if context.wantsJSON { context.terminal.print(event.json) } else { context.terminal.note(event.sentence) }
  }
}

/// Waits for the three approvals and tells the truth about what is missing.
private struct Wait {
  private let show: Show
  private var progress = PairingProgress()

  init(_ context: Context) { show = Show(context) }

  /// Shows what is new; false when there is nothing more to wait for.
  mutating func goesOn(_ status: NodeStatus?) throws(Failure) -> Bool {
    guard let link = status?.link else { return true }
    for event in progress.on(link) {
      show.event(event)
      if case .stopped(_, let code, let summary, let remedy) = event {
        throw Failure(code, summary, remedy: remedy, exit: Self.exit(code))
      }
    }
    return !progress.isComplete
  }

  private static func exit(_ code: String) -> ExitStatus {
    switch code {
    case "PROTOCOL_MISMATCH", "CLIENT_VERSION_MISMATCH": .protocolError
    case "ADDRESS_INVALID": .data
    default: .noPermission
    }
  }

  func end() throws(Failure) -> ExitStatus {
    if progress.isComplete { return .ok }
    throw Self.daemonLost
  }

  static var daemonLost: Failure {
    Failure(
      "DAEMON_LOST", "talknode ended while the approvals were awaited.", remedy: "talknode run", exit: .temporary)
  }
}
