import Audio
import Crypto
import GatewayClient
import Speech
import System

/// Push-to-talk at work: does what the value `PushToTalk` says with the microphone, the transcribers, the gateway and the voice.
/// Pinned to its loop; nothing in here waits on it.
public actor Talk {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  public nonisolated let mouth: Mouth
  public nonisolated let kept: KeptTranscripts
  public nonisolated let transcribers: TranscriberSet

  let options: TalkOptions
  let sound: SoundSystem
  /// The link to the active gateway at this moment.
  let gateway: @Sendable () async -> GatewayLink?
  /// Shown to a person when someone else opens the microphone.
  let openedByAgent: @Sendable (_ gateway: String) async -> Void

  private var machine = PushToTalk()
  private var nextRequest = 0
  private var requests: [PushToTalk.RequestID: CheckedContinuation<PushToTalk.Answer, Never>] = [:]
  var captures: [PushToTalk.CaptureID: CaptureSession] = [:]
  /// The last capture that is being given up: the next one has the microphone after it.
  private var closing: Task<Void, Never>?
  private var openings: [PushToTalk.CaptureID: Task<Void, Never>] = [:]
  private var limits: [PushToTalk.CaptureID: EventLoop.Token] = [:]
  var deliveries: [PushToTalk.CaptureID: Task<Void, Never>] = [:]
  /// What is on its way over a link, the words that are sent again among them.
  var carried: [PushToTalk.CaptureID: Delivery] = [:]
  private var observers: [UInt64: AsyncStream<TalkNotice>.Continuation] = [:]
  private var lastObserver: UInt64 = 0
  /// The newest reply, for `listen --last`.
  public internal(set) var lastReply: String?
  /// How the newest turn went.
  public internal(set) var lastTurn = TurnReport()
  /// Why the newest capture gave no text though something was said.
  public internal(set) var lastLoss: Loss?

  /// A turn without its words: who did what.
  public struct TurnReport: Sendable, Equatable {
    /// The transcriber that understood it.
    public var transcriber: String?
    /// From the end of the capture to the text.
    public var recognition: Duration?
    /// Who spoke the answer; nil as long as nobody has.
    public var voice: Mouth.Way?
  }

  public struct Loss: Sendable, Equatable {
    public let id: PushToTalk.CaptureID
    public let sentence: String
  }

  public init(
    options: TalkOptions, sound: SoundSystem, synthesizer: Synthesizer, transcribers: TranscriberSet, keptPath: String,
    loop: EventLoop, gateway: @escaping @Sendable () async -> GatewayLink?,
    openedByAgent: @escaping @Sendable (_ gateway: String) async -> Void
  ) {
    self.options = options
    self.sound = sound
    self.transcribers = transcribers
    self.loop = loop
    self.gateway = gateway
    self.openedByAgent = openedByAgent
    mouth = Mouth(sound: sound, synthesizer: synthesizer, options: options)
    kept = KeptTranscripts(path: keptPath)
  }

  // MARK: Asking

  public func start(_ owner: PushToTalk.Owner) async -> PushToTalk.Answer {
    await ask { .start($0, owner, id: Random.uuid()) }
  }
  public func once(_ owner: PushToTalk.Owner) async -> PushToTalk.Answer {
    await ask { .once($0, owner, id: Random.uuid()) }
  }
  public func stop() async -> PushToTalk.Answer { await ask { .stop($0, id: Random.uuid()) } }
  public func cancel() async -> PushToTalk.Answer { await ask { .cancel($0, id: Random.uuid()) } }

  /// Starts when nothing is open, stops what is being heard.
  public func toggle() async -> PushToTalk.Answer {
    switch machine.phase {
    case .preparing, .capturing, .recognising: await stop()
    case .idle, .answering: await start(.person)
    }
  }

  /// A key at this machine, which waits for no answer. Takes effect before it returns, so that a release can't overtake its press.
  /// One that is refused is shown and heard.
  public func press(_ press: Press) {
    nextRequest += 1
    let actions =
      switch (press, machine.phase) {
      case (.start, _), (.toggle, .idle), (.toggle, .answering):
        machine.on(.start(nextRequest, .person, id: Random.uuid()))
      case (.stop, _), (.toggle, _): machine.on(.stop(nextRequest, id: Random.uuid()))
      }
    perform(actions)
    if actions.contains(.answer(nextRequest, .failed(.busy))) {
      notify(.trouble("The previous turn is still finishing: nothing is listened to yet."))
      Task { await mouth.cue(.error) }
    }
  }

  public enum Press: Sendable {
    case start, stop
    /// Starts when nothing is open, else stops.
    case toggle
  }

  /// Silences what is spoken.
  public func hush() async { await mouth.hush() }

  /// A gateway's connection has ended: what it opened is closed.
  public func gatewayGone(_ id: String) { perform(machine.on(.gatewayGone(id))) }

  /// The link is given up, for another gateway or for none: what it opened is closed, and nobody waits for what its agent says.
  public func left(_ link: GatewayLink) async {
    gatewayGone(link.gateway.id)
    for delivery in Array(carried.values) where delivery.link === link { await delivery.abandon() }
  }

  /// Agents may no longer open the microphone: what they opened is closed. A person's own capture goes on.
  public func agentsRefused() { perform(machine.on(.agentsRefused)) }

  private func ask(_ event: (PushToTalk.RequestID) -> PushToTalk.Event) async -> PushToTalk.Answer {
    nextRequest += 1
    let request = nextRequest
    let event = event(request)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        requests[request] = continuation
        perform(machine.on(event))
      }
    } onCancel: {
      Task { await self.abandon(request) }
    }
  }

  private func abandon(_ request: PushToTalk.RequestID) {
    guard let continuation = requests.removeValue(forKey: request) else { return }
    perform(machine.on(.abandoned(request)))
    continuation.resume(returning: .failed(.cancelled))
  }

  // MARK: What could be done now

  /// Why no microphone can be had; nil when one can, as far as is known without opening it.
  public func microphoneChoice() async -> TalkError? {
    do throws(AudioError) {
      let inputs = try await sound.devices().filter { $0.direction == .input && !$0.isMonitor }
      if !inputs.isEmpty { return nil }
      return TalkError("UNAVAILABLE", "No microphone is connected.", remedy: "Plug one in: talknode audio list")
    } catch {
      return TalkError(error.code.rawValue, error.summary, remedy: error.remedy)
    }
  }

  /// Each transcriber, and whether it could be used now.
  public func transcriberFindings() async -> [TranscriberSet.Finding] {
    await transcribers.findings(link: await gateway())
  }

  /// Gives up the microphone, the voice and the helpers. What was said and not sent stays kept.
  public func close() async {
    for capture in captures.values { await capture.discard() }
    captures = [:]
    await closing?.value
    for delivery in Array(carried.values) { await delivery.abandon() }
    for delivery in deliveries.values { delivery.cancel() }
    for (_, continuation) in requests { continuation.resume(returning: .failed(.cancelled)) }
    requests = [:]
    for observer in observers.values { observer.finish() }
    observers = [:]
    await mouth.hush()
    await transcribers.stop()
    await sound.close()
  }

  // MARK: Showing

  public var phase: TalkNotice.Phase {
    switch machine.phase {
    case .idle: .idle
    case .preparing: .preparing
    case .capturing: .listening
    case .recognising: .recognising
    case .answering(_, isSpeaking: false): .thinking
    case .answering(_, isSpeaking: true): .speaking
    }
  }

  /// Whether the microphone is open, or about to be.
  var isHearing: Bool {
    switch machine.phase {
    case .preparing, .capturing: true
    case .idle, .recognising, .answering: false
    }
  }

  /// What goes on from now on; 64 notices wait for a slow reader, then the oldest go.
  public func notices() -> AsyncStream<TalkNotice> {
    let (stream, continuation) = AsyncStream.makeStream(of: TalkNotice.self, bufferingPolicy: .bufferingNewest(64))
    lastObserver += 1
    let id = lastObserver
    observers[id] = continuation
    continuation.onTermination = { [weak self] _ in Task { await self?.removeObserver(id) } }
    continuation.yield(.phase(phase))
    return stream
  }

  private func removeObserver(_ id: UInt64) { observers[id] = nil }

  func notify(_ notice: TalkNotice) { for observer in observers.values { observer.yield(notice) } }

  // MARK: Doing

  func on(_ event: PushToTalk.Event) {
    if case .microphoneFailed(let id, _) = event { captures[id] = nil }
    perform(machine.on(event))
  }

  private func perform(_ actions: [PushToTalk.Action]) {
    for action in actions { perform(action) }
    notify(.phase(phase))
  }

  private func perform(_ action: PushToTalk.Action) {
    switch action {
    case .openMicrophone(let id, let owner): open(id, owner)
    case .discard(let id):
      guard let capture = captures.removeValue(forKey: id) else { return }
      // In order: the next capture would else be told that the microphone is in use, by itself.
      let (before, opening) = (closing, openings[id])
      let discarding = Task {
        await before?.value
        await capture.discard()
        await opening?.value
      }
      closing = discarding
      Task {
        await discarding.value
        await mouth.cue(.stop)
      }
    case .finish(let id): finish(id)
    case .startLimit(let id, let isOnce):
      limits[id] = loop.after(isOnce ? .seconds(12) : options.longest) { [weak self] in
        self?.assumeIsolated { $0.on(.limit(id)) }
      }
    case .stopLimit(let id):
      if let timer = limits.removeValue(forKey: id) { loop.cancel(timer) }
    case .hush:
      Task { await mouth.hush() }
    case .deliver(let id, let text, let route): deliver(id, text, route)
    case .keep(let id, let text): keepOnly(id, text)
    case .answer(let request, let answer):
      requests.removeValue(forKey: request)?.resume(returning: answer)
    }
  }

  private func open(_ id: PushToTalk.CaptureID, _ owner: PushToTalk.Owner) {
    let isOnce = if case .preparing(let capture) = machine.phase { capture.isOnce } else { false }
    let capture = CaptureSession(id: id, isOnce: isOnce, talk: self)
    captures[id] = capture
    if case .gateway(let gateway) = owner { Task { await openedByAgent(gateway) } }
    openings[id] = Task { [closing] in
      await closing?.value
      await capture.open()
      openings[id] = nil
    }
  }

  private func finish(_ id: PushToTalk.CaptureID) {
    guard let capture = captures[id] else { return on(.recognised(id, nil, .none)) }
    Task { await recognised(id, await capture.finish()) }
  }

  private func recognised(_ id: PushToTalk.CaptureID, _ heard: CaptureSession.Heard) async {
    guard let capture = captures[id] else { return }
    var text: String?
    switch heard {
    case .nothing: break
    case .words(let transcript):
      text = transcript.text
      lastTurn = TurnReport(transcriber: transcript.transcriber, recognition: transcript.latency)
      // Written down before anything else can go wrong.
      let bound = await capture.bound
      let note = KeptTranscripts.Kept(
        id: id, text: transcript.text, gatewayID: bound?.link.gateway.id, sessionKey: bound?.sessionKey,
        atMs: WallClock.milliseconds())
      do { try await kept.add(note) } catch { notify(.trouble(error.summary)) }
    case .lost(let sound, let error): await keep(sound, of: id, await capture.bound, because: error)
    }
    let route = await capture.route()
    // A cancel that came while this waited has won: then there is nothing to deliver, and nothing was promised.
    if captures[id] == nil {
      try? await kept.remove(id)
      return
    }
    on(.recognised(id, text, route))
    if text == nil || text == "" { captures[id] = nil }
  }
}
