import Audio
import System

/// Transcribes with a program of the user's choice: whisper.cpp, faster-whisper, anything that can be run.
///
/// - A command with `{wav}` in it is run once an utterance; `{wav}` becomes the path of a 16 kHz mono file, `{language}` the language
///   (`auto` when unknown), and what it prints is the text.
/// - Any other command is a helper that is started once and stays; `HelperRequest` documents the JSON lines it is spoken to in.
///
/// Either is killed when it hangs and tried again with the same sound. The path is the only thing on its command line; the file is
/// readable by its owner alone and is gone when the answer is there.
public struct CommandTranscriber: Transcriber {
  public struct Options: Sendable, Equatable {
    /// Program and arguments. The program is searched for in PATH.
    public var command: [String]
    /// Where the files are written: a folder that only this user can read, in memory where possible. It is made (0700) at the first
    /// utterance, and what a crashed process left there is removed.
    public var temporaryFolder: String
    /// For a helper's start, until it is ready: it may have a model to load.
    public var startLimit = Duration.seconds(60)
    /// For an answer, plus four times the utterance's length.
    public var answerLimit = Duration.seconds(20)
    /// How often an utterance is tried before another transcriber has to do it.
    public var attempts = 2

    public init(command: [String], temporaryFolder: String) {
      self.command = command
      self.temporaryFolder = temporaryFolder
    }
  }

  /// What recognisers are trained on.
  static let rate = 16_000

  public let name = "command"
  public let options: Options
  private let implementation: any Transcriber

  /// Throws `invalidSetting` for an empty command.
  public init(options: Options, loop: EventLoop) throws(SpeechError) {
    self.options = options
    guard let program = options.command.first, !program.isEmpty else {
      throw SpeechError(.invalidSetting, "The transcriber's command is empty.")
    }
    let files = UtteranceFiles(folder: options.temporaryFolder)
    if options.command.contains(where: { $0.contains("{wav}") }) {
      implementation = OneShotTranscriber(options: options, files: files, loop: loop)
    } else {
      implementation = HelperTranscriber(options: options, files: files, loop: loop)
    }
  }

  public var hasPartials: Bool { implementation.hasPartials }
  public func availability() async -> SpeechAvailability { await implementation.availability() }
  public func prepare() async { await implementation.prepare() }
  public func begin(_ request: TranscriptionRequest) async throws(SpeechError) -> any Transcription {
    try await implementation.begin(request)
  }
  public func stop() async { await implementation.stop() }

  static func notFound(_ program: String) -> SpeechAvailability {
    .absent(
      reason: "The transcriber's command \(program) is not installed.",
      remedy: "Install it, or change command in [talk]; share/talknode/recipes has commands that work.")
  }

  static func notStarted(_ error: SystemError) -> SpeechError {
    SpeechError(
      .invalidSetting, "The transcriber's command can't be run: \(error.reason).",
      remedy: "Check command in [talk]; share/talknode/recipes has commands that work.")
  }
}

/// Sound at the rate that the recogniser wants.
struct RateAdapter {
  private let resampler: Resampler?

  init(from rate: Int, to wanted: Int) throws(SpeechError) {
    guard rate != wanted else {
      resampler = nil
      return
    }
    do throws(AudioError) {
      resampler = try Resampler(from: rate, to: wanted)
    } catch {
      throw SpeechError(.missing, error.summary, remedy: error.remedy)
    }
  }

  /// What can't be converted is left out; libsamplerate fails only when it is used wrongly.
  func process(_ samples: [Float]) -> [Float] {
    guard let resampler else { return samples }
    return (try? resampler.process(samples)) ?? []
  }

  func finish() -> [Float] { (try? resampler?.finish()) ?? [] }
}
