import System

/// What is to be spoken, and how. What is nil is as the synthesiser's options say.
public struct Utterance: Sendable {
  /// Plain text, cleaned by `SpokenText`. At most `Synthesizer.textLimit` characters of it are spoken.
  public var text: String
  /// BCP-47 or POSIX name of the text's language.
  public var language: String?
  /// A voice of this engine, with an optional `+variant`. Names of other engines are ignored: the language decides then.
  public var voice: String?
  /// Words a minute, 80…450.
  public var rate: Int?
  /// 0…99; 50 is the voice's own.
  public var pitch: Int?
  /// Percent, 0…200; 100 is the voice's own.
  public var volume: Int?

  public init(
    _ text: String, language: String? = nil, voice: String? = nil, rate: Int? = nil, pitch: Int? = nil,
    volume: Int? = nil
  ) {
    self.text = text
    self.language = language
    self.voice = voice
    self.rate = rate
    self.pitch = pitch
    self.volume = volume
  }
}

/// The voice of this machine: espeak-ng, in a thread of its own. It needs no network and starts within milliseconds.
///
/// Utterances are spoken in the order they came; the next waits until the one before it has been taken to its end or cancelled. A
/// thread that hangs inside the library is left behind and another starts with a private copy of it.
public final class Synthesizer: Sendable {
  public struct Options: Sendable {
    /// The language of texts that name none.
    public var language: String?
    /// The voice that is taken whatever the language.
    public var voice: String?
    public var rate = 175
    public var pitch = 50
    public var volume = 100
    /// The folder that holds `espeak-ng-data`; nil = the library's own.
    public var dataFolder: String?
    /// How long the library may take for one piece of sound; after that its thread counts as hung. It usually needs a millisecond.
    public var hangLimit = Duration.seconds(4)
    /// How long a finished piece may wait to be taken.
    public var patience = Duration.seconds(60)
    public init() {}
  }

  /// Longer texts are cut here. Over an hour of speech.
  public static let textLimit = 60_000
  /// After so many hung threads no other is started: each has cost memory and perhaps a core.
  static let hangsAllowed = 3

  private struct State {
    var engine: EspeakEngine?
    /// The engine that a watch looks at: one watch is enough, however many utterances come.
    var watched: EspeakEngine?
    var hangs = 0
    var isStopped = false
  }

  public let options: Options
  private let state = Lock(State())

  public init(options: Options = Options()) { self.options = options }

  deinit { stop() }

  /// Begins to speak. Whatever goes wrong is thrown where the sound is taken.
  public func speak(_ utterance: Utterance) -> SpokenAudio {
    let channel = SoundChannel()
    start(utterance, channel)
    return SpokenAudio(channel: channel, speaker: self)
  }

  /// The voices that can be used here.
  public func voices() async throws(SpeechError) -> [Voice] {
    let engine = try engine()
    return try await engine.voices(limit: options.hangLimit * 4)
  }

  /// The voice that would speak `language`.
  public func voice(for language: String?) async throws(SpeechError) -> Voice? {
    VoiceChoice.voice(for: language ?? options.language, among: try await voices())
  }

  /// Loads the library and the usual voice, so that the first answer need not wait for it (about 100 ms). Nothing when that is done.
  public func prepare() async {
    if state.withLock({ $0.engine?.isLoaded ?? false }) { return }
    _ = try? await speak(Utterance(".")).whole()
  }

  /// Whether it can speak, and with what.
  public func availability() async -> SpeechAvailability {
    do {
      let voices = try await voices()
      guard let voice = VoiceChoice.voice(for: options.language, among: voices) else {
        return .absent(reason: "espeak-ng has no voice.", remedy: "apt install espeak-ng-data")
      }
      let version = try await engine().version(limit: options.hangLimit)
      return .ready("espeak-ng \(version) with \(voices.count) voices; speaks with \(voice.identifier)")
    } catch {
      return .absent(reason: error.summary, remedy: error.remedy)
    }
  }

  /// Ends the thread and gives the library back. What is being spoken ends.
  public func stop() {
    let engine = state.withLock { state in
      state.isStopped = true
      defer { state.engine = nil }
      return state.engine
    }
    engine?.stop()
  }

  /// How many threads have been left behind.
  public var hangs: Int { state.withLock { $0.hangs } }

  // MARK: The engine and its watchdog

  private func start(_ utterance: Utterance, _ channel: SoundChannel) {
    do throws(SpeechError) {
      let engine = try engine()
      try engine.start(utterance, into: channel) { [weak self] in
        // The thread before this one hung; what waited for it goes on with the next.
        if let self { self.start(utterance, channel) } else { channel.cancel() }
      }
      watch(engine)
    } catch {
      channel.finish(.failure(error))
    }
  }

  private func engine() throws(SpeechError) -> EspeakEngine {
    let result = state.withLock { state -> Result<EspeakEngine, SpeechError> in
      if state.isStopped { return .failure(SpeechError(.cancelled, "The synthesiser has been stopped.")) }
      if state.hangs >= Synthesizer.hangsAllowed {
        return .failure(
          SpeechError(
            .failed, "espeak-ng hung \(state.hangs) times and is not started again.", remedy: "Restart talknode."))
      }
      if let engine = state.engine { return .success(engine) }
      return Result { () throws(SpeechError) in
        let engine = try EspeakEngine(options: options)
        state.engine = engine
        return engine
      }
    }
    return try result.get()
  }

  /// Looks at the engine as long as it has something to do, and gives it up when it hangs. Nothing when that is done already.
  private func watch(_ engine: EspeakEngine) {
    let isNew = state.withLock { state in
      if state.watched === engine { return false }
      state.watched = engine
      return true
    }
    if !isNew { return }
    let limit = options.hangLimit
    Task { [weak self] in
      while engine.isBusy {
        try await Task.sleep(for: limit / 8)
        guard engine.hasHung(limit: limit) else { continue }
        if let self { self.giveUp(engine) } else { engine.abandon() }
        return
      }
      guard let self else { return }
      self.state.withLock { state in
        if state.watched === engine { state.watched = nil }
      }
      // What has begun since the last look found itself watched.
      if engine.isBusy { self.watch(engine) }
    }
  }

  private func giveUp(_ engine: EspeakEngine) {
    let isNews = state.withLock { state in
      // Another watch may have seen it first.
      if state.engine !== engine { return false }
      state.engine = nil
      state.watched = nil
      state.hangs += 1
      return true
    }
    if !isNews { return }
    Log.warning("espeak-ng hung; its thread is left behind and another takes over.")
    engine.abandon()
  }
}
