import Audio
import CEspeak
import Glibc
import System

/// One instance of libespeak-ng and the one thread that is ever inside it.
final class EspeakEngine: Sendable {
  /// What the thread keeps. Touched on it alone.
  // @unchecked Sendable: passed only to jobs of the one thread.
  private final class Loaded: @unchecked Sendable {
    var library: EspeakLibrary?
    var failure: SpeechError?
    var voices: [Voice] = []
    var current: String?
  }

  /// One utterance on its way through the library's callback.
  private final class Job: Sendable {
    let engine: EspeakEngine
    let channel: SoundChannel
    let rate: Int
    init(engine: EspeakEngine, channel: SoundChannel, rate: Int) {
      self.engine = engine
      self.channel = channel
      self.rate = rate
    }
  }

  private struct Watched {
    var pending = 0
    /// When the thread last went into the library; nil while it is outside.
    var insideSince: Duration?
    var current: SoundChannel?
    var isAbandoned = false
    var isLoaded = false
  }

  private let options: Synthesizer.Options
  private let thread: OwnThread
  private let loaded = Loaded()
  private let watched = Lock(Watched())

  init(options: Synthesizer.Options) throws(SpeechError) {
    self.options = options
    thread = try OwnThread(name: "espeak-ng")
  }

  // MARK: From any thread

  /// Speaks it after what came before; `drop` is called instead when the thread is given up first.
  func start(_ utterance: Utterance, into channel: SoundChannel, orElse drop: @escaping @Sendable () -> Void)
    throws(SpeechError)
  {
    watched.withLock { $0.pending += 1 }
    let isTaken = thread.enqueue(limit: 16) {
      self.watched.withLock { $0.current = channel }
      if !channel.hasEnded { channel.finish(self.perform(utterance, channel)) }
      self.watched.withLock { watched in
        watched.current = nil
        watched.pending -= 1
      }
    } orElse: {
      drop()
    }
    if !isTaken {
      watched.withLock { $0.pending -= 1 }
      throw SpeechError(.busy, "Too much is waiting to be spoken.")
    }
  }

  /// Whether library and data are there.
  var isLoaded: Bool { watched.withLock { $0.isLoaded && !$0.isAbandoned } }
  /// A thread that comes back from where it hung finds its utterance gone and perhaps half a voice loaded: it must not go into the
  /// library again, where what it did not load is dereferenced.
  private var isAbandoned: Bool { watched.withLock { $0.isAbandoned } }
  private static let abandoned = SpeechError(.timeout, "espeak-ng hung.")

  var isBusy: Bool { watched.withLock { $0.pending > 0 && !$0.isAbandoned } }

  func hasHung(limit: Duration) -> Bool {
    watched.withLock { $0.insideSince.map { Monotonic.now() - $0 > limit } ?? false }
  }

  func abandon() {
    let current = watched.withLock { watched in
      watched.isAbandoned = true
      return watched.current
    }
    current?.finish(.failure(EspeakEngine.abandoned))
    thread.abandon()
  }

  func voices(limit: Duration) async throws(SpeechError) -> [Voice] {
    let voices = try await thread.run("espeak-ng", limit: limit) {
      self.load().map { _ in self.loaded.voices.filter(self.isUsable) }
    }
    return try voices.get()
  }

  func version(limit: Duration) async throws(SpeechError) -> String {
    let version = try await thread.run("espeak-ng", limit: limit) {
      self.load().map { library in library.functions.espeak_Info(nil).map { String(cString: $0) } ?? "" }
    }
    return String(try version.get().prefix { $0 != " " })
  }

  func stop() {
    watched.withLock { $0.current }?.cancel()
    _ = thread.enqueue {
      self.loaded.library?.close()
      self.loaded.library = nil
      self.loaded.failure = SpeechError(.cancelled, "The synthesiser has been stopped.")
    }
    thread.stop()
  }

  // MARK: On the thread

  private func inside<Result>(_ body: () -> Result) -> Result {
    watched.withLock { $0.insideSince = Monotonic.now() }
    defer { watched.withLock { $0.insideSince = nil } }
    return body()
  }

  private func load() -> Result<EspeakLibrary, SpeechError> {
    if let library = loaded.library { return .success(library) }
    if let failure = loaded.failure { return .failure(failure) }
    let result = Result { () throws(SpeechError) in try EspeakLibrary.open() }.flatMap { library in
      inside { initialize(library) }
    }
    switch result {
    case .success(let library): loaded.library = library
    case .failure(let error): loaded.failure = error
    }
    return result
  }

  private func initialize(_ library: EspeakLibrary) -> Result<EspeakLibrary, SpeechError> {
    // Pieces of 40 ms: what a cancel may have to wait for. Without DONT_EXIT a missing data folder ends the process.
    let rate = library.functions.espeak_Initialize(
      AUDIO_OUTPUT_SYNCHRONOUS, 40, options.dataFolder, Int32(espeakINITIALIZE_DONT_EXIT))
    if isAbandoned { return .failure(EspeakEngine.abandoned) }
    if rate <= 0 {
      library.close()
      return .failure(
        SpeechError(.missing, "espeak-ng's data is not installed.", remedy: "apt install espeak-ng-data"))
    }
    sampleRate.withLock { $0 = Int(rate) }
    library.functions.espeak_SetSynthCallback(EspeakEngine.receive)
    loaded.voices = EspeakEngine.voices(of: library)
    watched.withLock { $0.isLoaded = true }
    return .success(library)
  }
  private let sampleRate = Lock(22_050)

