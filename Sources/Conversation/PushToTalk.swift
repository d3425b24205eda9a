/// Push-to-talk from key to hand-over, as a value (node-commands §4.2). The microphone, the recogniser and the gateway are told what to
/// do by the actions; nothing here waits, reads a clock or makes an id.
///
/// Two rules of the reference need a word. "Start while finalising is busy" and "starting stops any spoken output" are both kept: while
/// the agent is being told or thinks, a start is `PTT_BUSY`; while its answer is being *spoken*, a start silences it and captures. And the
/// reference's *finalising* is two phases here, because a recogniser needs time after the key is up: `recognising`, then `answering`.
public struct PushToTalk: Sendable, Equatable {
  public typealias CaptureID = String
  public typealias RequestID = Int

  /// Who holds the microphone open.
  public enum Owner: Sendable, Equatable {
    /// Someone at this machine: a key, the command line, a signal. Lives as long as the daemon.
    case person
    /// An agent, through the gateway with this id. Its capture ends with that gateway's connection.
    case gateway(String)
  }

  /// How a transcript can reach the agent at this moment.
  public enum Route: Sendable, Equatable {
    /// `chat.send` on the operator socket.
    case operatorSocket
    /// `voice.transcript` on the node socket, the reduced path.
    case nodeSocket
    /// Neither: the transcript is kept.
    case none
  }

  public enum Status: String, Sendable { case queued, empty, offline, cancelled, idle, busy }

  /// What a request is answered.
  public enum Answer: Sendable, Equatable {
    /// To a start: the open capture, new or not.
    case capturing(CaptureID)
    /// To stop, cancel and once.
    case ended(CaptureID, transcript: String?, Status)
    case failed(Failure)
  }

  /// A start that did not come to a capture.
  public enum Failure: Sendable, Equatable {
    /// `PTT_BUSY`: the previous turn is still finishing.
    case busy
    /// `PTT_CANCELLED`: a stop or cancel came while it was being prepared or waited its turn.
    case cancelled
    /// The microphone or the recogniser could not be had: wire code, sentence, remedy.
    case unavailable(code: String, summary: String, remedy: String?)
  }

  public enum Phase: Sendable, Equatable {
    case idle
    case preparing(Capture)
    case capturing(Capture)
    /// The key is up; the recogniser has what was heard and will say what it was.
    case recognising(Capture)
    /// The transcript is on its way; the agent thinks or, with `isSpeaking`, is being spoken.
    case answering(CaptureID, isSpeaking: Bool)
  }

  /// One press of the key.
  public struct Capture: Sendable, Equatable {
    public let id: CaptureID
    public let owner: Owner
    /// Ends by itself: on a final result, after silence, at the limit.
    public let isOnce: Bool
    /// The request that opened it: a start until it is answered, a once until the end.
    var opener: RequestID?
    /// Stops that wait for the end.
    var waiting: [RequestID] = []
  }

  public enum Event: Sendable, Equatable {
    /// `id` is used if this start opens a capture.
    case start(RequestID, Owner, id: CaptureID)
    case once(RequestID, Owner, id: CaptureID)
    /// `id` is used if nothing is open: an idle answer carries a fresh one.
    case stop(RequestID, id: CaptureID)
    case cancel(RequestID, id: CaptureID)
    /// The caller of a request has gone away (its invoke was cancelled).
    case abandoned(RequestID)
    case microphoneReady(CaptureID)
    case microphoneFailed(CaptureID, Failure)
    /// The microphone was lost in mid-capture and will not come back; what was heard is transcribed.
    case microphoneEnded(CaptureID)
    /// The recogniser has finished an utterance. Ends a once.
    case utteranceFinal(CaptureID)
    /// Text was heard and then silence for the window. Ends a once.
    case silence(CaptureID)
    /// The time of a capture is over.
    case limit(CaptureID)
    /// What was said, trimmed; nil or empty when nothing was. The route is the one of this moment.
    case recognised(CaptureID, String?, Route)
    case speaking(CaptureID)
    case answered(CaptureID)
    /// This gateway's connection has ended or another gateway was chosen.
    case gatewayGone(String)
    /// A person has switched off that agents open the microphone (talk-and-chat §1.8, §2.1).
    case agentsRefused
  }

  public enum Action: Sendable, Equatable {
    case openMicrophone(CaptureID, Owner)
    /// Close the microphone; forget what was heard.
    case discard(CaptureID)
    /// Close the microphone and have the rest transcribed.
    case finish(CaptureID)
    case startLimit(CaptureID, isOnce: Bool)
    case stopLimit(CaptureID)
    /// Silence whatever is being spoken.
    case hush
    case deliver(CaptureID, String, Route)
    /// Not sent: shown by `ptt last`, sent only when a person says so.
    case keep(CaptureID, String)
    case answer(RequestID, Answer)
  }

