import Audio
import Glibc
import System

/// Runs a command for each utterance, with the utterance in a file.
actor OneShotTranscriber: Transcriber {
  nonisolated let name = "command"
  nonisolated let hasPartials = false
  private nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private nonisolated let options: CommandTranscriber.Options
  private nonisolated let files: UtteranceFiles
  private var runs: [Int: Run] = [:]
  private var nextRun = 0
  private var isStopped = false

  /// More output than a transcript could be.
  private static let outputLimit = 256 << 10
  /// Commands that may run at once.
  private static let runLimit = 4

  /// A command that is running.
  private struct Run {
    var process: Subprocess?
    var output: [UInt8] = []
    var timer: EventLoop.Token?
    var failure: SpeechError?
    let continuation: CheckedContinuation<Result<String, SpeechError>, Never>
  }

  init(options: CommandTranscriber.Options, files: UtteranceFiles, loop: EventLoop) {
    self.options = options
    self.files = files
    self.loop = loop
  }

  // Processes and timers belong to the loop.
  isolated deinit {
    for run in runs.values {
      if let timer = run.timer { loop.cancel(timer) }
      run.continuation.resume(returning: .failure(SpeechError(.cancelled, "The transcriber was stopped.")))
    }
    runs = [:]
  }

  nonisolated func availability() async -> SpeechAvailability {
    let program = options.command[0]
    if Subprocess.locate(program) == nil { return CommandTranscriber.notFound(program) }
    return .ready("\(program), run for each utterance; dictation as good as its model, no text while you speak")
  }

  nonisolated func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
    OneShotTranscription(
      transcriber: self, language: request.language,
      adapter: try RateAdapter(from: request.rate, to: CommandTranscriber.rate))
  }

  func stop() async {
    isStopped = true
    for id in runs.keys { end(id, SpeechError(.cancelled, "The transcriber was stopped.")) }
  }

  /// The text of `sound`. A command that hangs or fails is run again.
  func transcribe(_ sound: PCM, language: String?) async -> Result<String, SpeechError> {
    let file: String
    do throws(SpeechError) { file = try await files.write(sound) } catch { return .failure(error) }
    var result = Result<String, SpeechError>.failure(SpeechError(.failed, "The command was not run."))
    for _ in 0..<max(1, options.attempts) {
      result = await run(file: file, language: language, limit: options.answerLimit + sound.duration * 4)
      guard case .failure(let error) = result, error.code == .timeout || error.code == .failed, !Task.isCancelled else {
        break
      }
    }
    await files.remove(file)
    return result
  }

  private func run(file: String, language: String?, limit: Duration) async -> Result<String, SpeechError> {
    if isStopped { return .failure(SpeechError(.cancelled, "The transcriber was stopped.")) }
    if runs.count >= OneShotTranscriber.runLimit {
      return .failure(SpeechError(.busy, "Too many utterances are being transcribed."))
    }
    let command = options.command.map {
      $0.replacing("{wav}", with: file).replacing("{language}", with: OneShotTranscriber.safe(language) ?? "auto")
    }
    nextRun += 1
    let id = nextRun
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        runs[id] = Run(continuation: continuation)
        start(id, command, limit)
      }
    } onCancel: {
      Task { await self.end(id, SpeechError(.cancelled, "The transcription was cancelled.")) }
    }
  }

  private func start(_ id: Int, _ command: [String], _ limit: Duration) {
    if Task.isCancelled { return answer(id, .failure(SpeechError(.cancelled, "The transcription was cancelled."))) }
    do throws(SystemError) {
      let process = try Subprocess(command, loop: loop) { [unowned self] event in
        self.assumeIsolated { $0.on(event, id) }
      }
      process.closeInput()
      runs[id]?.process = process
    } catch {
      return answer(
        id,
        .failure(
          SpeechError(
            .invalidSetting, "The transcriber's command can't be run: \(error).",
            remedy: "Check transcriber.command; config/recipes has commands that work.")))
    }
    runs[id]?.timer = loop.after(limit) { [unowned self] in
      self.assumeIsolated {
        $0.runs[id]?.timer = nil
        $0.end(id, SpeechError(.timeout, "The transcriber's command did not end within \(Int(limit.inSeconds)) s."))
      }
    }
  }

  private func on(_ event: Subprocess.Event, _ id: Int) {
    switch event {
    case .output(let bytes):
      runs[id]?.output += bytes
      if let count = runs[id]?.output.count, count > OneShotTranscriber.outputLimit {
        end(id, SpeechError(.failed, "The transcriber's command printed more than a transcript."))
      }
    case .diagnostics, .drained: break
    case .exited(let exit):
      guard let run = runs[id] else { return }
      if exit == .code(0) {
        answer(id, .success(TranscriptText.of(output: run.output)))
      } else {
        answer(id, .failure(SpeechError(.failed, "The transcriber's command ended with \(exit).")))
      }
    }
  }

  private func end(_ id: Int, _ error: SpeechError) {
    runs[id]?.process?.signal(SIGKILL)
    answer(id, .failure(error))
  }

  private func answer(_ id: Int, _ result: Result<String, SpeechError>) {
    guard let run = runs.removeValue(forKey: id) else { return }
    if let timer = run.timer { loop.cancel(timer) }
    run.continuation.resume(returning: result)
  }

  /// A language comes from outside and goes onto a command line.
  private static func safe(_ language: String?) -> String? {
    guard let language, (2...16).contains(language.utf8.count),
      language.utf8.allSatisfy({
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0 | 0x20) || $0 == UInt8(ascii: "-")
      })
    else { return nil }
    // Recognisers know languages, not regions.
    return language.split(separator: "-").first.map { $0.lowercased() }
  }
}

/// One utterance, kept until it is complete.
final class OneShotTranscription: Transcription {
  let events: AsyncStream<TranscriptionEvent>
  private let sink: AsyncStream<TranscriptionEvent>.Continuation
  private let transcriber: OneShotTranscriber
  private let language: String?
  private struct Heard {
    let adapter: RateAdapter
    var samples: [Int16] = []
    var task: Task<Result<String, SpeechError>, Never>?
    var isCancelled = false
  }
  private let heard: Lock<Heard>

  init(transcriber: OneShotTranscriber, language: String?, adapter: sending RateAdapter) {
    self.transcriber = transcriber
    self.language = language
    heard = Lock(Heard(adapter: adapter))
    (events, sink) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(4))
  }

  func feed(_ samples: [Float]) async {
    heard.withLock { $0.samples += $0.adapter.process(samples).map(Int16.init(sample:)) }
  }

  func finish() async throws(SpeechError) -> String {
    defer { sink.finish() }
    let task = heard.withLock { heard -> Task<Result<String, SpeechError>, Never>? in
      if heard.isCancelled { return nil }
      heard.samples += heard.adapter.finish().map(Int16.init(sample:))
      let sound = PCM(int16: heard.samples, rate: CommandTranscriber.rate)
      heard.samples = []
      let task = Task { [transcriber, language] in await transcriber.transcribe(sound, language: language) }
      heard.task = task
      return task
    }
    guard let task else { throw SpeechError(.cancelled, "The transcription was cancelled.") }
    return try await task.value.get()
  }

  func cancel() async {
    let task = heard.withLock { heard in
      heard.isCancelled = true
      heard.samples = []
      return heard.task
    }
    task?.cancel()
    sink.finish()
  }
}
