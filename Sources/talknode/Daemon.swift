import Configuration
import GatewayClient
import Glibc
import System

/// The running program: what it is made of, in which order it starts, and what stops first.
struct Daemon: Sendable {
  let node: Node
  private let lock: StateLock
  private let control: ControlServer
  private let signals: Signals
  private let supervision: Supervision
  private let sources: ConfigurationSources
  private let environment: Environment

  /// Takes the state folder. Fails where another daemon has it or a file can't be used.
  init(_ context: Context, settings: Settings, loop: EventLoop) throws(Failure) {
    let instance = context.instance
    try instance.makeFolder()
    lock = try StateLock(instance)
    node = try Node(instance, settings: settings, environment: context.environment, loop: loop)
    control = try ControlServer(instance: instance, handler: node, loop: loop)
    do { signals = try Signals([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2], loop: loop) } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    supervision = Supervision(environment: context.environment, loop: loop)
    sources = context.sources
    environment = context.environment
  }

  /// Answers the control socket and begins the link. Ready means that both have begun, not that the gateway has answered.
  func start() async {
    await signals.start()
    // What a process that was killed had unpacked.
    node.services.health.tidy()
    await control.start()
    await node.start()
    let sentence = await node.status().sentence
    Log.info("talknode \(Version.number) is up: \(sentence)")
    await supervision.ready(sentence)
    Task {
      try? await Task.sleep(for: Self.settling)
      ProgramCode.giveBack()
    }
  }

  /// By then the link is up, where there is one to be had.
  private static let settling: Duration = .seconds(2)

  /// Returns when a signal asks for the end.
  func untilStopped() async {
    let reports = Task { [node, supervision] in
      for await status in await node.statuses() { await supervision.report(status.sentence) }
    }
    for await signal in signals.stream {
      switch signal {
      case SIGHUP: await reload()
      // For a key daemon that can do no more than send a signal. The answer is what is heard.
      case SIGUSR1: Task { [talk = node.services.talk] in await talk.press(.toggle) }
      case SIGUSR2: Task { [talk = node.services.talk] in _ = await talk.cancel() }
      default: return reports.cancel()
      }
    }
    reports.cancel()
  }

  /// No new requests, then the link, then what runs, then the devices.
  func stop() async {
    await supervision.stopping()
    await control.stop()
    await node.stop()
    await signals.stop()
  }

  /// SIGHUP: settings that can be read count from now on; wrong ones change nothing.
  private func reload() async {
    let layers = LayeredSettings(from: sources)
    for problem in layers.problems { Log.warning(problem.description) }
    if !layers.errors.isEmpty {
      return Log.error("The settings stay as they were. Mend the file, then send SIGHUP again.")
    }
    Context.configureLog(layers.settings, environment)
    let waiting = await node.apply(layers.settings)
    Log.info("The settings were read anew.")
    if !waiting.isEmpty {
      let names = waiting.joined(separator: ", ")
      Log.warning("Counts after a restart: \(names). systemctl --user restart talknode")
    }
  }
}
