import Audio
import Glibc
import System

/// Runs a command for each utterance, with the utterance in a file.
final class OneShotTranscriber: Transcriber {
  let name = "command"
  let hasPartials = false
  private let options: CommandTranscriber.Options
  private let files: UtteranceFiles
  private let loop: EventLoop

  private struct State {
    var runs: [Int: Task<Result<String, SpeechError>, Never>] = [:]
    var next = 0
    var isStopped = false
  }
  private let state = Lock(State())

  /// More output than a transcript could be.
  private static let outputLimit = 256 << 10
  /// Commands that may run at once.
  private static let runLimit = 4

  init(options: CommandTranscriber.Options, files: UtteranceFiles, loop: EventLoop) {
    self.options = options
    self.files = files
    self.loop = loop
  }

  func availability() async -> SpeechAvailability {
    let program = options.command[0]
    if Programs.path(of: program) == nil { return CommandTranscriber.notFound(program) }
    return .ready("\(program), run for each utterance; dictation as good as its model, no text while you speak")
  }

  func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
    OneShotTranscription(
      transcriber: self, language: request.language,
      adapter: try RateAdapter(from: request.rate, to: CommandTranscriber.rate))
  }

  func stop() async {
    let runs = state.withLock { state in
      state.isStopped = true
      return state.runs.values
    }
    for run in runs { run.cancel() }
  }

  /// Begins to transcribe `sound`. Cancelling the task kills the command.
  func transcribe(_ sound: PCM, language: String?) -> Task<Result<String, SpeechError>, Never> {
    state.withLock { state in
      if state.isStopped { return Task { .failure(SpeechError(.cancelled, "The transcriber was stopped.")) } }
      if state.runs.count >= OneShotTranscriber.runLimit {
        return Task { .failure(SpeechError(.busy, "Too many utterances are being transcribed.")) }
      }
      state.next += 1
      let id = state.next
      let task = Task {
        let result = await self.attempts(sound, language)
        self.state.withLock { _ = $0.runs.removeValue(forKey: id) }
        return result
      }
      state.runs[id] = task
      return task
    }
  }

  /// A command that hangs or fails is run again.
  private func attempts(_ sound: PCM, _ language: String?) async -> Result<String, SpeechError> {
    let file: String
    do throws(SpeechError) { file = try await files.write(sound) } catch { return .failure(error) }
    let words = options.command.map {
      $0.replacing("{wav}", with: file).replacing("{language}", with: OneShotTranscriber.safe(language) ?? "auto")
    }
    let command = Subprocess.Command(words[0], Array(words.dropFirst()))
    var result = await run(command, limit: options.answerLimit + sound.duration * 4)
    for _ in 1..<max(1, options.attempts) {
      guard case .failure(let error) = result, error.code == .timeout || error.code == .failed else { break }
      result = await run(command, limit: options.answerLimit + sound.duration * 4)
    }
    await files.remove(file)
    return result
  }

  private func run(_ command: Subprocess.Command, limit: Duration) async -> Result<String, SpeechError> {
    do throws(SystemError) {
      let result = try await Subprocess.run(
        command, outputLimit: OneShotTranscriber.outputLimit, deadline: limit, loop: loop)
      if !result.exit.isSuccess {
        return .failure(SpeechError(.failed, "The transcriber's command ended with \(result.exit.inWords)."))
      }
      if result.isTruncated {
        return .failure(SpeechError(.failed, "The transcriber's command printed more than a transcript."))
      }
      return .success(TranscriptText.of(output: result.output))
    } catch {
      switch error.code {
      case ETIMEDOUT:
        let seconds = Int(limit.inSeconds.rounded(.up))
        return .failure(SpeechError(.timeout, "The transcriber's command did not end within \(seconds) s."))
      case ECANCELED: return .failure(SpeechError(.cancelled, "The transcription was cancelled."))
      default: return .failure(CommandTranscriber.notStarted(error))
      }
    }
  }

  /// A language comes from outside and goes onto a command line. Recognisers know languages, not regions.
  private static func safe(_ language: String?) -> String? {
    guard let language = language?.prefix(while: { $0 != "-" && $0 != "_" }).lowercased(),
      (2...8).contains(language.utf8.count),
      language.utf8.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) })
    else { return nil }
    return language
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
      let samples = heard.samples + heard.adapter.finish().map(Int16.init(sample:))
      heard.samples = []
      heard.task = transcriber.transcribe(PCM(int16: samples, rate: CommandTranscriber.rate), language: language)
      return heard.task
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
