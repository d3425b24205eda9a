import Configuration
import Glibc
import System

/// The running program: what it is made of, in which order it starts, and what stops first.
struct Daemon: Sendable {
  let node: Node
  private let lock: StateLock
  private let control: ControlServer
  private let signals: Signals
  private let service: ServiceManager
  private let sources: ConfigurationSources
  private let environment: Environment

  /// Takes the state folder. Fails where another daemon has it or a file can't be used.
  init(_ context: Context, settings: Settings, loop: EventLoop) throws(Failure) {
    let instance = context.instance
    try instance.makeFolder()
    lock = try StateLock(instance)
    node = try Node(instance, settings: settings, modules: Modules.all(settings), loop: loop)
    control = try ControlServer(instance: instance, handler: node, loop: loop)
    do { signals = try Signals([SIGTERM, SIGINT, SIGHUP], loop: loop) } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    service = ServiceManager(environment: context.environment, loop: loop)
    sources = context.sources
    environment = context.environment
  }

  /// Answers the control socket and begins the link, to `introduction`'s gateway where there is one. Ready means that both have begun,
  /// not that the gateway has answered.
  func start(_ introduction: Introduction? = nil) async throws(Failure) {
    await signals.start()
    await control.start()
    if let introduction {
      _ = try await introduction.write(
        into: node.registry, environment: environment, isPersonal: false, loop: node.loop, ask: nil,
        tell: { Log.warning($0) })
    }
    await node.start()
    await service.ready()
  }

  /// Returns when a signal asks for the end.
  func untilStopped() async {
    let node = node
    let service = service
    let reports = Task { for await status in await node.statuses() { await service.report(status.sentence) } }
    for await signal in signals.stream {
      if signal != SIGHUP { break }
      await reload()
    }
    reports.cancel()
  }

  /// No new requests, then the link, then what runs, then the devices.
  func stop() async {
    await service.stopping()
    await control.stop()
    await node.stop()
    await signals.stop()
  }

  /// SIGHUP: settings that can be read count from now on; wrong ones change nothing.
  private func reload() async {
    let layers = LayeredSettings(from: sources)
    for problem in layers.problems { Log.warning(problem.description) }
    if !layers.errors.isEmpty { return Log.error("The settings stay as they were. Mend the file, then send SIGHUP again.") }
    Context.configureLog(layers.settings, environment)
    await node.apply(layers.settings)
    Log.info("The settings were read anew.")
  }
}
