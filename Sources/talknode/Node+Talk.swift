import Conversation
import GatewayClient
import GatewayProtocol
import NodeKit
import Speech
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
  /// Speaks a message of the session that is talked in.
  case listenMessage(String)
  /// Who could turn speech into text now, in the order they are taken.
  case transcribers

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
    case "listen-message": self = .listenMessage(json["id"]?.string ?? "")
    case "transcribers": self = .transcribers
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
    case .listenMessage(let id): ["do": "listen-message", "id": .string(id)]
    case .transcribers: ["do": "transcribers"]
    case .listen(let text): text.map { ["do": "listen", "text": .string($0)] } ?? ["do": "listen"]
    }
  }
}

extension Node {
  func talk(_ request: TalkRequest) async throws(Failure) -> JSON {
    let talk = services.talk
    switch request {
    case .start: return try Self.json(await talk.start(.person))
    case .stop: return try await withReason(await talk.stop())
    case .toggle: return try await withReason(await talk.toggle())
    case .cancel: return try Self.json(await talk.cancel())
    case .once: return try await withReason(await talk.once(.person))
    case .hush:
      await talk.hush()
      return ["ok": true]
    case .kept:
      let kept = await talk.kept.all()
      return .array(
        kept.map { note in
          .object(present: [
            "id": .string(note.id), "text": .string(note.text), "gatewayId": note.gatewayID.map(JSON.string),
            "atMs": .int(note.atMs), "sound": note.sound.map(JSON.string),
          ])
        })
    case .resend: return try await resend(talk)
    case .listen(let text): return try await listen(talk, text)
    case .listenMessage(let id): return try await listen(talk, try await message(id, talk))
    case .transcribers: return .array(await talk.transcriberFindings().map(\.json))
    }
  }

  /// An answer to a person; a capture that was not understood says why, for `empty` alone would read as silence.
  private func withReason(_ answer: PushToTalk.Answer) async throws(Failure) -> JSON {
    var json = try Self.json(answer)
    if case .ended(let id, nil, .empty) = answer, let loss = await services.talk.lastLoss, loss.id == id,
      var members = json.object
    {
      members["trouble"] = .string(loss.sentence)
      json = .object(members)
    }
    return json
  }

  /// The same answer that an agent gets; a failure as the command line says it.
  private static func json(_ answer: PushToTalk.Answer) throws(Failure) -> JSON {
    do throws(CommandError) { return try TalkModule.json(answer) } catch {
      throw Failure(
        error.code, error.summary, remedy: error.remedy, exit: error.code == "PTT_BUSY" ? .temporary : .unavailable)
    }
  }

  private static func failure(_ error: TalkError) -> Failure {
    let exit: ExitStatus =
      switch error.code {
      case "NOTHING_KEPT": .data
      case "PTT_BUSY": .temporary
      default: .unavailable
      }
    return Failure(error.code, error.summary, remedy: error.remedy, exit: exit)
  }

  private func resend(_ talk: Talk) async throws(Failure) -> JSON {
    let note: KeptTranscripts.Kept
    let outcome: Turn.Outcome
    do throws(TalkError) {
      note = try await talk.resendable()
      outcome = try await talk.resend(note)
    } catch {
      throw Self.failure(error)
    }
    switch outcome {
    case .reply(let reply): return ["id": .string(note.id), "status": "answered", "reply": .string(reply)]
    case .noReply: return ["id": .string(note.id), "status": "no-reply"]
    case .aborted: return ["id": .string(note.id), "status": "aborted"]
    case .failed(let reason):
      throw Failure("NOT_SENT", "It could not be sent: \(reason)", remedy: "talknode status", exit: .temporary)
    }
  }

  /// The text of a message of the session that is talked in. A gateway without `chat.message.get` is asked for its newest messages.
  private func message(_ id: String, _ talk: Talk) async throws(Failure) -> String {
    guard let link = activeLink else {
      throw Failure("NOT_CONNECTED", "No gateway is active.", remedy: "talknode gateways list", exit: .unavailable)
    }
    let key = await talk.sessionKey(on: link)
    var found: JSON?
    do throws(LinkError) {
      found = try await link.request(
        "chat.message.get", ["sessionKey": .string(key), "messageId": .string(id)], as: .operator)["message"]
    } catch {
      guard error.code == .refused else { throw Failure(error) }
      do throws(LinkError) {
        let page = try await link.request("chat.history", ["sessionKey": .string(key), "limit": 200], as: .operator)
        found = page["messages"]?.array?.first { $0["__openclaw"]?["id"]?.string == id }
      } catch {
        throw Failure(error)
      }
    }
    guard let text = found.flatMap({ ChatText.content($0["content"]) }) else {
      throw Failure(
        "NO_MESSAGE", "The session \(key) has no message \(id) that can be read.", remedy: "talknode listen --last",
        exit: .data)
    }
    return text
  }

  private func listen(_ talk: Talk, _ text: String?) async throws(Failure) -> JSON {
    var chosen = text
    if chosen == nil { chosen = await talk.lastReply }
    guard let chosen else {
      throw Failure("NOTHING_SAID", "The agent has not answered yet.", remedy: "talknode listen TEXT", exit: .data)
    }
    let outcome: Mouth.Outcome
    do throws(TalkError) { outcome = try await talk.listen(to: chosen, link: activeLink) } catch {
      throw Self.failure(error)
    }
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

extension TranscriberSet.Finding {
  var json: JSON {
    switch availability {
    case .ready(let what): ["name": .string(name), "ready": true, "detail": .string(what)]
    case .absent(let reason, let remedy):
      .object(present: [
        "name": .string(name), "ready": false, "detail": .string(reason), "remedy": remedy.map(JSON.string),
      ])
    }
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