  public private(set) var phase: Phase = .idle
  /// Starts that came while another was being prepared, first come first served.
  private var queue: [QueuedStart] = []

  private struct QueuedStart: Sendable, Equatable {
    let request: RequestID
    let owner: Owner
    let id: CaptureID
  }

  /// How many starts may wait for one that is being prepared; more are busy.
  static let queueLimit = 16

  public init() {}

  public mutating func on(_ event: Event) -> [Action] {
    switch event {
    case .start(let request, let owner, let id): start(request, owner, id)
    case .once(let request, let owner, let id): once(request, owner, id)
    case .stop(let request, let id): stop(request, id)
    case .cancel(let request, let id): cancel(request, id)
    case .abandoned(let request): abandoned(request)
    case .microphoneReady(let id): microphoneReady(id)
    case .microphoneFailed(let id, let failure): microphoneFailed(id, failure)
    case .microphoneEnded(let id): isCapturing(id) ? endCapture() : []
    case .utteranceFinal(let id), .silence(let id): isCapturing(id) && isOnce ? endCapture() : []
    case .limit(let id): isCapturing(id) ? endCapture() : []
    case .recognised(let id, let text, let route): recognised(id, text, route)
    case .speaking(let id):
      if case .answering(id, _) = phase { become(.answering(id, isSpeaking: true)) } else { [] }
    case .answered(let id):
      if case .answering(id, _) = phase { become(.idle) } else { [] }
    case .gatewayGone(let gateway): ownersGone { $0 == .gateway(gateway) }
    case .agentsRefused: ownersGone { if case .gateway = $0 { true } else { false } }
    }
  }

  private mutating func become(_ next: Phase) -> [Action] {
    phase = next
    return []
  }

  private func isCapturing(_ id: CaptureID) -> Bool {
    if case .capturing(let capture) = phase { capture.id == id } else { false }
  }

  private var isOnce: Bool {
    if case .capturing(let capture) = phase { capture.isOnce } else { false }
  }
}

// MARK: Asked

extension PushToTalk {
  private mutating func start(_ request: RequestID, _ owner: Owner, _ id: CaptureID) -> [Action] {
    switch phase {
    case .idle:
      return prepare(Capture(id: id, owner: owner, isOnce: false, opener: request))
    case .preparing:
      if queue.count >= Self.queueLimit { return [.answer(request, .failed(.busy))] }
      queue.append(QueuedStart(request: request, owner: owner, id: id))
      return []
    case .capturing(let capture):
      // A second press is not a second microphone.
      return [.answer(request, .capturing(capture.id))]
    case .recognising, .answering(_, isSpeaking: false):
      return [.answer(request, .failed(.busy))]
    case .answering(_, isSpeaking: true):
      return prepare(Capture(id: id, owner: owner, isOnce: false, opener: request))
    }
  }

  private mutating func once(_ request: RequestID, _ owner: Owner, _ id: CaptureID) -> [Action] {
    switch phase {
    case .idle, .answering(_, isSpeaking: true):
      return prepare(Capture(id: id, owner: owner, isOnce: true, opener: request))
    case .preparing(let capture), .capturing(let capture), .recognising(let capture):
      return [.answer(request, .ended(capture.id, transcript: nil, .busy))]
    case .answering(let capture, isSpeaking: false):
      return [.answer(request, .ended(capture, transcript: nil, .busy))]
    }
  }

  private mutating func prepare(_ capture: Capture) -> [Action] {
    phase = .preparing(capture)
    return [.hush, .openMicrophone(capture.id, capture.owner)]
  }

  private mutating func stop(_ request: RequestID, _ id: CaptureID) -> [Action] {
    switch phase {
    case .idle, .answering:
      return [.answer(request, .ended(id, transcript: nil, .idle))]
    case .preparing(let capture):
      return endPreparing(capture) + [.answer(request, .ended(capture.id, transcript: nil, .idle))]
    case .capturing(var capture):
      capture.waiting.append(request)
      phase = .capturing(capture)
      return endCapture()
    case .recognising(var capture):
      // Overlapping stops share one result.
      capture.waiting.append(request)
      phase = .recognising(capture)
      return []
    }
  }

  private mutating func cancel(_ request: RequestID, _ id: CaptureID) -> [Action] {
    switch phase {
    case .idle, .answering:
      return [.answer(request, .ended(id, transcript: nil, .idle))]
    case .preparing(let capture):
      return endPreparing(capture) + [.answer(request, .ended(capture.id, transcript: nil, .cancelled))]
    case .capturing(let capture), .recognising(let capture):
      return discard(capture) + [.answer(request, .ended(capture.id, transcript: nil, .cancelled))]
    }
  }

