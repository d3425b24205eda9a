import Audio
import Crypto
import GatewayClient
import GatewayProtocol
import Speech
import System

/// Speaks: an answer by `talk.speak`, a text to listen to by `tts.speak`, and whatever goes wrong there by espeak-ng on this machine
/// (talk-and-chat §1.6, §4.2). One thing is spoken at a time; a new one silences the one before.
public actor Mouth {
  /// Whose voice it was.
  public enum Way: Sendable, Equatable {
    case gateway(provider: String)
    /// On this machine; the reason when the gateway was asked first.
    case local(because: String?)
  }
  public enum Outcome: Sendable, Equatable {
    case spoken(Way)
    /// Nothing in the text was fit to be spoken.
    case nothing
    /// A person silenced it, or something newer is spoken.
    case hushed
    case failed(TalkError)
  }

  private let sound: SoundSystem
  private let synthesizer: Synthesizer
  private let options: TalkOptions
  private var defaults = VoiceDefaults()
  /// Rises with every start and every hush: what was begun under an older number is over (talk-and-chat §4.2 rule 5).
  private var generation: UInt64 = 0
  private var lease: SpeakerLease?
  private var current: SpokenAudio?
  /// The request for the gateway's voice: up to two minutes, which a hush does not wait for.
  private var fetching: Task<Result<Clip, TalkError>, Never>?
  /// A cue that sounds: what is to be spoken waits for its end.
  private var cueing: Task<Void, Never>?

  public init(sound: SoundSystem, synthesizer: Synthesizer, options: TalkOptions) {
    self.sound = sound
    self.synthesizer = synthesizer
    self.options = options
  }

  /// Silences what is spoken, within 100 ms. Nothing is spoken in its place.
  public func hush() async {
    generation += 1
    current?.cancel()
    current = nil
    fetching?.cancel()
    fetching = nil
    let playing = lease
    lease = nil
    await playing?.release()
  }

  /// Speaks an agent's reply. `started` is called when sound is about to come.
  public func answer(_ reply: String, link: GatewayLink?, started: @Sendable () async -> Void) async -> Outcome {
    let (directive, text) = VoiceDirective.parse(reply)
    let chosen = defaults.apply(directive)
    let language = directive?.language ?? options.language
    let spoken = SpokenText(language: language).text(of: text)
    var params: [String: JSON] = ["text": .string(spoken)]
    params["voiceId"] = chosen.voice.map(JSON.string)
    params["modelId"] = chosen.model.map(JSON.string)
    params["outputFormat"] = directive?.outputFormat.map(JSON.string)
    params["speed"] = directive?.speed.map(JSON.double)
    params["rateWpm"] = directive?.rate.map { .int(Int64($0)) }
    params["stability"] = directive?.stability.map(JSON.double)
    params["similarity"] = directive?.similarity.map(JSON.double)
    params["style"] = directive?.style.map(JSON.double)
    params["speakerBoost"] = directive?.speakerBoost.map(JSON.bool)
    params["seed"] = directive?.seed.map { .int(Int64($0)) }
    params["normalize"] = directive?.normalize.map(JSON.string)
    params["language"] = directive?.language.map(JSON.string)
    params["latencyTier"] = directive?.latencyTier.map { .int(Int64($0)) }
    let request = Request(method: "talk.speak", params: .object(params), limit: .seconds(125), allowsSamples: true)
    return await speak(spoken, language, directive?.effectiveSpeed, link.map { ($0, request) }, started)
  }

  /// Speaks a text that a person wants to listen to.
  public func listen(to text: String, link: GatewayLink?, started: @Sendable () async -> Void) async -> Outcome {
    let spoken = SpokenText(language: options.language).text(of: VoiceDirective.parse(text).text)
    let request = Request(
      method: "tts.speak", params: ["text": .string(spoken)], limit: .seconds(60), allowsSamples: false)
    return await speak(spoken, options.language, nil, link.map { ($0, request) }, started)
  }

  /// A short sound. It waits for nothing and disturbs nothing: while something is spoken there is none.
  public func cue(_ cue: Cue) async {
    guard options.hasCues, lease == nil, cueing == nil else { return }
    let sounding = Task { [speaker = sound.speaker] in
      guard let taken = try? await speaker.lease(for: "a cue") else { return }
      _ = try? await taken.play(cue.sound())
      await taken.release()
    }
    cueing = sounding
    await sounding.value
    cueing = nil
  }

  /// Makes this machine's voice ready, so that an answer need not wait for it.
  public func prepare() async {
    if options.speaksAnswers { await synthesizer.prepare() }
  }

  private struct Request {
    let method: String
    let params: JSON
    let limit: Duration
    let allowsSamples: Bool
  }

  private func speak(
    _ text: String, _ language: String?, _ speed: Double?, _ remote: (GatewayLink, Request)?,
    _ started: @Sendable () async -> Void
  ) async -> Outcome {
    await hush()
    generation += 1
    let mine = generation
    if text.isEmpty { return .nothing }
    var reason: String?
    if options.usesGatewayVoice, let (link, request) = remote {
      // Should the gateway's voice fail, this machine's is ready.
      let synthesizer = synthesizer
      Task { await synthesizer.prepare() }
      do throws(TalkError) {
        let asking = Task { await fetched(request, from: link) }
        fetching = asking
        let clip = try await asking.value.get()
        if mine != generation { return .hushed }
        fetching = nil
        await started()
        try await play(clip.sound, mine)
        return mine == generation ? .spoken(.gateway(provider: clip.provider)) : .hushed
      } catch {
        if mine != generation { return .hushed }
        reason = error.summary
        Log.info("The gateway's voice can't be used, this machine's speaks instead: \(error.summary)")
      }
    }
    if mine != generation { return .hushed }
    await started()
    do throws(TalkError) {
      try await synthesize(text, language, speed, mine)
      return mine == generation ? .spoken(.local(because: reason)) : .hushed
    } catch {
      return mine == generation ? .failed(error) : .hushed
    }
  }

  // MARK: By the gateway

  private struct Clip: Sendable {
    let sound: PCM
    let provider: String
  }

  private func fetched(_ request: Request, from link: GatewayLink) async -> Result<Clip, TalkError> {
    do throws(TalkError) { return .success(try await fetch(request, from: link)) } catch { return .failure(error) }
  }

  private func fetch(_ request: Request, from link: GatewayLink) async throws(TalkError) -> Clip {
    let answer: JSON
    do throws(LinkError) {
      answer = try await link.request(request.method, request.params, as: .operator, timeout: request.limit)
    } catch {
      throw TalkError(error.code.rawValue, error.summary, remedy: error.remedy)
    }
    guard let bytes = answer["audioBase64"]?.string.flatMap({ Base64.decode($0) }), !bytes.isEmpty else {
      throw TalkError("invalid_audio_result", "The gateway sent no sound.")
    }
    let format = ClipFormat(
      name: answer["outputFormat"]?.string, mimeType: answer["mimeType"]?.string,
      fileExtension: answer["fileExtension"]?.string, allowingSamples: request.allowsSamples)
    let provider = answer["provider"]?.string ?? "the gateway"
    switch format {
    case .samples(let rate): return Clip(sound: PCM(littleEndian: bytes, rate: rate), provider: provider)
    case .headerless(let name):
      throw TalkError("invalid_audio_result", "The gateway sent sound without a rate (\(name)).")
    case .container:
      do { return Clip(sound: try await AudioFile.decode(bytes), provider: provider) } catch {
        throw TalkError(error.code.rawValue, error.summary, remedy: error.remedy)
      }
    }
  }

  private func play(_ clip: PCM, _ mine: UInt64) async throws(TalkError) {
    do throws(AudioError) {
      let lease = try await takeSpeaker(mine)
      try await lease?.play(clip)
      await giveBack(lease)
    } catch {
      try await audioFailed(error)
    }
  }

  // MARK: By this machine

  private func synthesize(_ text: String, _ language: String?, _ speed: Double?, _ mine: UInt64) async throws(TalkError)
  {
    let rate = speed.map { Int(Double(synthesizer.options.rate) * $0) }
    let audio = synthesizer.speak(Utterance(text, language: language, rate: rate))
    current = audio
    var playback: Playback?
    var chunks = audio.makeAsyncIterator()
    do throws(AudioError) {
      while let chunk = try await next(&chunks) {
        if mine != generation { return audio.cancel() }
        if playback == nil {
          guard let lease = try await takeSpeaker(mine) else { return audio.cancel() }
          playback = try await lease.open(rate: chunk.rate)
        }
        try await playback?.write(chunk.samples)
      }
      _ = try await playback?.finish()
      if mine == generation { await giveBack(lease) }
    } catch {
      audio.cancel()
      if mine == generation { try await audioFailed(error) }
    }
  }

  /// The next piece; the synthesiser's trouble in the terms of sound.
  private func next(_ chunks: inout SpokenAudio.Iterator) async throws(AudioError) -> PCM? {
    do throws(SpeechError) { return try await chunks.next() } catch {
      throw AudioError(AudioError.Code(rawValue: error.code.rawValue), error.summary, remedy: error.remedy)
    }
  }

  // MARK: The speaker

  private func takeSpeaker(_ mine: UInt64) async throws(AudioError) -> SpeakerLease? {
    let taken = try await leaseAfterCues()
    if mine != generation {
      await taken.release()
      return nil
    }
    lease = taken
    return taken
  }

  private func leaseAfterCues() async throws(AudioError) -> SpeakerLease {
    while true {
      await cueing?.value
      do throws(AudioError) { return try await sound.speaker.lease(for: "an answer") } catch {
        // Another cue came in between; anybody else keeps the speaker.
        if cueing == nil { throw error }
      }
    }
  }

  private func giveBack(_ taken: SpeakerLease?) async {
    if lease === taken { lease = nil }
    await taken?.release()
  }

  private func audioFailed(_ error: AudioError) async throws(TalkError) {
    await giveBack(lease)
    if error.code == .stopped { return }
    throw TalkError(error.code.rawValue, error.summary, remedy: error.remedy)
  }
}
