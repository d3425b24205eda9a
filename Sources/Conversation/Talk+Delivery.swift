import Audio
import Crypto
import GatewayClient
import Glibc
import Speech
import System

/// From words to the agent and back: handing over, keeping, sending again, speaking.
extension Talk {
  /// The session that is talked in on this gateway.
  public func sessionKey(on link: GatewayLink) async -> String {
    if let key = options.sessionKey { return key }
    return await link.mainSessionKey
  }

  func keepOnly(_ id: PushToTalk.CaptureID, _ text: String) {
    captures[id] = nil
    notify(.trouble("The gateway can't be reached: what was said is kept. Send it: talknode ptt resend"))
    Task { await mouth.cue(.error) }
  }

  /// No transcriber could do its work: the sound is all there is of what was said.
  func keep(_ sound: PCM, of id: PushToTalk.CaptureID, _ bound: Bound?, because error: SpeechError) async {
    var sentence = "What was said could not be turned into text: \(error.summary)"
    do throws(TalkError) {
      try await kept.add(
        sound: sound, id: id, gatewayID: bound?.link.gateway.id, sessionKey: bound?.sessionKey,
        atMs: WallClock.milliseconds())
      sentence += " The sound is kept; to try again: talknode ptt resend"
    } catch {
      sentence += " \(error.summary)"
    }
    lastLoss = Loss(id: id, sentence: sentence)
    notify(.trouble(sentence))
    Task { await mouth.cue(.error) }
  }

  func deliver(_ id: PushToTalk.CaptureID, _ text: String, _ route: PushToTalk.Route) {
    guard let capture = captures.removeValue(forKey: id) else { return on(.answered(id)) }
    deliveries[id] = Task {
      if let bound = await capture.bound { await carry(id, text, route, bound) }
      on(.answered(id))
      deliveries[id] = nil
    }
  }

  /// What may be sent again now: of what was said to the active gateway, or to none, the newest. What belongs to another gateway does
  /// not stand in its way.
  public func resendable() async throws(TalkError) -> KeptTranscripts.Kept {
    let all = await kept.all()
    let active = await gateway()?.gateway.id
    if let note = all.last(where: { $0.gatewayID == nil || active == nil || $0.gatewayID == active }) { return note }
    guard let other = all.last?.gatewayID else {
      throw TalkError("NOTHING_KEPT", "Nothing waits to be sent: all that was said has reached the agent.")
    }
    throw TalkError(
      "NOT_CONNECTED", "What waits was said to the gateway \(other), which is not the active one.",
      remedy: "talknode gateways use \(other)")
  }

  /// Speaks a text that a person wants to listen to. Throws `PTT_BUSY` while the microphone is open.
  public func listen(to text: String, link: GatewayLink?) async throws(TalkError) -> Mouth.Outcome {
    try refuseWhileHearing()
    return await mouth.listen(to: text, link: link) {}
  }

  /// What is spoken into an open microphone is heard as if a person had said it.
  private func refuseWhileHearing() throws(TalkError) {
    guard isHearing else { return }
    throw TalkError(
      "PTT_BUSY", "The microphone is open, and would hear what is spoken.", remedy: "End it first: talknode ptt stop")
  }

  /// Sends again what was kept, and speaks the answer. Returns how it went. Throws `PTT_BUSY` while the microphone is open.
  public func resend(_ note: KeptTranscripts.Kept) async throws(TalkError) -> Turn.Outcome {
    try refuseWhileHearing()
    guard let link = await gateway() else {
      throw TalkError("NOT_CONNECTED", "No gateway is active.", remedy: "talknode gateways list")
    }
    if let bound = note.gatewayID, bound != link.gateway.id {
      throw TalkError(
        "NOT_CONNECTED", "This was said to the gateway \(bound), which is not the active one.",
        remedy: "talknode gateways use \(bound)")
    }
    let status = await link.status()
    guard status.operator.isConnected || status.node.isConnected else {
      throw TalkError("NOT_CONNECTED", "The gateway can't be reached.", remedy: "talknode status")
    }
    var key = note.sessionKey
    if key == nil { key = await sessionKey(on: link) }
    let bound = Bound(link: link, sessionKey: key ?? "main")
    let text = note.sound == nil ? note.text : try await understand(note, bound)
    return await carry(note.id, text, status.operator.isConnected ? .operatorSocket : .nodeSocket, bound)
  }

