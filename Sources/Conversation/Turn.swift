import GatewayProtocol

/// One turn after its transcript was handed over: wait for the reply (talk-and-chat §1.4). A value: events in, what to do out.
public struct Turn: Sendable, Equatable {
  /// Which run is ours.
  public enum Run: Sendable, Equatable {
    /// `chat.send`'s idempotency key is the run's id (§6.3).
    case id(String)
    /// On the node socket nobody tells the id: ours is the first `voice-…` run of the session after our event (§2.3). Those that
    /// were seen before it are somebody else's.
    case firstVoice(sessionKey: String)
  }

  public enum Event: Sendable, Equatable {
    /// The transcript is on its way from now on.
    case sent
    /// The answer of `chat.send`: its status word.
    case acknowledged(status: String?)
    case sendFailed(String)
    /// Payload of a `chat` event.
    case chat(JSON)
    /// Payload of an `agent` event.
    case agent(JSON)
    /// The time for the reply is over.
    case deadline
    /// A history page came: the newest assistant text later than the send, or nil.
    case history(String?)
    /// The wait between two looks at the history is over.
    case pollDue
    /// The operator socket is down; it comes back by itself, mostly.
    case disconnected
    /// It is up again, or events were lost on it: the end of the run may have been among them.
    case reconnected
    /// The wait named by `startGrace` with this number is over.
    case graceOver(Int)
    /// The connection that would bring the reply is gone.
    case lost
  }

  public enum Action: Sendable, Equatable {
    case startDeadline(Duration)
    /// Ask `chat.history`; `anyTime` = the run had ended before, so no lower bound.
    case askHistory(anyTime: Bool)
    case startPoll(Duration)
    /// Say `graceOver` with this number after that time.
    case startGrace(Duration, Int)
    /// The reply so far, for those who show it.
    case partial(String)
    case finish(Outcome)
  }

  public enum Outcome: Sendable, Equatable {
    case reply(String)
    case noReply
    case aborted
    case failed(String)
  }

  private enum Phase: Sendable, Equatable {
    case waiting
    case polling(left: Int, anyTime: Bool)
    case done
  }

  static let replyLimit: Duration = .seconds(120)
  static let pollInterval: Duration = .milliseconds(300)
  /// 12 s after a final, 25 s after a timeout, at one look every 300 ms.
  static let pollsAfterFinal = 40
  static let pollsAfterTimeout = 83

  /// How long nobody is kept waiting for a socket that is down.
  static let grace: Duration = .seconds(15)
  /// Between two looks at the history while the run may still go on.
  static let catchUpInterval: Duration = .seconds(2)

  private var phase = Phase.waiting
  private var run: Run
  /// Whether `chat.history` may be asked: an operator's method.
  private let hasHistory: Bool
  private var text = ""
  private var isSent = false
  /// Runs of others, seen before ours was asked for; of a session that is talked in there are few.
  private var foreign: Set<String> = []
  static let foreignLimit = 64
  /// Looks at the history beside the events, after some were missed.
  private var isCatchingUp = false
  private var isConnected = true
  private var outages = 0

  public init(run: Run, hasHistory: Bool) {
    self.run = run
    self.hasHistory = hasHistory
  }

  /// The actions that begin the wait. Events must be subscribed to before the send, so this comes before it too.
  public func begin() -> [Action] { [.startDeadline(Self.replyLimit)] }

  public mutating func on(_ event: Event) -> [Action] {
    switch (phase, event) {
    case (.done, _): []
    case (.waiting, .sent): sent()
    case (_, .disconnected): disconnected()
    case (.waiting, .reconnected): reconnected()
    case (_, .reconnected): connected()
    case (_, .graceOver(let outage)): !isConnected && outage == outages ? lost() : []
    case (.waiting, .history(let found)): caughtUp(found)
    case (.waiting, .pollDue): isCatchingUp ? [.askHistory(anyTime: false)] : []
    case (.waiting, .acknowledged(let status)): acknowledged(status)
    case (.waiting, .sendFailed(let reason)): finish(.failed(reason))
    case (.waiting, .chat(let payload)): chat(payload)
    case (.waiting, .agent(let payload)): agent(payload)
    case (.waiting, .deadline): text.isEmpty ? look(Self.pollsAfterTimeout, anyTime: false) : finish(.reply(text))
    case (_, .lost): lost()
    case (.polling(let left, let anyTime), .history(let found)): history(found, left, anyTime)
    case (.polling(_, let anyTime), .pollDue): [.askHistory(anyTime: anyTime)]
    default: []
    }
  }

  private mutating func sent() -> [Action] {
    isSent = true
    return []
  }

