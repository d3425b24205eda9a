import GatewayProtocol

/// Which invokes run, wait, join another or are refused. Pure: the router performs its actions.
///
/// An *asker* is one invoke that waits for an answer; a *work* is one run of a module, which all askers with the same key share. A
/// work whose askers have all gone is cancelled and left behind: its slot is free, but it is counted against its lane (its
/// module) until it really ends, so that a wedged module can neither be started without bound nor hold up the others.
struct InvokeQueue {
  struct Limits: Sendable {
    /// Works that somebody waits for.
    var inFlight = 8
    /// Works besides those, of commands that wait for no other.
    var immediate = 4
    /// Works that wait for a slot.
    var queued = 64
    /// Works left behind, of one lane.
    var leftBehind = 4
    /// Outcomes kept for repeats.
    var receipts = 256
    /// The largest outcome kept, in bytes.
    var receiptBytes = 65_536
  }

  typealias Asker = UInt64
  /// Named after its first asker.
  typealias Work = UInt64

  /// An idempotency key is its asker's and its command's own: another gateway can't read an outcome by guessing a key.
  struct Key: Hashable {
    let origin: Invocation.Origin
    let command: String
    let key: String
  }

  struct Request: Equatable {
    let invokeID: String
    let command: String
    let lane: Int
    let key: Key?
    /// Ends what others began: it has slots of its own.
    var isImmediate = false
  }

  enum Event {
    /// An invoke has come. Askers are numbered upward.
    case arrived(Asker, Request)
    /// Its deadline has passed.
    case expired(Asker)
    /// `node.invoke.cancel`.
    case cancelled(invokeID: String)
    /// The task that waited for the answer was cancelled.
    case withdrawn(Asker)
    case finished(Work, InvokeOutcome)
    /// These commands are switched off.
    case revoked([String: CommandError])
    case stopped
  }

  enum Action: Equatable {
    /// Run the module, with the request of this asker: the first of the work that still waits.
    case start(Work, for: Asker)
    /// Cancel the run. Its `finished` is still awaited.
    case abandon(Work)
    case answer(Asker, InvokeOutcome, isRepeat: Bool)
  }

  private struct Running {
    let request: Request
    var askers: [Asker]
    var hasOwnSlot = false
    var isLeftBehind = false
  }

  private struct Receipt {
    let outcome: InvokeOutcome
    var lastUse: UInt64
  }

  let limits: Limits
  private var waiting: [Work] = []
  private var works: [Work: Running] = [:]
  private var askers: [Asker: (invokeID: String, work: Work)] = [:]
  private var shared: [Key: Work] = [:]
  private var leftBehind: [Int: Int] = [:]
  private var receipts: [Key: Receipt] = [:]
  /// Keys by their last use, the oldest first; an entry whose receipt has been used since, or is gone, is passed over.
  private var usage: [(key: Key, use: UInt64)] = []
  private var uses: UInt64 = 0
  private var isStopped = false

  init(limits: Limits = Limits()) { self.limits = limits }

  /// Works in their slots.
  private(set) var inFlight = 0
  /// Works in slots of their own.
  private(set) var immediate = 0
  var queued: Int { waiting.count }
  var unanswered: Int { askers.count }
  var kept: Int { receipts.count }
  func leftBehind(of lane: Int) -> Int { leftBehind[lane] ?? 0 }

  mutating func on(_ event: Event) -> [Action] {
    switch event {
    case .arrived(let asker, let request): return arrive(asker, request)
    case .expired(let asker): return leave([(asker, .timedOut)])
    case .withdrawn(let asker): return leave([(asker, .cancelled)])
    case .cancelled(let invokeID):
      return leave(askers.filter { $0.value.invokeID == invokeID }.keys.sorted().map { ($0, .cancelled) })
    case .finished(let work, let outcome): return finish(work, outcome)
    case .revoked(let refusals):
      return leave(
        askers.keys.sorted().compactMap { asker in
          guard let work = askers[asker]?.work, let refusal = refusals[works[work]!.request.command] else { return nil }
          return (asker, .failure(refusal.json))
        })
    case .stopped:
      isStopped = true
      return leave(askers.keys.sorted().map { ($0, .failure(CommandError.unavailable("the node is stopping").json)) })
    }
  }

  // MARK: Coming

  private mutating func arrive(_ asker: Asker, _ request: Request) -> [Action] {
    func refuse(_ error: CommandError) -> [Action] { [.answer(asker, .failure(error.json), isRepeat: false)] }
    if isStopped { return refuse(.unavailable("the node is stopping")) }
    if let key = request.key, let outcome = receipt(key) { return [.answer(asker, outcome, isRepeat: true)] }
    let hasOwnSlot = request.isImmediate && immediate < limits.immediate
    let places = limits.inFlight + limits.queued + (hasOwnSlot ? limits.immediate : 0)
    if askers.count >= places { return refuse(.busy) }
    if let key = request.key, let work = shared[key] {
      works[work]!.askers.append(asker)
      askers[asker] = (request.invokeID, work)
      return []
    }
    if isWedged(request.lane) { return refuse(.wedged(request.command)) }
    let hasSlot = hasOwnSlot || inFlight < limits.inFlight
    if !hasSlot && waiting.count >= limits.queued { return refuse(.busy) }
    works[asker] = Running(request: request, askers: [asker], hasOwnSlot: hasOwnSlot)
    askers[asker] = (request.invokeID, asker)
    if let key = request.key { shared[key] = asker }
    if !hasSlot {
      waiting.append(asker)
      return []
    }
    if hasOwnSlot { immediate += 1 } else { inFlight += 1 }
    return [.start(asker, for: asker)]
  }

