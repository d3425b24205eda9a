import Audio
import GatewayClient
import GatewayProtocol
import Speech
import System

typealias GatewayProtocolRole = GatewayProtocol.Role

/// What a capture is bound to when the key goes down: words said to one gateway never go to another.
struct Bound: Sendable {
  let link: GatewayLink
  let sessionKey: String
}

/// One capture: the microphone from its lease to its release, and the hearing that turns it into text.
actor CaptureSession {
  let id: PushToTalk.CaptureID
  private let isOnce: Bool
  private let talk: Talk
  private(set) var bound: Bound?
  private var lease: MicrophoneLease?
  private var hearing: Hearing?
  private var capture: Capture?
  private var feeding: Task<Void, Never>?
  private var watching: Task<Void, Never>?
  /// The choice of who transcribes. A key that is let go before it is made waits for it: what was said waits in `capture`.
  private var binding: Task<Void, Never>?
  private var isOver = false
  private var isDiscarded = false
  /// What the gateway says about the end of an utterance, for a once.
  private var silenceMs: Int?
  /// Those that may have a go at it.
  private var transcribers: [any Transcriber] = []
  /// Whether text comes while a person speaks; without it the end of a once is told from the level.
  private var hasPartials = false

  /// What a capture came to.
  enum Heard: Sendable {
    /// Silence, or nothing that is a word; or it was cancelled.
    case nothing
    case words(Transcript)
    /// No transcriber could do its work.
    case lost(PCM, SpeechError)
  }

  /// Shorter sounds are a slip of the finger.
  private static let shortest: Duration = .milliseconds(300)

  init(id: PushToTalk.CaptureID, isOnce: Bool, talk: Talk) {
    self.id = id
    self.isOnce = isOnce
    self.talk = talk
  }

  /// Opens the microphone and tells the machine. The transcribers are chosen meanwhile: sound waits for them, not the other way round.
  /// Returns when the microphone is open, or given back.
  func open() async {
    if isOver { return }
    let binding = Task { await bind() }
    self.binding = binding
    do throws(AudioError) {
      let lease = try await talk.sound.microphone.lease(for: "push-to-talk")
      self.lease = lease
      // The first is heard of at once; after that three device fragments at a time cost half the wake-ups.
      let capture = try await lease.capture(Capture.Options(chunk: .milliseconds(60), first: .milliseconds(20)))
      if isOver { return await lease.release() }
      self.capture = capture
      await talk.on(.microphoneReady(id))
      let talk = talk
      Task {
        await talk.mouth.cue(.start)
        // While the person speaks, not before the microphone is open and not as long as nobody talks.
        await talk.mouth.prepare()
      }
    } catch {
      await lease?.release()
      lease = nil
      if isOver { return }
      await talk.notify(.trouble(error.description))
      let failure = PushToTalk.Failure.unavailable(
        code: Self.wireCode(error.code), summary: error.summary, remedy: error.remedy)
      await talk.on(.microphoneFailed(id, failure))
      let talk = talk
      return await talk.mouth.cue(.error)
    }
    Task {
      await binding.value
      listen()
    }
  }

  private static func wireCode(_ code: AudioError.Code) -> String {
    switch code {
    case .microphoneBusy, .deviceBusy: "MIC_BUSY"
    case .notPermitted: "MIC_PERMISSION_REQUIRED"
    default: "UNAVAILABLE"
    }
  }

  private func bind() async {
    if let link = await talk.gateway() {
      bound = Bound(link: link, sessionKey: await talk.sessionKey(on: link))
    }
    // The silence has an influence on a once only, and may be learnt while somebody speaks.
    if isOnce { Task { silenceMs = await talk.transcribers.silenceMs(link: bound?.link) } }
    transcribers = await talk.transcribers.inOrder(link: bound?.link)
    hasPartials = transcribers.first?.hasPartials ?? false
    hearing = Hearing(
      transcribers: transcribers, request: TranscriptionRequest(rate: 16_000, language: talk.options.language))
  }

  private func listen() {
    guard !isDiscarded, feeding == nil, let capture, let hearing else { return }
    watching = Task { await self.watch(hearing) }
    feeding = Task { await self.feed(capture, to: hearing) }
  }

  private func feed(_ capture: Capture, to hearing: Hearing) async {
    await hearing.start()
    var levels = LevelWindows(rate: capture.options.rate)
    var end = EndOfSpeech(endSettings, at: Monotonic.now())
    var nextTick = Monotonic.now()
    var events = capture.makeAsyncIterator()
    do throws(AudioError) {
      while let event = try await events.next() {
        switch event {
        case .notice(let notice): await tell(notice)
        case .chunk(let chunk):
          if await !hearing.feed(chunk.samples) { await talk.on(.limit(id)) }
          let now = Monotonic.now()
          for level in levels.levels(of: chunk.samples) { _ = end.on(.level(level), at: now) }
          if now < nextTick { continue }
          nextTick = now + EndOfSpeech.tickInterval
          await talk.notify(.level(end.indicator))
          if isOnce {
            // Told once each: the same text again is nobody speaking.
            if let heard = newText { _ = end.on(.partial(heard), at: now) }
            newText = nil
            end.settings = endSettings
            if end.on(.tick, at: now) == .silence { await talk.on(.silence(id)) }
          }
        }
      }
    } catch {
      await talk.notify(.trouble(error.description))
      await talk.on(.microphoneEnded(id))
    }
  }

  private var endSettings: EndOfSpeech.Settings {
    EndOfSpeech.Settings(silenceMs: silenceMs, limit: nil, hasPartials: hasPartials)
  }

  /// What the recogniser has understood since the last look.
  private var newText: String?

  private func watch(_ hearing: Hearing) async {
    for await event in hearing.events {
      switch event {
      case .partial(let text):
        newText = text
        await talk.notify(.partial(text))
      case .final(let text):
        newText = text
        await talk.notify(.partial(text))
        await talk.on(.utteranceFinal(id))
      case .transcriber(let name):
        // One that tells nothing on the way may stand in for one that does.
        hasPartials = transcribers.first { $0.name == name }?.hasPartials ?? hasPartials
      case .failed(let failure): await talk.notify(.trouble(failure.error.description))
      }
    }
  }

  private func tell(_ notice: Capture.Notice) async {
    let sentence: String? =
      switch notice {
      case .interrupted(let error): "\(error.summary) Waiting for it to come back."
      case .resumed: "The microphone is back."
      case .silent: "Only silence comes from the microphone: it may be muted or switched off."
      case .reopenedBecauseSilent, .soundReturned: nil
      case .overflow(let lost): "The machine is too slow: \(lost) of sound were lost."
      case .gap: "The microphone lost some sound."
      }
    if let sentence { await talk.notify(.trouble(sentence)) }
  }

  /// Closes the microphone and has the rest of what was heard transcribed.
  func finish() async -> Heard {
    isOver = true
    await capture?.stop()
    await lease?.release()
    // Heard by nobody but the person now, and it keeps nobody waiting.
    let talk = talk
    Task { await talk.mouth.cue(.stop) }
    // A key let go before it was known who transcribes: what was said is there, and goes to whoever it is.
    await binding?.value
    listen()
    await feeding?.value
    guard let hearing else { return .nothing }
    do throws(SpeechError) {
      let transcript = try await hearing.finish()
      return transcript.text.isEmpty ? .nothing : .words(transcript)
    } catch {
      let sound = await hearing.sound
      return error.code == .cancelled || sound.duration < Self.shortest ? .nothing : .lost(sound, error)
    }
  }

  /// Closes the microphone and forgets what was heard.
  func discard() async {
    isOver = true
    isDiscarded = true
    await lease?.release()
    feeding?.cancel()
    watching?.cancel()
    await hearing?.cancel()
  }

  /// How the text can go at this moment, on the gateway that was bound.
  func route() async -> PushToTalk.Route {
    guard let link = bound?.link else { return .none }
    let status = await link.status()
    if status.operator.isConnected { return .operatorSocket }
    return status.node.isConnected ? .nodeSocket : .none
  }
}
