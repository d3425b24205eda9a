import Conversation
import GatewayProtocol
import NodeKit
import TalkModule

/// What a person says at the control socket about talking.
enum TalkRequest: Sendable, Equatable {
  case start, stop, toggle, cancel, once
  case hush
  /// What was said and not delivered.
  case kept
  case resend
  /// Speaks a text; nil = the newest answer.
  case listen(String?)

  init(json: JSON) throws(Failure) {
    switch json["do"]?.string {
    case "start": self = .start
    case "stop": self = .stop
    case "toggle": self = .toggle
    case "cancel": self = .cancel
    case "once": self = .once
    case "hush": self = .hush
    case "kept": self = .kept
    case "resend": self = .resend
    case "listen": self = .listen(json["text"]?.string)
    default: throw Failure("CONTROL_REQUEST", "The running talknode does not know this request.", exit: .protocolError)
    }
  }

  var members: [String: JSON] {
    switch self {
    case .start: ["do": "start"]
    case .stop: ["do": "stop"]
    case .toggle: ["do": "toggle"]
    case .cancel: ["do": "cancel"]
    case .once: ["do": "once"]
    case .hush: ["do": "hush"]
    case .kept: ["do": "kept"]
    case .resend: ["do": "resend"]
    case .listen(let text): text.map { ["do": "listen", "text": .string($0)] } ?? ["do": "listen"]
    }
  }
}

extension Node {
  func talk(_ request: TalkRequest) async throws(Failure) -> JSON {
    let talk = services.talk
    switch request {
    case .start: return try Self.json(await talk.start(.person))
    case .stop: return try Self.json(await talk.stop())
    case .toggle: return try Self.json(await talk.toggle())
    case .cancel: return try Self.json(await talk.cancel())
    case .once: return try Self.json(await talk.once(.person))
    case .hush:
      await talk.hush()
      return ["ok": true]
    case .kept:
      let kept = await talk.kept.all()
      return .array(
        kept.map { note in
          .object(present: [
            "id": .string(note.id), "text": .string(note.text), "gatewayId": note.gatewayID.map(JSON.string),
            "atMs": .int(note.atMs),
          ])
        })
    case .resend: return try await resend(talk)
    case .listen(let text): return try await listen(talk, text)
    }
  }

  /// The same answer that an agent gets; a failure as the command line says it.
  private static func json(_ answer: PushToTalk.Answer) throws(Failure) -> JSON {
    do throws(CommandError) { return try TalkModule.json(answer) } catch {
      throw Failure(
        error.code, error.summary, remedy: error.remedy, exit: error.code == "PTT_BUSY" ? .temporary : .unavailable)
    }
  }

  private func resend(_ talk: Talk) async throws(Failure) -> JSON {
    guard let note = await talk.kept.last() else {
      throw Failure("NOTHING_KEPT", "Nothing waits to be sent: all that was said has reached the agent.", exit: .data)
    }
    let outcome: Turn.Outcome
    do throws(TalkError) { outcome = try await talk.resend(note) } catch {
      throw Failure(error.code, error.summary, remedy: error.remedy, exit: .unavailable)
    }
    switch outcome {
    case .reply(let reply): return ["id": .string(note.id), "status": "answered", "reply": .string(reply)]
    case .noReply: return ["id": .string(note.id), "status": "no-reply"]
    case .aborted: return ["id": .string(note.id), "status": "aborted"]
    case .failed(let reason):
      throw Failure("NOT_SENT", "It could not be sent: \(reason)", remedy: "talknode status", exit: .temporary)
    }
  }

  private func listen(_ talk: Talk, _ text: String?) async throws(Failure) -> JSON {
    var chosen = text
    if chosen == nil { chosen = await talk.lastReply }
    guard let chosen else {
      throw Failure("NOTHING_SAID", "The agent has not answered yet.", remedy: "talknode listen TEXT", exit: .data)
    }
    let outcome = await talk.mouth.listen(to: chosen, link: activeLink) {}
    switch outcome {
    case .spoken(.gateway(let provider)): return ["status": "spoken", "voice": .string(provider)]
    case .spoken(.local(let reason)):
      return .object(present: ["status": "spoken", "voice": "espeak-ng", "because": reason.map(JSON.string)])
    case .nothing: return ["status": "nothing"]
    case .hushed: return ["status": "hushed"]
    case .failed(let error):
      throw Failure(error.code, error.summary, remedy: error.remedy, exit: .unavailable)
    }
  }

  /// Notices as JSON, for `talknode ptt --live`. What is being said is in there: it goes to the same user only, and nowhere else.
  func watchTalk() async -> AsyncStream<JSON> {
    let notices = await services.talk.notices()
    let (stream, continuation) = AsyncStream.makeStream(of: JSON.self, bufferingPolicy: .bufferingNewest(64))
    let pump = Task {
      for await notice in notices { continuation.yield(notice.json) }
      continuation.finish()
    }
    continuation.onTermination = { _ in pump.cancel() }
    return stream
  }
}

extension TalkNotice {
  var json: JSON {
    switch self {
    case .phase(let phase): ["phase": .string(phase.rawValue)]
    case .level(let level): ["level": .double(Double((level * 1000).rounded() / 1000))]
    case .partial(let text): ["partial": .string(text)]
    case .trouble(let sentence): ["trouble": .string(sentence)]
    }
  }
}