  /// Stop or cancel before the microphone was there: every start before it fails, the queued ones too (the epoch rule).
  private mutating func endPreparing(_ capture: Capture) -> [Action] {
    phase = .idle
    var actions: [Action] = [.discard(capture.id)]
    if let opener = capture.opener { actions.append(.answer(opener, cancelledAnswer(to: capture))) }
    actions += queue.map { .answer($0.request, .failed(.cancelled)) }
    queue = []
    return actions
  }

  private func cancelledAnswer(to capture: Capture) -> Answer {
    capture.isOnce ? .ended(capture.id, transcript: nil, .cancelled) : .failed(.cancelled)
  }

  private mutating func discard(_ capture: Capture) -> [Action] {
    phase = .idle
    let ended = Answer.ended(capture.id, transcript: nil, .cancelled)
    var requests = capture.waiting
    if let opener = capture.opener { requests.insert(opener, at: 0) }
    return [.stopLimit(capture.id), .discard(capture.id)] + requests.map { .answer($0, ended) }
  }

  private mutating func abandoned(_ request: RequestID) -> [Action] {
    if let index = queue.firstIndex(where: { $0.request == request }) {
      queue.remove(at: index)
      return []
    }
    switch phase {
    case .preparing(var capture) where capture.opener == request:
      capture.opener = nil
      phase = .idle
      return [.discard(capture.id)] + openNext()
    case .capturing(var capture) where capture.opener == request:
      // A once whose caller has gone has no owner any more.
      capture.opener = nil
      return discard(capture)
    case .capturing(var capture):
      capture.waiting.removeAll { $0 == request }
      return become(.capturing(capture))
    case .recognising(var capture):
      // What was said is recognised and delivered all the same; only nobody waits for the answer.
      capture.waiting.removeAll { $0 == request }
      if capture.opener == request { capture.opener = nil }
      return become(.recognising(capture))
    default:
      return []
    }
  }
}

// MARK: Told

extension PushToTalk {
  private mutating func microphoneReady(_ id: CaptureID) -> [Action] {
    guard case .preparing(var capture) = phase, capture.id == id else { return [] }
    var actions: [Action] = [.startLimit(id, isOnce: capture.isOnce)]
    if !capture.isOnce, let opener = capture.opener {
      actions.append(.answer(opener, .capturing(id)))
      capture.opener = nil
    }
    actions += queue.map { .answer($0.request, .capturing(id)) }
    queue = []
    phase = .capturing(capture)
    return actions
  }

  private mutating func microphoneFailed(_ id: CaptureID, _ failure: Failure) -> [Action] {
    guard case .preparing(let capture) = phase, capture.id == id else { return [] }
    phase = .idle
    let answer = capture.opener.map { [Action.answer($0, .failed(failure))] } ?? []
    return answer + openNext()
  }

  /// The next start in the queue has its turn.
  private mutating func openNext() -> [Action] {
    if queue.isEmpty { return [] }
    let next = queue.removeFirst()
    return prepare(Capture(id: next.id, owner: next.owner, isOnce: false, opener: next.request))
  }

  private mutating func endCapture() -> [Action] {
    guard case .capturing(let capture) = phase else { return [] }
    phase = .recognising(capture)
    return [.stopLimit(capture.id), .finish(capture.id)]
  }

  private mutating func recognised(_ id: CaptureID, _ text: String?, _ route: Route) -> [Action] {
    guard case .recognising(let capture) = phase, capture.id == id else { return [] }
    let requests = (capture.opener.map { [$0] } ?? []) + capture.waiting
    func answers(_ status: Status, _ transcript: String?) -> [Action] {
      requests.map { .answer($0, .ended(id, transcript: transcript, status)) }
    }
    guard let text, !text.isEmpty else {
      phase = .idle
      return answers(.empty, nil)
    }
    if route == .none {
      phase = .idle
      return [.keep(id, text)] + answers(.offline, text)
    }
    phase = .answering(id, isSpeaking: false)
    // The answer comes before the reply: `queued` promises no delivery (node-commands §4.3).
    return answers(.queued, text) + [.deliver(id, text, route)]
  }

  private mutating func ownersGone(_ isGone: (Owner) -> Bool) -> [Action] {
    var actions = queue.filter { isGone($0.owner) }.map { Action.answer($0.request, .failed(.cancelled)) }
    queue.removeAll { isGone($0.owner) }
    switch phase {
    case .preparing(let capture) where isGone(capture.owner):
      phase = .idle
      actions.append(.discard(capture.id))
      if let opener = capture.opener { actions.append(.answer(opener, cancelledAnswer(to: capture))) }
      actions += openNext()
    case .capturing(let capture) where isGone(capture.owner):
      actions += discard(capture)
    default:
      break
    }
    return actions
  }
}
