import GatewayProtocol
import System

/// Every invoke walks through here, from a gateway or from this machine: known, consented, bounded in time and number, answered
/// once, shown and audited (ARCHITECTURE.md §1).
///
/// Pinned to `loop`; modules are called there, so that a quick answer costs no thread hop.
public actor CommandRouter {
  private struct Route {
    let module: Int
    let command: Command
  }

  /// One invoke that waits for its answer.
  private struct Asked {
    let request: InvokeRequest
    let origin: Invocation.Origin
    let payloadLimit: Int
    let arrived: Duration
    let deadline: Duration
    var timer: EventLoop.Token?
    let answer: @Sendable (InvokeOutcome) -> Void
  }

  public nonisolated let modules: [any CapabilityModule]
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private let routes: [String: Route]
  private let switches: SwitchStore
  private let audit: AuditLog
  private let sign: (@Sendable (UseNotice) async -> Void)?
  private var queue = InvokeQueue()
  private var asked: [InvokeQueue.Asker: Asked] = [:]
  private var works: [InvokeQueue.Work: Task<Void, Never>] = [:]
  private var starts: [Int: Task<Void, Never>] = [:]
  private var started: Set<Int> = []
  private var lastAsker: InvokeQueue.Asker = 0

  /// How long the start or the end of all modules may take before it goes on behind the caller's back.
  private static let settling: Duration = .seconds(5)

  /// Two modules may not have the same command.
  public init(
    modules: [any CapabilityModule], switches: SwitchStore, audit: AuditLog,
    sign: (@Sendable (UseNotice) async -> Void)? = nil, loop: EventLoop
  ) {
    var routes: [String: Route] = [:]
    for (index, module) in modules.enumerated() {
      for command in module.commands {
        let other = routes.updateValue(Route(module: index, command: command), forKey: command.name)
        precondition(other == nil, "\(command.name) is registered twice")
      }
    }
    self.modules = modules
    self.routes = routes
    self.switches = switches
    self.audit = audit
    self.sign = sign
    self.loop = loop
  }

  /// What to declare at connect.
  public func surface() -> NodeSurface { modules.surface(under: switches) }

  /// Starts every module and returns when they have started, at the latest after 5 s. An invoke waits for its own module only.
  public func start() async {
    let starts = modules.indices.map(start(of:))
    _ = try? await withDeadline(Self.settling) { for start in starts { await start.value } }
  }

  /// Answers everything that waits with `UNAVAILABLE`, cancels what runs, and stops the modules; returns when they have stopped, at
  /// the latest after 5 s. Invokes that come later are refused.
  public func stop() async {
    perform(queue.on(.stopped))
    let stops = modules.map { module in Task { await module.stop() } }
    _ = try? await withDeadline(Self.settling) { for stop in stops { await stop.value } }
    await audit.flush()
  }

  /// Runs a command and returns its outcome: at the latest at the deadline of §1.3, whatever the module does.
  ///
  /// `payloadLimit` is in bytes as they stand in the result frame (`escapedCount`).
  public func handle(_ request: InvokeRequest, from origin: Invocation.Origin, payloadLimit: Int) async -> InvokeOutcome
  {
    lastAsker += 1
    let asker = lastAsker
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        take(request, as: asker, from: origin, payloadLimit: payloadLimit) { continuation.resume(returning: $0) }
        // A cancel that was there before it found no asker.
        if Task.isCancelled { withdraw(asker) }
      }
    } onCancel: {
      Task { await self.withdraw(asker) }
    }
  }

  /// The same for who does not wait: `answer` is called with the outcome, once, on the loop, and for what is refused before this returns.
  /// A task that waits is resumed by way of the runtime's threads (Swift 6.3), which is two changes of thread more.
  public func handle(
    _ request: InvokeRequest, from origin: Invocation.Origin, payloadLimit: Int,
    answer: @escaping @Sendable (InvokeOutcome) -> Void
  ) {
    lastAsker += 1
    take(request, as: lastAsker, from: origin, payloadLimit: payloadLimit, answer)
  }

  /// Gives up the invoke with this id (`node.invoke.cancel`). Unknown ids are ignored.
  public func cancel(_ invokeID: String) { perform(queue.on(.cancelled(invokeID: invokeID))) }

  /// Ends what is running or waiting under a switch that is now off.
  public func switchesChanged() {
    var refusals: [String: CommandError] = [:]
    for (name, route) in routes {
      if let consent = route.command.consent, !switches.isEnabled(consent) { refusals[name] = consent.refusal }
    }
    perform(queue.on(.revoked(refusals)))
  }

  /// Commands that run and that somebody waits for.
  public var inFlight: Int { queue.inFlight }
  /// Invokes without an answer yet.
  public var unanswered: Int { queue.unanswered }

  // MARK: One invoke

  private func take(
    _ request: InvokeRequest, as asker: InvokeQueue.Asker, from origin: Invocation.Origin, payloadLimit: Int,
    _ answer: @escaping @Sendable (InvokeOutcome) -> Void
  ) {
    let arrived = Monotonic.now()
    func refuse(_ refusal: CommandError) {
      record(request, origin, outcome: refusal.code, since: arrived)
      answer(.failure(refusal.json))
    }
    guard let route = routes[request.command] else { return refuse(.invalidRequest("unknown command")) }
    if let consent = route.command.consent, !switches.isEnabled(consent) { return refuse(consent.refusal) }
    let limit = InvokeDeadline.limit(timeoutMs: request.timeoutMs, command: route.command)
    let timer = loop.after(limit) { [weak self] in self?.assumeIsolated { $0.perform($0.queue.on(.expired(asker))) } }
    asked[asker] = Asked(
      request: request, origin: origin, payloadLimit: payloadLimit, arrived: arrived, deadline: arrived + limit,
      timer: timer, answer: answer)
    let key = request.idempotencyKey.map { InvokeQueue.Key(origin: origin, command: request.command, key: $0) }
    perform(
      queue.on(
        .arrived(
          asker,
          InvokeQueue.Request(
            invokeID: request.id, command: request.command, lane: route.module, key: key,
            isImmediate: route.command.isImmediate))))
  }

  private func withdraw(_ asker: InvokeQueue.Asker) { perform(queue.on(.withdrawn(asker))) }

  private func perform(_ actions: [InvokeQueue.Action]) {
    for action in actions {
      switch action {
      case .start(let work, let asker): start(work, for: asker)
      case .abandon(let work): works[work]?.cancel()
      case .answer(let asker, let outcome, let isRepeat): answer(asker, outcome, isRepeat: isRepeat)
      }
    }
  }

  private func start(_ work: InvokeQueue.Work, for asker: InvokeQueue.Asker) {
    guard let first = asked[asker], let route = routes[first.request.command] else { return }
    let invocation = Invocation(
      id: first.request.id, command: first.request.command, paramsText: first.request.paramsText, origin: first.origin,
      sessionKey: first.request.sessionKey, deadline: first.deadline, payloadLimit: first.payloadLimit)
    if let sign, let consent = route.command.consent, route.command.isShown {
      // Not awaited: a notification server that hangs must not hold up the command.
      let notice = UseNotice(consent: consent, command: route.command.name, origin: first.origin)
      Task { await sign(notice) }
    }
    let module = modules[route.module]
    works[work] = Task {
      if !started.contains(route.module) { await start(of: route.module).value }
      let outcome: InvokeOutcome
      do throws(CommandError) {
        outcome = .success(try await module.handle(invocation).text)
      } catch {
        outcome = .failure(error.json)
      }
      works[work] = nil
      perform(queue.on(.finished(work, outcome)))
    }
  }

  private func start(of module: Int) -> Task<Void, Never> {
    if let task = starts[module] { return task }
    let task = Task {
      await modules[module].start()
      started.insert(module)
    }
    starts[module] = task
    return task
  }

  private func answer(_ asker: InvokeQueue.Asker, _ outcome: InvokeOutcome, isRepeat: Bool) {
    guard let asked = asked.removeValue(forKey: asker) else { return }
    if let timer = asked.timer { loop.cancel(timer) }
    let outcome = outcome.fitted(into: asked.payloadLimit)
    record(asked.request, asked.origin, outcome: outcome.code, since: asked.arrived, isRepeat: isRepeat)
    asked.answer(outcome)
  }

  private func record(
    _ request: InvokeRequest, _ origin: Invocation.Origin, outcome: String, since arrived: Duration,
    isRepeat: Bool = false
  ) {
    audit.record(
      AuditEntry(
        timeMs: WallClock.milliseconds(), origin: origin, command: request.command, outcome: outcome,
        milliseconds: (Monotonic.now() - arrived).milliseconds, isRepeat: isRepeat))
  }
}

