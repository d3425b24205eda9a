import GatewayProtocol
import Glibc
import System

/// Shows what goes on while a person talks: level and text in one line of the terminal that is written over, troubles above it. As
/// JSON, or into a file, each notice is a line.
struct LiveView: Sendable {
  private struct Shown {
    var level = 0.0
    var partial = ""
    var phase = ""
  }
  private enum Ending: Sendable {
    case over
    case key(send: Bool)
  }

  private let context: Context
  private let loop: EventLoop
  private let client: ControlClient
  private let task: Task<Void, Never>
  private let phases: AsyncStream<String>
  private let keys: Keys?

  /// `endsCapture`: Enter and Ctrl-C are for a capture that goes on until it is ended. They are taken before anything is begun: Ctrl-C in the
  /// first moment must not leave an open microphone behind.
  init(_ context: Context, _ loop: EventLoop, endsCapture: Bool) async throws(Failure) {
    self.context = context
    self.loop = loop
    let client = try await ControlClient.require(context.instance, loop: loop)
    do { keys = endsCapture ? try Keys(loop, readsEnter: context.terminal.isInteractive) : nil } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    await keys?.start()
    let (phases, tell) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(64))
    self.client = client
    self.phases = phases
    task = Task { [context] in
      var shown = Shown()
      do throws(Failure) {
        try await client.watch { json throws(Failure) in
          Self.show(json, &shown, context)
          if let phase = json["phase"]?.string { tell.yield(phase) }
          return true
        }
      } catch {
        Log.debug("The view of the capture has ended: \(error.summary)")
      }
      tell.finish()
    }
  }

  /// Waits for the end of the capture that `start` began: it ends by itself, or another hand ends it, or Enter or Ctrl-C here do. Returns
  /// the end's own answer where this terminal ended it, else the start's with the status `ended`.
  func untilEnd(of start: JSON, _ asker: ControlClient) async throws(Failure) -> JSON {
    let (phases, keys) = (phases, keys)
    let ending = await withTaskGroup(of: Ending?.self) { group in
      group.addTask {
        // The first news may be how it stood before.
        var (hasBegun, hasListened) = (false, false)
        for await phase in phases {
          if phase == "listening" { hasListened = true } else if hasListened { return .over }
          if phase != "idle" { hasBegun = true } else if hasBegun { return .over }
        }
        return .over
      }
      group.addTask {
        if let keys { for await isSend in keys.stream { return .key(send: isSend) } }
        return nil
      }
      while let ending = await group.next() {
        if let ending {
          group.cancelAll()
          return ending
        }
      }
      return .over
    }
    await keys?.stop()
    switch ending {
    case .over:
      var answer = start.object ?? [:]
      answer["status"] = "ended"
      return .object(answer)
    case .key(let send): return try await asker.call(.talk(send ? .stop : .cancel), timeout: .seconds(60))
    }
  }

  /// Ends the view; `isAnswered` first waits until the answer has been spoken.
  func end(after isAnswered: Bool) async {
    if isAnswered {
      // The first news is how it stood before.
      var hasBegun = false
      for await phase in phases {
        if phase != "idle" { hasBegun = true } else if hasBegun { break }
      }
    }
    await keys?.stop()
    await client.close()
    await task.value
    if isInPlace { context.terminal.noteInPlace("") }
  }

  private var isInPlace: Bool { context.terminal.isInteractive && !context.wantsJSON }

  private static func show(_ json: JSON, _ shown: inout Shown, _ context: Context) {
    let terminal = context.terminal
    if context.wantsJSON { return terminal.print(json) }
    if let trouble = json["trouble"]?.string {
      terminal.noteOver(trouble)
    }
    if let level = json["level"]?.double { shown.level = level }
    if let phase = json["phase"]?.string {
      if phase == "preparing" { shown.partial = "" }
      if phase != shown.phase && !terminal.isInteractive { terminal.note(phase) }
      shown.phase = phase
    }
    if let partial = json["partial"]?.string {
      if partial != shown.partial && !terminal.isInteractive { terminal.note(partial) }
      shown.partial = partial
    }
    let isHearing = ["preparing", "listening"].contains(shown.phase)
    terminal.noteInPlace("\(isHearing ? bar(shown.level) : shown.phase)  \(shown.partial.suffix(70))")
  }

  static func bar(_ level: Double) -> String {
    let full = Int((min(max(level, 0), 1) * 20).rounded())
    return String(repeating: "#", count: full) + String(repeating: ".", count: 20 - full)
  }
}

/// Enter (true) and Ctrl-C (false) while a capture is shown.
private actor Keys {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  nonisolated let stream: AsyncStream<Bool>
  private let tell: AsyncStream<Bool>.Continuation
  private let signals: Signals
  private let readsEnter: Bool
  private var token: EventLoop.Token?
  private var pump: Task<Void, Never>?

  init(_ loop: EventLoop, readsEnter: Bool) throws(SystemError) {
    self.loop = loop
    self.readsEnter = readsEnter
    signals = try Signals([SIGINT, SIGTERM], loop: loop)
    (stream, tell) = AsyncStream.makeStream(of: Bool.self, bufferingPolicy: .bufferingNewest(4))
  }

  func start() async {
    await signals.start()
    pump = Task { [signals, tell] in for await _ in signals.stream { tell.yield(false) } }
    guard readsEnter else { return }
    token = loop.watch(STDIN_FILENO, .readable) { [weak self] _ in self?.assumeIsolated { $0.read() } }
  }

  func stop() async {
    if let token { loop.unwatch(token) }
    token = nil
    pump?.cancel()
    await signals.stop()
    tell.finish()
  }

  private func read() {
    var bytes = [UInt8](repeating: 0, count: 256)
    let count = Glibc.read(STDIN_FILENO, &bytes, bytes.count)
    if count > 0 && bytes[..<count].contains(UInt8(ascii: "\n")) { tell.yield(true) }
    // A terminal that is gone says no more.
    if count == 0, let token {
      loop.unwatch(token)
      self.token = nil
    }
  }
}