  /// Has a kept sound transcribed anew, and keeps the words in its place.
  private func understand(_ note: KeptTranscripts.Kept, _ bound: Bound) async throws(TalkError) -> String {
    let sound = try await keptSound(note)
    let hearing = Hearing(
      transcribers: await transcribers.inOrder(link: bound.link),
      request: TranscriptionRequest(rate: sound.rate, language: options.language), limit: .seconds(400))
    _ = await hearing.feed(sound.samples)
    let transcript: Transcript
    do throws(SpeechError) { transcript = try await hearing.finish() } catch {
      throw TalkError("NOT_UNDERSTOOD", "It still can't be turned into text: \(error.summary)", remedy: error.remedy)
    }
    if transcript.text.isEmpty {
      try await kept.remove(note.id)
      throw TalkError("NOTHING_HEARD", "No words were found in the sound that was kept; it is given up.")
    }
    lastTurn = TurnReport(transcriber: transcript.transcriber, recognition: transcript.latency)
    try await kept.add(
      KeptTranscripts.Kept(
        id: note.id, text: transcript.text, gatewayID: bound.link.gateway.id, sessionKey: bound.sessionKey,
        atMs: note.atMs))
    return transcript.text
  }

  /// Only what is gone, or is no sound any more, is given up. Anything else may be mended: a right, a disk, a library.
  private func keptSound(_ note: KeptTranscripts.Kept) async throws(TalkError) -> PCM {
    let bytes: [UInt8]
    do throws(SystemError) { bytes = try Files.read(note.sound ?? "", limit: 32 << 20) } catch {
      if error.code == ENOENT {
        try await kept.remove(note.id)
        throw TalkError("NOTHING_KEPT", "The sound that was kept is gone: \(error)")
      }
      throw TalkError(
        "STATE_UNUSABLE", "The sound that was kept can't be read now: \(error)",
        remedy: "It stays kept. Check the permissions, then: talknode ptt resend")
    }
    do throws(AudioError) { return try await AudioFile.decode(bytes, limits: .init(duration: .seconds(400))) } catch {
      if error.code == .damaged || error.code == .formatUnsupported {
        try await kept.remove(note.id)
        throw TalkError("NOTHING_KEPT", "The sound that was kept is damaged: \(error.summary)")
      }
      throw TalkError(error.code.rawValue, error.summary, remedy: error.remedy)
    }
  }

  @discardableResult
  private func carry(
    _ id: PushToTalk.CaptureID, _ text: String, _ route: PushToTalk.Route, _ bound: Bound
  ) async -> Turn.Outcome {
    let role: GatewayProtocolRole = route == .operatorSocket ? .operator : .node
    let kept = kept
    let delivery = Delivery(link: bound.link, role: role, sessionKey: bound.sessionKey, runID: id) { report in
      switch report {
      case .accepted: try? await kept.remove(id)
      case .spent: try? await kept.renew(id, as: Random.uuid())
      case .partial: break
      }
    }
    carried[id] = delivery
    defer { if carried[id] === delivery { carried[id] = nil } }
    let outcome = await delivery.send(text)
    switch outcome {
    case .reply(let reply):
      lastReply = reply
      await say(reply, id, bound, route)
    case .noReply: notify(.trouble("The agent gave no reply."))
    case .aborted: notify(.trouble("The agent's run was aborted."))
    case .failed(let reason):
      notify(
        .trouble(
          "There is no answer: \(reason)\(reason.hasSuffix(".") ? "" : ".") What was said is kept if the gateway has not got it: talknode ptt last"
        ))
      await mouth.cue(.error)
    }
    return outcome
  }

  private func say(_ reply: String, _ id: PushToTalk.CaptureID, _ bound: Bound, _ route: PushToTalk.Route) async {
    if !options.speaksAnswers { return }
    if isHearing {
      // The answer to what was sent again comes when it comes.
      return notify(.trouble("An answer came while the microphone is open. To hear it: talknode listen --last"))
    }
    let voice = route == .operatorSocket ? bound.link : nil
    let outcome = await mouth.answer(reply, link: voice) { [weak self] in await self?.on(.speaking(id)) }
    if case .spoken(let way) = outcome { lastTurn.voice = way }
    if case .failed(let error) = outcome { notify(.trouble("The answer can't be spoken: \(error)")) }
  }
}