/// How long an invoke may take (node-commands §1.3).
enum InvokeDeadline {
  static let longest: Duration = .seconds(600)

  /// The time from the request's arrival to its answer. A caller's deadline is undercut a little, by a tenth but at most 250 ms, so
  /// that our answer, which says more than the gateway's `TIMEOUT`, is there first.
  static func limit(timeoutMs: Int64?, command: Command) -> Duration {
    if timeoutMs == 0 { return min(command.limit, longest) }
    let asked = timeoutMs.map { Duration.milliseconds(max($0, 1)) } ?? ProtocolLimits.invokeTimeout
    return min(asked - min(asked / 10, .milliseconds(250)), longest)
  }
}

extension InvokeOutcome {
  /// `ok` or the error's code, for the audit log.
  var code: String {
    switch self {
    case .success: "ok"
    case .failure(let error): error["code"]?.string ?? "UNAVAILABLE"
    }
  }

  /// Itself, or `PAYLOAD_TOO_LARGE`: a frame over the gateway's limit would cost the whole connection.
  func fitted(into limit: Int) -> InvokeOutcome {
    switch self {
    case .success(nil): return self
    case .success(let text?):
      if text.count <= limit / 2 || escapedCount(text) <= limit { return self }
      let error = CommandError(
        "PAYLOAD_TOO_LARGE", "the result of \(text.count) bytes is more than the gateway takes (\(limit)).",
        remedy: "Ask for less: a smaller picture, a shorter clip, a lower quality.")
      return .failure(error.json)
    case .failure(let error):
      if error.encoded().count <= max(limit, 1024) { return self }
      return .failure(CommandError(code, "the reason is too long for the gateway.").json)
    }
  }
}
