import Glibc
import Speech
import System

/// The recogniser behind a development gateway's transcription, as a process of its own.
enum DevRecognizerCommand {
  private static let sentences = Option("sentences", value: "FILE", "what is understood, a sentence a line")
  private static let rate = Option("rate", value: "HZ", "samples a second (default: 8000)")
  private static let encoding = Option("encoding", value: "NAME", "mulaw (default) or pcm16")

  static let verb = Verb(
    "dev-recognizer", "speech on standard input to text on standard output, for a development gateway",
    options: [sentences, rate, encoding],
    notes: [
      """
      Reads samples without a header until the end of its input and writes a JSON object a line: ready, speechStart, partial, final, \
      error. It is pocketsphinx; without --sentences it tries free dictation.
      """
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    guard let rate = Int(arguments[rate] ?? "8000"), (4000...192_000).contains(rate) else {
      throw .usage("--rate takes 4000 to 192000.")
    }
    guard let encoding = RecognizerWorker.Encoding(rawValue: arguments[encoding] ?? "mulaw") else {
      throw .usage("--encoding takes mulaw or pcm16.")
    }
    var options = RecognizerWorker.Options(rate: rate)
    options.encoding = encoding
    if let file = arguments[sentences] { options.grammar = try grammar(file) }
    return ExitStatus(code: RecognizerWorker.run(options))
  }

  private static func grammar(_ file: String) throws(Failure) -> SpeechGrammar {
    guard let text = Files.text(file, limit: SpeechGrammar.limit) else {
      throw Failure("INPUT", "\(file) can't be read.", exit: .noInput)
    }
    let lines = text.split(whereSeparator: \.isNewline).map(\.trimmed).filter { !$0.isEmpty && !$0.hasPrefix("#") }
    do throws(SpeechError) { return try SpeechGrammar(sentences: lines) } catch {
      throw Failure(error.code.rawValue, error.summary, remedy: error.remedy, exit: .data)
    }
  }

  /// This very program as the recogniser of a development gateway.
  static func command(sentences: String?) throws(Failure) -> Subprocess.Command {
    guard let path = realpath("/proc/self/exe", nil) else {
      throw Failure("SYSTEM", "The program's own file is not known.", exit: .system)
    }
    defer { free(path) }
    var words = verb.path
    if let sentences { words += ["--\(Self.sentences.name)", sentences] }
    return Subprocess.Command(String(cString: path), words)
  }
}