  private mutating func freeSlot(of work: Running) { if work.hasOwnSlot { immediate -= 1 } else { inFlight -= 1 } }

  private func isWedged(_ lane: Int) -> Bool { leftBehind(of: lane) >= limits.leftBehind }

  // MARK: Going

  /// These askers get their outcomes now, whatever their works do.
  private mutating func leave(_ leaving: [(Asker, InvokeOutcome)]) -> [Action] {
    var actions: [Action] = []
    for (asker, outcome) in leaving {
      guard let work = askers.removeValue(forKey: asker)?.work else { continue }
      actions.append(.answer(asker, outcome, isRepeat: false))
      works[work]!.askers.removeAll { $0 == asker }
      guard works[work]!.askers.isEmpty else { continue }
      let request = works[work]!.request
      if let key = request.key { shared[key] = nil }
      if let place = waiting.firstIndex(of: work) {
        // It never ran, so nothing is kept: the same key may run it later.
        waiting.remove(at: place)
        works[work] = nil
      } else {
        keep(outcome, for: request.key)
        works[work]!.isLeftBehind = true
        leftBehind[request.lane, default: 0] += 1
        freeSlot(of: works[work]!)
        actions.append(.abandon(work))
      }
    }
    return actions + fillSlots()
  }

  private mutating func finish(_ work: Work, _ outcome: InvokeOutcome) -> [Action] {
    guard let running = works.removeValue(forKey: work) else { return [] }
    if running.isLeftBehind {
      let left = leftBehind(of: running.request.lane) - 1
      leftBehind[running.request.lane] = left == 0 ? nil : left
      return []
    }
    freeSlot(of: running)
    if let key = running.request.key { shared[key] = nil }
    keep(outcome, for: running.request.key)
    var actions: [Action] = []
    for (index, asker) in running.askers.enumerated() {
      askers[asker] = nil
      actions.append(.answer(asker, outcome, isRepeat: index > 0))
    }
    return actions + fillSlots()
  }

  private mutating func fillSlots() -> [Action] {
    var actions: [Action] = []
    while !isStopped, inFlight < limits.inFlight, !waiting.isEmpty {
      let work = waiting.removeFirst()
      let request = works[work]!.request
      if isWedged(request.lane) {
        if let key = request.key { shared[key] = nil }
        for asker in works.removeValue(forKey: work)!.askers {
          askers[asker] = nil
          actions.append(.answer(asker, .failure(CommandError.wedged(request.command).json), isRepeat: false))
        }
      } else {
        inFlight += 1
        actions.append(.start(work, for: works[work]!.askers[0]))
      }
    }
    return actions
  }

  // MARK: Receipts

  private mutating func receipt(_ key: Key) -> InvokeOutcome? {
    guard let outcome = receipts[key]?.outcome else { return nil }
    use(key)
    return outcome
  }

  private mutating func keep(_ outcome: InvokeOutcome, for key: Key?) {
    guard let key, limits.receipts > 0 else { return }
    switch outcome {
    case .success(let text): if (text?.count ?? 0) > limits.receiptBytes { return }
    case .failure(let error):
      // "Try again" is no outcome: the retry comes with the same key.
      if error["retryable"]?.bool == true { return }
    }
    receipts[key] = Receipt(outcome: outcome, lastUse: 0)
    use(key)
    while receipts.count > limits.receipts {
      let oldest = usage.removeFirst()
      if receipts[oldest.key]?.lastUse == oldest.use { receipts[oldest.key] = nil }
    }
  }

  private mutating func use(_ key: Key) {
    uses += 1
    receipts[key]!.lastUse = uses
    usage.append((key, uses))
    // Keys that are used again and again would make it grow.
    if usage.count > limits.receipts * 4 { usage.removeAll { receipts[$0.key]?.lastUse != $0.use } }
  }
}

extension InvokeOutcome {
  static let timedOut = InvokeOutcome.failure(CommandError.unavailable("node invoke timed out").json)
  static let cancelled = InvokeOutcome.failure(CommandError.unavailable("node invoke cancelled").json)
}

extension CommandError {
  static let busy = unavailable("too many commands are waiting on this node.", retryAfterMs: 1000)
  static func wedged(_ command: String) -> CommandError {
    unavailable("earlier calls of \(command)'s module were given up and have not ended yet.", retryAfterMs: 5000)
  }
}
