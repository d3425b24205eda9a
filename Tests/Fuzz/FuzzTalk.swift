// covers, as talk-events: Sources/Conversation/RelayTranscription.swift Sources/Conversation/Turn.swift Sources/Conversation/ChatText.swift
import Conversation
import GatewayProtocol

/// What a gateway tells of a transcription and of a turn, a JSON object a line: `create` and `talk` for the relay, `chat`, `agent`,
/// `history` and `ack` for the turn, `sound`, `appended`, `finish`, `sent`, `down`, `up` and `grace` for what happens here. However it
/// lies, four pieces are on their way at most, and there is one end, which nothing follows but the closing of a session that came too late.
@Sendable func fuzzTalkEvents(_ bytes: UnsafeRawBufferPointer) {
  var relay = RelayTranscription()
  var turn = Turn(run: .firstVoice(sessionKey: "main"), hasHistory: true)
  _ = relay.begin()
  _ = turn.begin()
  var inFlight = 0
  var ends = 0
  var outcomes = 0
  for line in bytes.split(separator: 0x0A).prefix(200) {
    guard let json = try? JSON(parsing: line), let (name, value) = json.object?.first else { continue }
    var relayed: RelayTranscription.Event?
    var turned: Turn.Event?
    switch name {
    case "create": relayed = .created(value)
    case "talk": relayed = .talkEvent(value)
    case "sound": relayed = .sound([UInt8](repeating: 0x7F, count: Int(min(max(value.int ?? 0, 0), 100_000))))
    case "appended" where inFlight > 0:
      inFlight -= 1
      relayed = .appended
    case "finish": relayed = .finish
    case "chat": turned = .chat(value)
    case "agent": turned = .agent(value)
    case "history": turned = .history(ChatText.newestAssistant(in: value, afterMs: value["afterMs"]?.int))
    case "ack": turned = .acknowledged(status: value.string)
    case "sent": turned = .sent
    case "down": turned = .disconnected
    case "up": turned = .reconnected
    case "grace": turned = .graceOver(Int(clamping: value.int ?? 0))
    default: continue
    }
    if let relayed {
      let actions = relay.on(relayed)
      let isOver = ends > 0
      for action in actions {
        if isOver, case .close = action, name == "create" { continue }
        precondition(!isOver, "something follows the end")
        switch action {
        case .append(_, let piece):
          inFlight += 1
          precondition(!piece.isEmpty && inFlight <= 4, "\(inFlight) pieces are on their way")
        case .finished, .failed: ends += 1
        case .utterance(let text): precondition(!text.isEmpty)
        case .close, .startTimer, .partial: break
        }
      }
      precondition(ends <= 1)
    }
    if let turned {
      for case .finish(let outcome) in turn.on(turned) {
        outcomes += 1
        if case .reply(let text) = outcome { precondition(!text.isEmpty, "a reply without a word") }
      }
      precondition(outcomes <= 1)
    }
  }
  let last = relay.on(.lost)
  precondition(ends == 1 ? last.isEmpty : last.contains { if case .failed = $0 { true } else { false } })
}