  private func perform(_ utterance: Utterance, _ channel: SoundChannel) -> Result<Void, SpeechError> {
    load().flatMap { library in
      inside {
        if let error = choose(utterance, library) { return .failure(error) }
        if isAbandoned { return .failure(EspeakEngine.abandoned) }
        let functions = library.functions
        func set(_ parameter: espeak_PARAMETER, _ value: Int, _ range: ClosedRange<Int>) {
          _ = functions.espeak_SetParameter(parameter, Int32(min(max(value, range.lowerBound), range.upperBound)), 0)
        }
        set(espeakRATE, utterance.rate ?? options.rate, 80...450)
        set(espeakPITCH, utterance.pitch ?? options.pitch, 0...99)
        set(espeakVOLUME, utterance.volume ?? options.volume, 0...200)
        let text = EspeakEngine.text(utterance.text)
        let job = Job(engine: self, channel: channel, rate: sampleRate.withLock { $0 })
        let code = withExtendedLifetime(job) {
          text.withUnsafeBytes { bytes in
            functions.espeak_Synth(
              bytes.baseAddress, bytes.count, 0, POS_CHARACTER, 0, UInt32(espeakCHARS_UTF8 | espeakENDPAUSE), nil,
              Unmanaged.passUnretained(job).toOpaque())
          }
        }
        // A cancelled one is answered with an error by some versions.
        if code == EE_OK || channel.hasEnded { return .success(()) }
        return .failure(SpeechError(.failed, "espeak-ng failed with code \(code.rawValue)."))
      }
    }
  }

  /// Loads the utterance's voice when it is not the current one: loading costs milliseconds.
  private func choose(_ utterance: Utterance, _ library: EspeakLibrary) -> SpeechError? {
    let named = (utterance.voice ?? options.voice).flatMap {
      VoiceChoice.voice(named: $0, among: loaded.voices, isUsable: isUsable)
    }
    var candidates: [String] = []
    if let named { candidates.append(named.voice.identifier + (named.variant.isEmpty ? "" : "+" + named.variant)) }
    for language in [utterance.language ?? options.language, nil] {
      if let voice = VoiceChoice.voice(for: language, among: loaded.voices, isUsable: isUsable) {
        candidates.append(voice.identifier)
      }
    }
    for candidate in candidates {
      if isAbandoned { return EspeakEngine.abandoned }
      if candidate == loaded.current { return nil }
      loaded.current = nil
      if library.functions.espeak_SetVoiceByName(candidate) == EE_OK {
        loaded.current = candidate
        return nil
      }
    }
    return SpeechError(.missing, "espeak-ng has no voice that can be used.", remedy: "apt install espeak-ng-data")
  }

  /// mbrola voices are listed by the engine whether their data and program are there or not; choosing one without them is silence.
  private func isUsable(_ voice: Voice) -> Bool {
    guard let name = voice.mbrolaName else { return true }
    let hasData = [
      "/usr/share/mbrola/\(name)/\(name)", "/usr/share/mbrola/\(name)", "/usr/share/mbrola/voices/\(name)",
    ]
    .contains { path in Files.isFile(path) }
    return hasData && ["/usr/bin/mbrola", "/usr/local/bin/mbrola"].contains(where: Files.exists)
  }

  /// UTF-8 with a zero at its end. Control characters are left out: the engine takes U+0001 for the start of a command.
  private static func text(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for scalar in text.prefix(Synthesizer.textLimit).unicodeScalars {
      let isControl = scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
      if !isControl {
        bytes.append(contentsOf: String(scalar).utf8)
      } else if scalar == "\n" || scalar == "\t" || scalar == "\r" {
        bytes.append(scalar == "\n" ? 0x0A : 0x20)
      }
    }
    bytes.append(0)
    return bytes
  }

  /// The library hands over a piece of sound: 0 to go on, 1 to stop.
  private static let receive:
    @convention(c) (UnsafeMutablePointer<Int16>?, Int32, UnsafeMutablePointer<espeak_EVENT>?) -> Int32 =
      { samples, count, events in
        guard let context = events?.pointee.user_data else { return 1 }
        let job = Unmanaged<Job>.fromOpaque(context).takeUnretainedValue()
        guard let samples, count > 0 else { return job.channel.hasEnded ? 1 : 0 }
        return job.engine.put(UnsafeBufferPointer(start: samples, count: Int(count)), job) ? 0 : 1
      }

  private func put(_ samples: UnsafeBufferPointer<Int16>, _ job: Job) -> Bool {
    // Waiting for room is not hanging.
    watched.withLock { $0.insideSince = nil }
    let goesOn = job.channel.put(PCM(int16: samples, rate: job.rate), patience: options.patience)
    return watched.withLock { watched in
      watched.insideSince = Monotonic.now()
      return goesOn && !watched.isAbandoned
    }
  }

  private static func voices(of library: EspeakLibrary) -> [Voice] {
    guard var entry = library.functions.espeak_ListVoices(nil) else { return [] }
    var voices: [Voice] = []
    while let voice = entry.pointee, voices.count < 1000 {
      entry += 1
      guard let name = voice.pointee.name, let identifier = voice.pointee.identifier else { continue }
      var languages: [Voice.Language] = []
      // Pairs of a priority byte and a text; a zero priority ends them.
      if var at = voice.pointee.languages {
        while at.pointee != 0, languages.count < 32 {
          let tag = String(cString: at + 1)
          languages.append(Voice.Language(tag.lowercased(), priority: Int(at.pointee)))
          at += 1 + strlen(at + 1) + 1
        }
      }
      voices.append(Voice(name: String(cString: name), identifier: String(cString: identifier), languages: languages))
    }
    return voices
  }
}

extension Files {
  /// Whether `path` is a file with bytes in it.
  static func isFile(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG && status.st_size > 0
  }
}
