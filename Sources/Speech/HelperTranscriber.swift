import Audio
import Glibc
import System

/// Runs the long-lived helper that `HelperSession` decides about.
actor HelperTranscriber: Transcriber {
  nonisolated let name = "command"
  private nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private nonisolated let options: CommandTranscriber.Options
  private let files: UtteranceFiles
  private var session: HelperSession
  private var process: Subprocess?
  /// Counts the helpers: what an earlier one still says is not listened to.
  private var generation = 0
  private var timer: EventLoop.Token?
  /// The newest request on its way: requests are written one after another.
  private var sending: Task<Void, Never>?
  private var nextID = 0
  private var open: [Int: HelperTranscription] = [:]
  private var readiness: [CheckedContinuation<Result<Bool, SpeechError>, Never>] = []
  private nonisolated let partials = Lock(true)

  init(options: CommandTranscriber.Options, files: UtteranceFiles, loop: EventLoop) {
    self.options = options
    self.files = files
    self.loop = loop
    var settings = HelperSession.Settings()
    settings.startLimit = options.startLimit
    settings.answerLimit = options.answerLimit
    settings.attempts = options.attempts
    session = HelperSession(settings: settings)
  }

  // The timer belongs to the loop. Not `isolated deinit`: with optimisation, Swift 6.3 ends with “circular reference” in modules that
  // use such an actor.
  deinit {
    if let timer { loop.perform { [loop] in loop.cancel(timer) } }
    if let process { Task { await process.end() } }
  }

  /// What the helper said; assumed until it has.
  nonisolated var hasPartials: Bool { partials.withLock { $0 } }

  func availability() async -> SpeechAvailability {
    let program = options.command[0]
    guard Programs.path(of: program) != nil else { return CommandTranscriber.notFound(program) }
    switch await ready() {
    case .success(let hasPartials):
      return .ready(
        "\(program) is running as a helper" + (hasPartials ? " and writes along" : "")
          + "; dictation as good as its model")
    case .failure(let error): return .absent(reason: error.summary, remedy: error.remedy)
    }
  }

  func prepare() async { _ = await ready() }

  private func ready() async -> Result<Bool, SpeechError> {
    await withCheckedContinuation { continuation in
      readiness.append(continuation)
      on(.prepare)
    }
  }

  func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
    nextID += 1
    let transcription = HelperTranscription(
      id: nextID, transcriber: self, adapter: try RateAdapter(from: request.rate, to: CommandTranscriber.rate))
    open[nextID] = transcription
    on(.begin(id: nextID, rate: CommandTranscriber.rate, language: request.language))
    return transcription
  }

  func stop() async { on(.stop) }

  /// The helper's process; for tests that kill it.
  var processID: Int32? { process?.processID }

  // MARK: From transcriptions

  func feed(_ id: Int, _ samples: [Float]) { on(.audio(id: id, samples.map(Int16.init(sample:)))) }
  func finish(_ id: Int) { on(.finish(id: id)) }
  func cancel(_ id: Int) { on(.cancel(id: id)) }

  // MARK: Doing what the session says

  private func on(_ event: HelperSession.Event) {
    for action in session.on(event) { perform(action) }
  }

  private func perform(_ action: HelperSession.Action) {
    switch action {
    case .launch: launch()
    case .kill:
      generation += 1
      if let process { Task { await process.signal(SIGKILL) } }
      process = nil
    case .send(let request): send(request)
    case .arm(let limit):
      disarm()
      timer = loop.after(limit) { [weak self] in
        self?.assumeIsolated {
          $0.timer = nil
          $0.on(.deadline)
        }
      }
    case .disarm: disarm()
    case .writeFile(let id, let samples, let rate):
      Task {
        let path = try? await files.write(PCM(int16: samples, rate: rate))
        on(.fileWritten(id: id, path: path))
      }
    case .removeFile(let path): Task { await files.remove(path) }
    case .tell(let id, let event): open[id]?.tell(event)
    case .answer(let id, let result): open.removeValue(forKey: id)?.answer(result)
    case .readiness(let result):
      if case .success(let hasPartials) = result { partials.withLock { $0 = hasPartials } }
      let waiting = readiness
      readiness = []
      for continuation in waiting { continuation.resume(returning: result) }
    }
  }

  private func disarm() {
    if let timer { loop.cancel(timer) }
    timer = nil
  }

  private func launch() {
    generation += 1
    let generation = generation
    let command = Subprocess.Command(options.command[0], Array(options.command.dropFirst()))
    // The helper does not keep its transcriber.
    Task { [weak self, loop] in
      do throws(SystemError) {
        let process = try await Subprocess.start(command, loop: loop)
        guard await self?.take(process, generation) == true else {
          await process.end(grace: .zero)
          return
        }
        while await self?.hear(await HelperTranscriber.line(of: process), of: process, generation) == true {}
      } catch {
        await self?.on(.notStarted(CommandTranscriber.notStarted(error)), from: generation)
      }
    }
  }

  private static func line(of process: Subprocess) async -> Result<[UInt8]?, SystemError> {
    do throws(SystemError) {
      return .success(try await process.readLine(limit: HelperMessage.lineLimit))
    } catch {
      return .failure(error)
    }
  }

  /// False when it has come too late.
  private func take(_ process: Subprocess, _ generation: Int) -> Bool {
    if generation != self.generation { return false }
    self.process = process
    return true
  }

  private func on(_ event: HelperSession.Event, from generation: Int) {
    if generation == self.generation { on(event) }
  }

  /// Does what the helper's next line says; false when there will be none.
  private func hear(_ line: Result<[UInt8]?, SystemError>, of process: Subprocess, _ generation: Int) async -> Bool {
    switch line {
    case .success(let line?):
      if let message = HelperMessage(line: line) { on(.message(message), from: generation) }
      return generation == self.generation
    case .failure:
      on(.ended("wrote a line of over \(HelperMessage.lineLimit >> 10) KiB"), from: generation)
      return false
    case .success(nil): break
    }
    // Without its output it is of no use, should it still run.
    let exit = await process.end(grace: .milliseconds(500))
    // What it wrote to its standard error is told only while it was starting: later it may have written there what it heard.
    let errors = await process.errorOutput
    let complaint = session.phase == .starting ? errors.split(whereSeparator: \.isNewline).last : nil
    on(.ended("ended with \(exit.inWords)" + (complaint.map { ": \($0.prefix(200))" } ?? "")), from: generation)
    return false
  }

  private func send(_ request: HelperRequest) {
    guard let process else { return }
    let generation = generation
    sending = Task { [weak self, before = sending] in
      await before?.value
      // A helper that does not read any more ends soon or is killed at the deadline.
      guard (try? await process.write(request.line)) != nil else { return }
      await self?.on(.drained, from: generation)
    }
  }
}

