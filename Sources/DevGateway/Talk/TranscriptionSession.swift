import Crypto
import GatewayProtocol
import System

/// One relayed transcription (talk-and-chat §3.5): whose it is, its recogniser, and the sound on its way there. Lives on the gateway's actor.
final class TranscriptionSession {
  enum Phase {
    /// The recogniser loads; sound waits.
    case starting
    case open
    /// Closed by the client; late finals may come.
    case flushing
    case ended
  }

  static let encoding = "g711_ulaw"
  static let rate: Int64 = 8000
  /// Of base64, in one call.
  static let mostText = 512 << 10
  static let mostOfOneConnection = 2
  static let mostOfAll = 64
  /// Sound that a recogniser may lie behind, in bytes: over eight minutes.
  static let mostWaiting = 4 << 20

  let id = Random.uuid()
  let connection: Connection
  let offer: TalkOffer
  let expiresAtMs: Int64
  var phase = Phase.starting
  var process: Subprocess?
  var waiting: [UInt8] = []
  var isWriting = false
  var hasSound = false
  var lifeTimer: EventLoop.Token?
  var flushTimer: EventLoop.Token?
  /// The utterance that goes on.
  private var turnID: String?
  private var seq: Int64 = 0

  init(of connection: Connection, offer: TalkOffer) {
    self.connection = connection
    self.offer = offer
    expiresAtMs = WallClock.milliseconds() + Int64(offer.sessionLife.milliseconds)
  }

  /// The program's own name.
  static func provider(of offer: TalkOffer) -> String? {
    offer.recogniser.map { String($0.program.split(separator: "/").last ?? "recogniser") }
  }
  var provider: String { Self.provider(of: offer) ?? "recogniser" }

  // MARK: Events

  /// Tells the client, in the relay's own form and, as `unified`, in the envelope that all talk events have.
  func tell(
    _ type: String, _ members: [String: JSON] = [:], unified: String? = nil, payload: JSON = [:], isFinal: Bool? = nil
  ) {
    var event = members
    event["transcriptionSessionId"] = .string(id)
    event["type"] = .string(type)
    if let unified {
      seq += 1
      event["talkEvent"] = .object(present: [
        "id": .string("\(id):\(seq)"), "type": .string(unified), "sessionId": .string(id),
        "turnId": turnID.map(JSON.string), "seq": .int(seq), "timestamp": .int(WallClock.milliseconds()),
        "mode": "transcription", "transport": "gateway-relay", "brain": "none", "provider": .string(provider),
        "final": isFinal.map(JSON.bool), "payload": payload,
      ])
    }
    connection.tell("talk.event", .object(event))
  }

  func tellReady() { tell("ready", unified: "session.ready") }

  func tellSpeech() {
    turnID = Random.uuid()
    tell("speechStart", unified: "turn.started")
  }

  func tellPartial(_ text: String) {
    tell("partial", ["text": .string(text)], unified: "transcript.delta", payload: ["text": .string(text)])
  }

  /// An utterance is over; empty ones are told too.
  func tellFinal(_ text: String) {
    tell(
      "transcript", ["text": .string(text), "final": true], unified: "transcript.done",
      payload: ["text": .string(text)], isFinal: true)
    if turnID != nil { tell("transcript", ["text": "", "final": true], unified: "turn.ended", isFinal: true) }
    turnID = nil
  }

  func tellSound(_ count: Int) {
    let size: JSON = ["byteLength": .int(Int64(count))]
    tell("inputAudio", size.object ?? [:], unified: "input.audio.delta", payload: size)
  }

  func tellError(_ message: String) {
    tell(
      "error", ["message": .string(message)], unified: "session.error", payload: ["message": .string(message)],
      isFinal: true)
  }

  func tellClose(_ reason: String) {
    tell(
      "close", ["reason": .string(reason)], unified: "session.closed", payload: ["reason": .string(reason)],
      isFinal: true)
  }
}
