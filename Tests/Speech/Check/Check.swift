import Audio
import Glibc
import Speech
import System

/// What `make test-speech` runs: real recognisers on real speech, with the marks that they must reach.
///
///     talknode-check-speech grammar SAMPLES               pocketsphinx on the bundled questions, at 16 kHz and through a telephone
///     talknode-check-speech command COMMANDS DICTATION WORD...   the command transcriber on flite's voices
@main struct Check {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    do {
      switch arguments.first {
      case "grammar" where arguments.count == 2: exit(try await GrammarCheck(folder: arguments[1]).run() ? 0 : 1)
      case "command" where arguments.count > 3:
        let check = CommandCheck(
          commands: arguments[1], dictation: arguments[2], command: Array(arguments[3...]))
        exit(try await check.run() ? 0 : 1)
      default:
        print("usage: talknode-check-speech grammar SAMPLES | command COMMANDS DICTATION WORD...")
        exit(64)
      }
    } catch {
      print("failed: \(error)")
      exit(1)
    }
  }

  /// The lines of a text file that are not empty.
  static func lines(_ path: String) throws -> [String] {
    String(decoding: try Files.read(path), as: UTF8.self).split(whereSeparator: \.isNewline).map(String.init)
  }

  static func sound(_ path: String) throws -> PCM { try AudioFile.decodeNow(try Files.read(path)) }

  /// Has `sound` transcribed piece by piece, as it would be heard.
  static func transcribe(_ sound: PCM, with transcriber: any Transcriber) async throws -> String {
    let transcription = try await transcriber.begin(TranscriptionRequest(rate: sound.rate, language: "en"))
    var at = 0
    while at < sound.samples.count {
      let next = min(sound.samples.count, at + sound.rate / 50)
      await transcription.feed(Array(sound.samples[at..<next]))
      at = next
    }
    return try await transcription.finish()
  }

  /// Rounded to two places.
  static func short(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }
}

/// Two sentences are the same when they are so without case, punctuation and the way numbers are written.
enum Normal {
  private static let units = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
  ]
  private static let tens = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

  static func words(_ text: String) -> [String] {
    text.lowercased().map { $0.isLetter || $0.isNumber || $0 == "'" ? $0 : " " }.split(separator: " ")
      .flatMap { word -> [String] in
        let word = String(word).replacing("'", with: "")
        guard let number = Int(word), (0..<100).contains(number) else { return word.isEmpty ? [] : [word] }
        if number < 20 { return [units[number]] }
        return [tens[number / 10]] + (number % 10 == 0 ? [] : [units[number % 10]])
      }
  }

  /// How many words must be put in, left out or changed to make one text of the other.
  static func distance(_ left: [String], _ right: [String]) -> Int {
    var row = Array(0...right.count)
    for (index, word) in left.enumerated() {
      var before = row[0]
      row[0] = index + 1
      for column in right.indices {
        let change = before + (word == right[column] ? 0 : 1)
        before = row[column + 1]
        row[column + 1] = min(change, before + 1, row[column] + 1)
      }
    }
    return row[right.count]
  }
}