/// One utterance at a helper.
final class HelperTranscription: Transcription {
  let events: AsyncStream<TranscriptionEvent>
  private let sink: AsyncStream<TranscriptionEvent>.Continuation
  private let id: Int
  private let transcriber: HelperTranscriber
  // Only the one task that feeds touches it; Lock makes that safe to say.
  private let adapter: Lock<RateAdapter>
  private let outcome = Outcome()

  init(id: Int, transcriber: HelperTranscriber, adapter: sending RateAdapter) {
    self.id = id
    self.transcriber = transcriber
    self.adapter = Lock(adapter)
    (events, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
  }

  func feed(_ samples: [Float]) async {
    let samples = adapter.withLock { $0.process(samples) }
    if !samples.isEmpty { await transcriber.feed(id, samples) }
  }

  func finish() async throws(SpeechError) -> String {
    let rest = adapter.withLock { $0.finish() }
    if !rest.isEmpty { await transcriber.feed(id, rest) }
    await transcriber.finish(id)
    return try await outcome.value.get()
  }

  func cancel() async { await transcriber.cancel(id) }

  func tell(_ event: TranscriptionEvent) { sink.yield(event) }

  func answer(_ result: Result<String, SpeechError>) {
    outcome.set(result)
    sink.finish()
  }
}

/// A result that is set once and may be waited for before and after.
final class Outcome: Sendable {
  private struct State {
    var result: Result<String, SpeechError>?
    var waiting: [CheckedContinuation<Result<String, SpeechError>, Never>] = []
  }
  private let state = Lock(State())

  var value: Result<String, SpeechError> {
    get async {
      await withCheckedContinuation { continuation in
        let result = state.withLock { state in
          if state.result == nil { state.waiting.append(continuation) }
          return state.result
        }
        if let result { continuation.resume(returning: result) }
      }
    }
  }

  /// Whether this was the first.
  @discardableResult
  func set(_ result: Result<String, SpeechError>) -> Bool {
    let waiting = state.withLock { state -> [CheckedContinuation<Result<String, SpeechError>, Never>]? in
      if state.result != nil { return nil }
      state.result = result
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting ?? [] { continuation.resume(returning: result) }
    return waiting != nil
  }
}
