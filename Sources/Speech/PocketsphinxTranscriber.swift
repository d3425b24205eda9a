import Audio
import System

/// pocketsphinx, which Debian has: good for a grammar of sentences, of limited use for short dictation, in English. It needs no network and
/// runs in a thread of its own.
public final class PocketsphinxTranscriber: Transcriber {
  public struct Options: Sendable, Equatable {
    /// What is listened for; nil = dictation.
    public var grammar: SpeechGrammar?
    /// The folder with the model; nil = where distributions put it.
    public var modelFolder: String?
    /// For an answer, plus four times the utterance's length.
    public var answerLimit = Duration.seconds(10)
    /// How long the model stays in memory (40 to 110 MB) after its last use.
    public var keepsModel = Duration.seconds(300)
    /// Whether the sound has no noise of a room: a relay's or a synthesiser's. The recogniser's noise removal is off then and faint noise
    /// is added, without which it hears nothing in it (measured on espeak-ng: 31 of 31 sentences in place of 24). Nil = by the rate.
    public var isNoiseless: Bool?
    public init(grammar: SpeechGrammar? = nil, modelFolder: String? = nil) {
      self.grammar = grammar
      self.modelFolder = modelFolder
    }
  }

  public let name = "pocketsphinx"
  public let hasPartials = true
  let options: Options
  private let workshop = Lock<PocketsphinxWorkshop?>(nil)
  private struct Uses {
    var running = 0
    /// Tells a wait that began after the last use whether there was another.
    var count = 0
  }
  private let uses = Lock(Uses())

  public init(options: Options = Options()) { self.options = options }

  deinit { workshop.withLock { $0 }?.thread.stop() }

  public func availability() async -> SpeechAvailability {
    begun()
    defer { ended() }
    do {
      let workshop = try open()
      try await workshop.load(relayed: false, limit: .seconds(60)).get()
      if let grammar = options.grammar {
        return .ready(
          "pocketsphinx with a grammar of \(grammar.words.count) different words: quick, and good for exactly those sentences; "
            + "it hears nothing else")
      }
      return .ready(
        "pocketsphinx, free dictation in English: for a few clear words at best (about every second short sentence right); "
          + "a grammar or another transcriber does better")
    } catch {
      return .absent(reason: error.summary, remedy: error.remedy)
    }
  }

  public func prepare() async { _ = await availability() }

  public func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
    if let language = request.language, VoiceChoice.chain(for: language).first?.hasPrefix("en") != true,
      options.modelFolder == nil
    {
      throw SpeechError(
        .missing, "pocketsphinx understands English, not “\(language.prefix(16))”.",
        remedy: "Set up the command transcriber, or a model for that language.")
    }
    let workshop = try open()
    let adapter = try RateAdapter(from: request.rate, to: PocketsphinxDecoder.rate)
    begun()
    return PocketsphinxTranscription(
      workshop: workshop, adapter: adapter,
      relayed: options.isNoiseless ?? (request.rate < PocketsphinxDecoder.rate), answerLimit: options.answerLimit,
      hung: { [weak self] in self?.giveUp(workshop) }, ended: { [weak self] in self?.ended() })
  }

  public func stop() async {
    let workshop = workshop.withLock { workshop in
      defer { workshop = nil }
      return workshop
    }
    workshop?.thread.stop()
  }

  private func begun() {
    uses.withLock { uses in
      uses.running += 1
      uses.count += 1
    }
  }

  /// Lets the model go when it is not used again for a while.
  private func ended() {
    let count = uses.withLock { uses in
      uses.running -= 1
      return uses.count
    }
    let wait = options.keepsModel
    Task { [weak self] in
      try? await Task.sleep(for: wait)
      guard let self, self.uses.withLock({ $0.running == 0 && $0.count == count }) else { return }
      await self.stop()
    }
  }

  /// Whether the model is in memory, or on its way there.
  var isOpen: Bool { workshop.withLock { $0 != nil } }

  private func open() throws(SpeechError) -> PocketsphinxWorkshop {
    let options = options
    let result = workshop.withLock { workshop -> Result<PocketsphinxWorkshop, SpeechError> in
      if let workshop { return .success(workshop) }
      return Result { () throws(SpeechError) in
        _ = try PocketsphinxLibrary.shared.get()
        let model = try PocketsphinxModel.find(options.modelFolder)
        let new = try PocketsphinxWorkshop(model: model, search: options.grammar.map { .grammar($0) } ?? .dictation)
        workshop = new
        return new
      }
    }
    return try result.get()
  }

  /// A thread that hangs is left behind with its decoder; decoders have nothing in common, so another can go on at once.
  private func giveUp(_ hung: PocketsphinxWorkshop) {
    workshop.withLock { if $0 === hung { $0 = nil } }
    Log.warning("pocketsphinx hung; its thread is left behind and another takes over.")
    hung.thread.abandon()
  }
}

/// The thread with its decoder.
final class PocketsphinxWorkshop: Sendable {
  // @unchecked Sendable: touched on the one thread only.
  private final class Bench: @unchecked Sendable {
    var decoder: PocketsphinxDecoder?
    var isRelayed = false
    /// The transcription whose utterance is open in the decoder.
    var owner: ObjectIdentifier?
  }

  let thread: OwnThread
  private let model: PocketsphinxModel
  private let search: PocketsphinxDecoder.Search
  private let bench = Bench()

  init(model: PocketsphinxModel, search: PocketsphinxDecoder.Search) throws(SpeechError) {
    self.model = model
    self.search = search
    thread = try OwnThread(name: "pocketsphinx")
  }

  func load(relayed: Bool, limit: Duration) async throws(SpeechError) -> Result<Void, SpeechError> {
    try await thread.run("pocketsphinx", limit: limit) { self.decoder(relayed: relayed).map { _ in } }
  }

  /// On the thread.
  func decoder(relayed: Bool) -> Result<PocketsphinxDecoder, SpeechError> {
    if let decoder = bench.decoder, bench.isRelayed == relayed { return .success(decoder) }
    bench.owner = nil
    bench.decoder = nil
    return Result { () throws(SpeechError) in
      let decoder = try PocketsphinxDecoder(model: model, search: search, relayed: relayed)
      bench.decoder = decoder
      bench.isRelayed = relayed
      return decoder
    }
  }

  /// On the thread: the decoder with `owner`'s utterance open in it. Nil when another has taken it since.
  func decoder(for owner: AnyObject, relayed: Bool, isFirst: Bool) -> Result<PocketsphinxDecoder?, SpeechError> {
    decoder(relayed: relayed).map { decoder in
      if isFirst {
        bench.owner = ObjectIdentifier(owner)
        decoder.start()
      }
      return bench.owner == ObjectIdentifier(owner) ? decoder : nil
    }
  }
}
