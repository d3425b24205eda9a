import Audio
import System

/// What a long-lived helper program and its utterances are at: a value, told what happens, telling what to do. Utterances are handed to
/// the helper one after another, in the order they began; the others keep what they hear until it is their turn.
///
/// A helper that dies, hangs or talks nonsense is replaced, and the utterance it was at is transcribed again from its beginning, as
/// often as the settings allow.
struct HelperSession {
  struct Settings: Sendable, Equatable {
    /// For a start of the helper until it is ready: it may have a model to load.
    var startLimit = Duration.seconds(60)
    /// For an answer after the end of an utterance, plus `answerFactor` times the utterance's length.
    var answerLimit = Duration.seconds(20)
    var answerFactor = 4
    /// How often an utterance is tried.
    var attempts = 2
    /// Utterances that may wait at once.
    var utterances = 8
  }

  enum Event {
    /// Have the helper ready, though nothing is to be transcribed yet.
    case prepare
    case begin(id: Int, rate: Int, language: String?)
    case audio(id: Int, [Int16])
    case finish(id: Int)
    case cancel(id: Int)
    /// The utterance's file has been written; nil when it could not be.
    case fileWritten(id: Int, path: String?)
    case message(HelperMessage)
    /// The helper has taken all that was sent.
    case drained
    /// The helper could not be started at all.
    case notStarted(SpeechError)
    /// The helper is gone, or is not to be trusted any more.
    case ended(String)
    /// The time set by `arm` is over.
    case deadline
    case stop
  }

  enum Action: Equatable {
    case launch
    case kill
    case send(HelperRequest)
    /// Sets the one timer anew.
    case arm(Duration)
    case disarm
    case writeFile(id: Int, [Int16], rate: Int)
    case removeFile(String)
    case tell(id: Int, TranscriptionEvent)
    case answer(id: Int, Result<String, SpeechError>)
    /// Somebody may be waiting for the helper to be ready.
    case readiness(Result<Bool, SpeechError>)
  }

  enum Phase: Equatable {
    case down
    case starting
    case ready(HelperMessage.AudioForm, hasPartials: Bool)
    case stopped
  }

  struct Utterance: Equatable {
    let id: Int
    let rate: Int
    let language: String?
    var samples: [Int16] = []
    var isFinished = false
    var attempt = 1
    /// How far the helper of this attempt has got.
    var hasStarted = false
    var sent = 0
    var hasSentFinish = false
    var isWritingFile = false
    var file: String?
  }

  let settings: Settings
  private(set) var phase = Phase.down
  private(set) var utterances: [Utterance] = []
  private var isBusySending = false

  init(settings: Settings = Settings()) { self.settings = settings }

  mutating func on(_ event: Event) -> [Action] {
    if phase == .stopped { return afterStop(event) }
    switch event {
    case .prepare: return launchIfDown()
    case .begin(let id, let rate, let language):
      if utterances.count >= settings.utterances {
        return [.answer(id: id, .failure(SpeechError(.busy, "Too many utterances wait for the transcriber.")))]
      }
      utterances.append(Utterance(id: id, rate: rate, language: language))
      return launchIfDown() + advance()
    case .audio(let id, let samples):
      guard let index = index(id), !utterances[index].isFinished else { return [] }
      utterances[index].samples += samples
      return advance()
    case .finish(let id):
      guard let index = index(id), !utterances[index].isFinished else { return [] }
      utterances[index].isFinished = true
      return (index == 0 ? armAnswer() : []) + launchIfDown() + advance()
    case .cancel(let id): return cancel(id)
    case .fileWritten(let id, let path): return fileWritten(id, path)
    case .message(let message): return hear(message)
    case .drained:
      isBusySending = false
      return advance()
    case .notStarted(let error):
      phase = .down
      return [.disarm, .readiness(.failure(error))] + failAll(error)
    case .ended(let reason): return restart(SpeechError(.failed, "The transcriber's helper \(reason)."))
    case .deadline:
      let what = phase == .starting ? "was not ready in time" : "did not answer in time"
      return restart(SpeechError(.timeout, "The transcriber's helper \(what)."))
    case .stop:
      phase = .stopped
      let error = SpeechError(.cancelled, "The transcriber was stopped.")
      return [.disarm, .kill, .readiness(.failure(error))] + failAll(error)
    }
  }

  private func afterStop(_ event: Event) -> [Action] {
    switch event {
    case .begin(let id, _, _): [.answer(id: id, .failure(SpeechError(.cancelled, "The transcriber was stopped.")))]
    case .fileWritten(_, let path?): [.removeFile(path)]
    case .prepare: [.readiness(.failure(SpeechError(.cancelled, "The transcriber was stopped.")))]
    default: []
    }
  }

  private func index(_ id: Int) -> Int? { utterances.firstIndex { $0.id == id } }

  // MARK: The helper

  private mutating func launchIfDown() -> [Action] {
    switch phase {
    case .down:
      phase = .starting
      isBusySending = false
      return [.launch, .arm(settings.startLimit)]
    case .ready(_, let hasPartials): return [.readiness(.success(hasPartials))]
    case .starting, .stopped: return []
    }
  }

