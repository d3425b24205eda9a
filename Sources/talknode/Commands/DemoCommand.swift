import Configuration
import GatewayProtocol
import Glibc
import System

enum DemoCommand {
  private static let live = Option("live", "the real camera, microphone, speaker and receiver in place of samples")
  private static let out = Option("out", value: "DIR", "where pictures and sounds are left")

  static let verb = Verb(
    "demo", "see it work: a gateway on this machine calls every command of this node", options: [live, .json, out],
    notes: [
      """
      Starts a gateway of its own on loopback, pairs with it as a stranger would, and lets its agent call every command. Facts of the \
      machine are its own; what would need a camera, microphone or receiver uses bundled samples through the real code. Nothing \
      of your own pairing is touched.
      """
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let isJSON = arguments.has(.json)
    // The log would only repeat what the steps say.
    Log.configure(threshold: .error, journal: false)
    if arguments.has(live) {
      terminal.note("--live: the real camera, microphone, speaker and receiver of this machine are used.")
    }
    let loop = EventLoop(name: "io")
    defer { loop.stop() }
    let stage = Stage(
      folder: try temporaryFolder(), out: try outFolder(arguments[out]), isLive: arguments.has(live),
      environment: .process, settings: Settings())
    let demo = Demo(stage: stage, loop: loop) { if !isJSON { say($0, terminal) } }
    let work = Task { () -> Result<(steps: [Demo.Outcome], gateway: JSON), Failure> in
      do throws(Failure) { return .success(try await demo.run()) } catch { return .failure(error) }
    }
    // Ctrl-C ends the demo like its own end does: everything it started and wrote goes.
    let interrupts = try watch(work, loop)
    let result = await work.value
    await stage.end()
    try? Files.removeTree(stage.folder)
    await interrupts.stop()
    if work.isCancelled { return .interrupted }
    let (steps, gateway) = try result.get()
    if isJSON {
      terminal.print(["steps": .array(steps.map(\.json)), "gateway": gateway])
    } else {
      func count(_ status: Demo.Outcome.Status) -> Int { steps.filter { $0.status == status }.count }
      terminal.print("\(count(.ok)) ok, \(count(.skipped)) skipped, \(count(.failed)) failed")
    }
    return steps.contains { $0.status == .failed } ? .failed : .ok
  }

  private static func watch<Success>(_ work: Task<Success, Never>, _ loop: EventLoop) throws(Failure) -> Signals {
    let signals: Signals
    do { signals = try Signals([SIGINT, SIGTERM], loop: loop) } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    Task {
      await signals.start()
      for await _ in signals.stream { work.cancel() }
    }
    return signals
  }

  private static func say(_ news: Demo.News, _ terminal: Terminal) {
    switch news {
    case .gateway(let url): terminal.print("A gateway is up at \(url); this machine asks to be let in.")
    case .approval(let sentence): terminal.print("  \(terminal.styled("pairing", .faint))  \(sentence)")
    case .step(let outcome):
      let mark =
        switch outcome.status {
        case .ok: terminal.styled("ok     ", .good)
        case .skipped: terminal.styled("skipped", .warning)
        case .failed: terminal.styled("failed ", .bad)
        }
      let asked = outcome.asked == "{}" ? outcome.name : "\(outcome.name) \(outcome.asked)"
      terminal.print(
        "  \(mark)  \(asked)  →  \(outcome.detail)  (\(AuditCommand.milliseconds(outcome.milliseconds)) ms)")
      if let remedy = outcome.remedy { terminal.print("           try: \(remedy)") }
    }
  }

  private static func temporaryFolder() throws(Failure) -> String {
    do { return try Files.makeTemporaryFolder("talknode-demo", in: Environment.process["TMPDIR"] ?? "/tmp") } catch {
      throw Failure("TEMPORARY", "No temporary folder can be made.", cause: "\(error)", exit: .cantCreate)
    }
  }

  private static func outFolder(_ path: String?) throws(Failure) -> String? {
    guard let path else { return nil }
    do { try Files.makeFolder(path, mode: 0o755) } catch {
      throw Failure("OUT", "The folder for --out can't be made.", cause: "\(error)", exit: .cantCreate)
    }
    return path
  }
}
