import GatewayProtocol

/// A transcription session on the gateway (talk-and-chat §3.5), as a value: sound in, text out; at most four appends in flight.
///
/// Sound that comes before the session is ready waits here. Its bound is the longest capture: past it the session fails, and the caller,
/// who keeps all that was heard, has it transcribed another way.
public struct RelayTranscription: Sendable, Equatable {
  public enum Event: Sendable, Equatable {
    /// The answer of `talk.session.create`.
    case created(JSON)
    case createFailed(String)
    /// µ-law at the session's rate.
    case sound([UInt8])
    case appended
    case appendFailed(String)
    /// The key is up: no more sound comes.
    case finish
    /// Payload of a `talk.event`.
    case talkEvent(JSON)
    /// The wait named by the last `startTimer` is over.
    case timeout
    /// The socket the session belongs to is gone.
    case lost
  }

  public enum Action: Sendable, Equatable {
    case append(sessionID: String, [UInt8])
    case close(sessionID: String)
    case startTimer(Duration)
    case partial(String)
    /// One utterance has been understood; more may follow.
    case utterance(String)
    /// All that was understood, joined by spaces; empty when nothing was.
    case finished(String)
    case failed(String)
  }

  private enum Phase: Sendable, Equatable {
    case creating
    /// Created; the provider behind it is not connected yet.
    case opening(String)
    case open(String)
    /// Closed by us; late finals may come.
    case flushing(String)
    case done
  }

  /// Between create and `ready`.
  static let readyLimit: Duration = .seconds(12)
  /// The relay keeps the provider open for 5 s after close; with a margin.
  static let flushLimit: Duration = .milliseconds(6500)
  static let inFlightLimit = 4
  /// Events that may come before the answer to create, which tells whose they are (§3.6); more are dropped.
  static let earlyLimit = 200
  /// One append: 60 ms of µ-law at 8 kHz, within the 20–100 ms that are usual.
  static let pieceBytes = 480
  /// Six minutes at 8 kHz: more than the longest capture.
  static let backlogLimit = 6 * 60 * 8000

  private var phase = Phase.creating
  private var backlog: [UInt8] = []
  private var sent = 0
  private var inFlight = 0
  private var isFinishing = false
  private var finals: [String] = []
  private var early: [JSON] = []
  private var partial = ""

  public init() {}

  /// `params` of `talk.session.create`.
  public static let createParams: JSON = ["mode": "transcription", "transport": "gateway-relay", "brain": "none"]

  public func begin() -> [Action] { [.startTimer(Self.readyLimit)] }

  public mutating func on(_ event: Event) -> [Action] {
    if phase == .done {
      // A connection may hold two sessions, each for 30 minutes: one that is made for nobody is closed.
      if case .created(let answer) = event, let id = Self.sessionID(in: answer) { return [.close(sessionID: id)] }
      return []
    }
    switch event {
    case .created(let answer): return created(answer)
    case .createFailed(let reason): return fail(reason)
    case .sound(let bytes):
      if isFinishing { return [] }
      if backlog.count - sent + bytes.count > Self.backlogLimit {
        return fail("the gateway takes the sound too slowly")
      }
      backlog += bytes
      return pump()
    case .appended:
      inFlight -= 1
      return pump()
    case .appendFailed(let reason): return fail(reason)
    case .finish:
      isFinishing = true
      return pump()
    case .talkEvent(let payload): return talkEvent(payload)
    case .timeout: return timeout()
    case .lost: return fail("the connection to the gateway was lost")
    }
  }

  private var sessionID: String? {
    switch phase {
    case .opening(let id), .open(let id), .flushing(let id): id
    case .creating, .done: nil
    }
  }

  private static func sessionID(in answer: JSON) -> String? {
    answer["transcriptionSessionId"]?.string ?? answer["sessionId"]?.string
  }

  private mutating func created(_ answer: JSON) -> [Action] {
    guard phase == .creating else { return [] }
    guard let id = Self.sessionID(in: answer) else {
      return fail("the gateway made no session")
    }
    let audio = answer["audio"]
    let encoding = audio?["inputEncoding"]?.string ?? "g711_ulaw"
    let rate = audio?["inputSampleRateHz"]?.int ?? 8000
    guard encoding == "g711_ulaw", rate == 8000 else {
      return [.close(sessionID: id)] + fail("the gateway wants \(encoding) at \(rate) Hz, which is not known")
    }
    phase = answer["ready"]?.bool == true ? .open(id) : .opening(id)
    let waiting = early
    early = []
    return waiting.reduce(into: []) { $0 += talkEvent($1) } + pump()
  }

  /// Sends what may be sent; closes when all is sent and the key is up.
  private mutating func pump() -> [Action] {
    guard case .open(let id) = phase else { return [] }
    var actions: [Action] = []
    while inFlight < Self.inFlightLimit {
      let left = backlog.count - sent
      if left == 0 || (left < Self.pieceBytes && !isFinishing) { break }
      let piece = Array(backlog[sent..<(sent + min(left, Self.pieceBytes))])
      sent += piece.count
      inFlight += 1
      actions.append(.append(sessionID: id, piece))
    }
    if sent > 65_536 {
      backlog.removeFirst(sent)
      sent = 0
    }
    if isFinishing && sent == backlog.count && inFlight == 0 {
      phase = .flushing(id)
      actions += [.close(sessionID: id), .startTimer(Self.flushLimit)]
    }
    return actions
  }

  private mutating func talkEvent(_ payload: JSON) -> [Action] {
    if phase == .creating {
      if early.count < Self.earlyLimit { early.append(payload) }
      return []
    }
    guard let id = sessionID, payload["transcriptionSessionId"]?.string == id else { return [] }
    switch payload["type"]?.string {
    case "ready":
      guard case .opening = phase else { return [] }
      phase = .open(id)
      return pump()
    case "partial":
      partial = payload["text"]?.string ?? ""
      return partial.isEmpty ? [] : [.partial((finals + [partial]).joined(separator: " "))]
    case "transcript":
      guard payload["final"]?.bool != false, let text = payload["text"]?.string, !text.isEmpty else { return [] }
      finals.append(text)
      partial = ""
      return [.utterance(text)]
    case "error": return fail(payload["message"]?.string ?? "the gateway's recogniser failed")
    case "close":
      if case .flushing = phase { return finished() }
      return fail("the gateway ended the session (\(payload["reason"]?.string ?? "no reason"))")
    default: return []
    }
  }

  private mutating func timeout() -> [Action] {
    switch phase {
    case .creating, .opening: fail("the gateway's recogniser was not ready in time")
    case .flushing: finished()
    case .open, .done: []
    }
  }

  private mutating func finished() -> [Action] {
    phase = .done
    // A hypothesis that never became final is still what was heard: no word is lost.
    let all = finals + (partial.isEmpty ? [] : [partial])
    return [.finished(all.joined(separator: " "))]
  }

  /// A session that failed is closed all the same: a connection may hold two, and each lives for 30 minutes.
  private mutating func fail(_ reason: String) -> [Action] {
    let close: [Action] =
      switch phase {
      case .opening(let id), .open(let id): [.close(sessionID: id)]
      case .creating, .flushing, .done: []
      }
    phase = .done
    return close + [.failed(reason)]
  }
}