  private mutating func hear(_ message: HelperMessage) -> [Action] {
    switch message {
    case .ready(let form, let hasPartials):
      if phase != .starting { return [] }
      phase = .ready(form, hasPartials: hasPartials)
      let isAwaited = utterances.first?.isFinished ?? false
      return [.readiness(.success(hasPartials))] + (isAwaited ? armAnswer() : [.disarm]) + advance()
    case .partial(let id, let text):
      return index(id) == 0 && !text.isEmpty ? [.tell(id: id, .partial(text))] : []
    case .endpoint(let id, let text):
      return index(id) == 0 && !text.isEmpty ? [.tell(id: id, .final(text))] : []
    case .final(let id, let text):
      guard index(id) == 0, utterances[0].hasSentFinish else { return [] }
      return end(.success(text))
    case .error(let id?, let message):
      guard index(id) == 0 else { return [] }
      return end(.failure(SpeechError(.failed, "The transcriber's helper says: \(message)")))
    case .error(nil, let message):
      return restart(SpeechError(.failed, "The transcriber's helper says: \(message)"))
    }
  }

  /// The helper is of no use any more: another takes over, and the utterance at hand begins anew, unless it has had its chances.
  private mutating func restart(_ error: SpeechError) -> [Action] {
    let wasStarting = phase == .starting
    phase = .down
    isBusySending = false
    var actions: [Action] = [.disarm, .kill]
    if wasStarting { actions.append(.readiness(.failure(error))) }
    guard !utterances.isEmpty else { return actions }
    if utterances[0].attempt >= settings.attempts {
      actions += end(.failure(error))
    } else {
      utterances[0].attempt += 1
      utterances[0].hasStarted = false
      utterances[0].hasSentFinish = false
      utterances[0].sent = 0
    }
    if !utterances.isEmpty { actions += launchIfDown() }
    return actions
  }

  // MARK: The utterance at hand

  private func armAnswer() -> [Action] {
    // A helper that is starting has its own limit, and this one begins when it is ready.
    guard case .ready = phase, let first = utterances.first else { return [] }
    let length = Duration.samples(first.samples.count, rate: first.rate)
    return [.arm(settings.answerLimit + length * settings.answerFactor)]
  }

  /// Hands over the next piece, when the helper can take one.
  private mutating func advance() -> [Action] {
    guard case .ready(let form, _) = phase, !utterances.isEmpty, !isBusySending else { return [] }
    let id = utterances[0].id
    switch form {
    case .wav:
      guard utterances[0].isFinished, !utterances[0].hasSentFinish else { return [] }
      guard let file = utterances[0].file else {
        if utterances[0].isWritingFile { return [] }
        utterances[0].isWritingFile = true
        return [.writeFile(id: id, utterances[0].samples, rate: utterances[0].rate)]
      }
      utterances[0].hasSentFinish = true
      return send(.transcribe(id: id, wav: file, language: utterances[0].language))
    case .pcm:
      if !utterances[0].hasStarted {
        utterances[0].hasStarted = true
        return send(.start(id: id, rate: utterances[0].rate, language: utterances[0].language))
      }
      let sent = utterances[0].sent
      if sent < utterances[0].samples.count {
        let next = min(utterances[0].samples.count, sent + utterances[0].rate)
        utterances[0].sent = next
        return send(.audio(id: id, utterances[0].samples[sent..<next]))
      }
      guard utterances[0].isFinished, !utterances[0].hasSentFinish else { return [] }
      utterances[0].hasSentFinish = true
      return send(.finish(id: id))
    }
  }

  private mutating func send(_ request: HelperRequest) -> [Action] {
    isBusySending = true
    return [.send(request)]
  }

  private mutating func fileWritten(_ id: Int, _ path: String?) -> [Action] {
    guard let index = index(id) else { return path.map { [.removeFile($0)] } ?? [] }
    utterances[index].isWritingFile = false
    guard let path else {
      let error = SpeechError(.failed, "What was heard could not be written to a file for the transcriber.")
      return index == 0 ? end(.failure(error)) : []
    }
    utterances[index].file = path
    return advance()
  }

  private mutating func cancel(_ id: Int) -> [Action] {
    guard let index = index(id) else { return [] }
    let error = SpeechError(.cancelled, "The transcription was cancelled.")
    if index > 0 {
      utterances.remove(at: index)
      return [.answer(id: id, .failure(error))]
    }
    let isKnown = utterances[0].hasStarted || utterances[0].hasSentFinish
    var actions = end(.failure(error))
    // In front of what follows.
    if case .ready = phase, isKnown { actions.insert(.send(.cancel(id: id)), at: 0) }
    return actions
  }

  private mutating func end(_ result: Result<String, SpeechError>) -> [Action] {
    let first = utterances.removeFirst()
    var actions: [Action] = []
    if let file = first.file { actions.append(.removeFile(file)) }
    if case .failure(let error) = result, error.code != .cancelled {
      actions.append(.tell(id: first.id, .failed(error)))
    }
    actions.append(.answer(id: first.id, result))
    if phase != .starting { actions.append(.disarm) }
    if utterances.first?.isFinished ?? false { actions += armAnswer() }
    return actions + advance()
  }

  private mutating func failAll(_ error: SpeechError) -> [Action] {
    let failed = utterances
    utterances = []
    return failed.flatMap { utterance -> [Action] in
      (utterance.file.map { [.removeFile($0)] } ?? []) + [
        .tell(id: utterance.id, .failed(error)), .answer(id: utterance.id, .failure(error)),
      ]
    }
  }
}
