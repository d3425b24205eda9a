import Crypto
import GatewayProtocol

/// Chat sessions and their runs (talk-and-chat §6). Pure: the agent's steps are played by the caller.
struct ChatStore: Sendable {
  struct Message: Sendable, Equatable {
    var id: String
    var seq: Int64
    var role: String
    var text: String
    var timestampMs: Int64
    /// `K:user` on a user's message that was sent with key `K`: the proof that it is stored (§6.5).
    var idempotencyKey: String?
    var stopReason: String?
    var errorMessage: String?
  }

  struct Session: Sendable, Equatable {
    var key: String
    var sessionID: String
    var messages: [Message] = []
  }

  struct Run: Sendable, Equatable {
    enum State: Sendable, Equatable {
      case running
      /// With the status that a repeat of the send is told.
      case ended(String)
    }
    var runID: String
    var sessionKey: String
    var input: String
    var state = State.running
    /// What the agent has said so far.
    var text = ""
    /// Counts this run's chat and agent events.
    var seq: Int64 = 0
  }

  enum SendVerdict: Equatable {
    case started(Run)
    case inFlight
    case ended(String)
    case conflict
  }

  static let defaultAgent = "main"
  static let mainKey = "agent:main:main"
  static let mostKept = 1000

  private(set) var sessions: [String: Session] = [:]
  private(set) var runs: [String: Run] = [:]
  private var runOrder: [String] = []

  /// The full form of a session key: bare keys belong to `agent`, or to the default one (§6.1).
  static func canonical(_ key: String, agent: String? = nil) -> String {
    key.hasPrefix("agent:") || key == "global" || key == "unknown" ? key : "agent:\(agent ?? defaultAgent):\(key)"
  }

  static func agent(of key: String) -> String {
    let parts = key.split(separator: ":", maxSplits: 2)
    return parts.count > 1 && parts[0] == "agent" ? String(parts[1]) : defaultAgent
  }

  mutating func session(_ key: String) -> Session {
    if let session = sessions[key] { return session }
    if sessions.count >= Self.mostKept {
      let oldest = sessions.values.min { ($0.messages.last?.timestampMs ?? 0) < ($1.messages.last?.timestampMs ?? 0) }
      if let oldest { sessions[oldest.key] = nil }
    }
    let session = Session(key: key, sessionID: Random.uuid())
    sessions[key] = session
    return session
  }

  /// A user's turn. The idempotency key is the run's id (§6.3).
  mutating func send(_ text: String, to key: String, runID: String, nowMs: Int64) -> SendVerdict {
    if let run = runs[runID] {
      if run.input != text || run.sessionKey != key { return .conflict }
      switch run.state {
      case .running: return .inFlight
      case .ended(let status): return .ended(status)
      }
    }
    let run = Run(runID: runID, sessionKey: key, input: text)
    runs[runID] = run
    runOrder.append(runID)
    forgetOldRuns()
    let rowKey = runID + ":user"
    if !session(key).messages.contains(where: { $0.idempotencyKey == rowKey }) {
      add("user", text, to: key, nowMs: nowMs, idempotencyKey: rowKey)
    }
    return .started(run)
  }

  /// The gateway ends: runs that go on are lost, what is stored stays, and the same send starts anew.
  mutating func loseRuns() {
    for (id, run) in runs where run.state == .running {
      runs[id] = nil
      runOrder.removeAll { $0 == id }
    }
  }

  private mutating func forgetOldRuns() {
    while runOrder.count > Self.mostKept {
      guard let index = runOrder.firstIndex(where: { runs[$0]?.state != .running }) else { return }
      runs[runOrder.remove(at: index)] = nil
    }
  }

  @discardableResult
  mutating func add(
    _ role: String, _ text: String, to key: String, nowMs: Int64, idempotencyKey: String? = nil,
    stopReason: String? = nil, errorMessage: String? = nil
  ) -> Message {
    var session = session(key)
    let message = Message(
      id: Random.uuid(), seq: (session.messages.last?.seq ?? 0) + 1, role: role, text: text, timestampMs: nowMs,
      idempotencyKey: idempotencyKey, stopReason: stopReason, errorMessage: errorMessage)
    session.messages.append(message)
    if session.messages.count > Self.mostKept { session.messages.removeFirst() }
    sessions[key] = session
    return message
  }

  // MARK: A run's course

  /// Counts an event of a running run and adds what is said; nil when it has ended.
  mutating func advance(_ runID: String, saying text: String = "", replacing: Bool = false) -> Run? {
    guard var run = runs[runID], run.state == .running else { return nil }
    run.text = replacing ? text : run.text + text
    run.seq += 1
    runs[runID] = run
    return run
  }

  /// Ends a run and stores what was said; nil when it had ended.
  mutating func end(_ runID: String, as status: String, error: String? = nil, nowMs: Int64) -> Run? {
    guard var run = advance(runID) else { return nil }
    run.state = .ended(status)
    runs[runID] = run
    if !run.text.isEmpty || error != nil {
      add(
        "assistant", run.text, to: run.sessionKey, nowMs: nowMs, stopReason: status == "ok" ? "stop" : status,
        errorMessage: error)
    }
    return run
  }

  /// The running runs of a session, or the one named; nil when that one belongs to another session.
  func running(in key: String, runID: String?) -> [Run]? {
    guard let runID else { return runs.values.filter { $0.sessionKey == key && $0.state == .running } }
    guard let run = runs[runID] else { return [] }
    if run.sessionKey != key { return nil }
    return run.state == .running ? [run] : []
  }
}

extension ChatStore.Message {
  /// As `chat.history` gives it, long text cut (§6.5).
  func json(limit: Int) -> JSON {
    var text = text
    if text.unicodeScalars.count > limit {
      text = String(String.UnicodeScalarView(text.unicodeScalars.prefix(limit))) + "...(truncated)..."
    }
    return .object(present: [
      "role": .string(role), "content": [["type": "text", "text": .string(text)]], "timestamp": .int(timestampMs),
      "idempotencyKey": idempotencyKey.map(JSON.string), "stopReason": stopReason.map(JSON.string),
      "errorMessage": errorMessage.map(JSON.string), "__openclaw": ["id": .string(id), "seq": .int(seq)],
    ])
  }
}