  private mutating func lost() -> [Action] {
    text.isEmpty ? finish(.failed("the connection was lost before the reply came")) : finish(.reply(text))
  }

  private mutating func disconnected() -> [Action] {
    if !isConnected { return [] }
    isConnected = false
    outages += 1
    return [.startGrace(Self.grace, outages)]
  }

  private mutating func connected() -> [Action] {
    isConnected = true
    return []
  }

  /// What was missed is in the history. Events go on being listened to: the run may not have ended.
  private mutating func reconnected() -> [Action] {
    isConnected = true
    // Pieces may be missing in it; the final has the whole.
    text = ""
    if !hasHistory { return [] }
    let isNew = !isCatchingUp
    isCatchingUp = true
    return isNew ? [.askHistory(anyTime: false)] : []
  }

  private mutating func caughtUp(_ found: String?) -> [Action] {
    if !isCatchingUp { return [] }
    if let found { return finish(.reply(found)) }
    return [.startPoll(Self.catchUpInterval)]
  }

  private mutating func acknowledged(_ status: String?) -> [Action] {
    switch status {
    case "ok": look(Self.pollsAfterFinal, anyTime: true)
    case "aborted": finish(.aborted)
    case "timeout", "error": finish(.failed("the gateway says the run ended with \(status ?? "")"))
    default: []
    }
  }

  private mutating func isOurs(_ payload: JSON) -> Bool {
    guard let id = payload["runId"]?.string else { return false }
    switch run {
    case .id(let ours): return id == ours
    case .firstVoice(let sessionKey):
      guard id.hasPrefix("voice-"), let key = payload["sessionKey"]?.string, Self.isSame(key, sessionKey) else {
        return false
      }
      if !isSent {
        if foreign.count < Self.foreignLimit { foreign.insert(id) }
        return false
      }
      if foreign.contains(id) { return false }
      run = .id(id)
      return true
    }
  }

  /// A bare key is scoped by the gateway to an agent: `main` comes back as `agent:main:main` (§6.1).
  private static func isSame(_ full: String, _ asked: String) -> Bool {
    full == asked || (full.hasPrefix("agent:") && !asked.hasPrefix("agent:") && full.hasSuffix(":" + asked))
  }

  private mutating func chat(_ payload: JSON) -> [Action] {
    guard isOurs(payload) else { return [] }
    switch payload["state"]?.string {
    case "delta": return delta(payload)
    case "final":
      if let message = ChatText.assistant(payload["message"]) { text = message }
      return ended()
    case "aborted": return finish(.aborted)
    case "error": return finish(.failed(payload["errorMessage"]?.string ?? "the agent could not answer"))
    default: return []
    }
  }

  private mutating func delta(_ payload: JSON) -> [Action] {
    if let whole = ChatText.assistant(payload["message"]) {
      text = whole
    } else if let piece = payload["deltaText"]?.string {
      text = payload["replace"]?.bool == true ? piece : text + piece
    } else {
      return []
    }
    return [.partial(text)]
  }

  private mutating func agent(_ payload: JSON) -> [Action] {
    guard isOurs(payload), let data = payload["data"] else { return [] }
    switch payload["stream"]?.string {
    case "assistant":
      guard let whole = data["text"]?.string, !whole.isEmpty else { return [] }
      text = whole
      return [.partial(text)]
    case "lifecycle":
      switch data["phase"]?.string ?? data["status"]?.string {
      case "end", "ok", "completed", "success": return ended()
      case "error", "failed": return finish(.failed(data["error"]?.string ?? "the agent could not answer"))
      case "aborted", "cancelled": return finish(.aborted)
      default: return []
      }
    default:
      return []
    }
  }

  private mutating func ended() -> [Action] {
    text.isEmpty ? look(Self.pollsAfterFinal, anyTime: false) : finish(.reply(text))
  }

  private mutating func look(_ times: Int, anyTime: Bool) -> [Action] {
    if !hasHistory { return finish(.noReply) }
    phase = .polling(left: times, anyTime: anyTime)
    // A look that is under way, or comes soon, is the first of these.
    return isCatchingUp ? [] : [.askHistory(anyTime: anyTime)]
  }

  private mutating func history(_ found: String?, _ left: Int, _ anyTime: Bool) -> [Action] {
    if let found { return finish(.reply(found)) }
    if left <= 1 { return finish(.noReply) }
    phase = .polling(left: left - 1, anyTime: anyTime)
    return [.startPoll(Self.pollInterval)]
  }

  private mutating func finish(_ outcome: Outcome) -> [Action] {
    phase = .done
    return [.finish(outcome)]
  }
}
