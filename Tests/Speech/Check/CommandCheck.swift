import Audio
import Glibc
import Speech
import System

/// A helper program on sentences that flite speaks: short commands, which must be right, and dictation, whose word error rate is
/// printed.
struct CommandCheck {
  /// Files of sentences, one a line.
  let commands: String
  let dictation: String
  let command: [String]

  static let voices = ["slt", "rms", "awb"]
  static let share = 27.0 / 30

  func run() async throws -> Bool {
    let loop = EventLoop(name: "check")
    defer { loop.stop() }
    let folder = "/tmp/talknode-check-\(getpid())"
    try Files.makeFolder(folder)
    defer { try? Files.removeTree(folder) }
    let transcriber = try CommandTranscriber(options: .init(command: command, temporaryFolder: folder), loop: loop)
    let availability = await transcriber.availability()
    print(availability)
    guard availability.isReady else { return false }
    defer { Task { await transcriber.stop() } }

    var right = 0
    var total = 0
    for sentence in try Check.lines(commands) {
      for voice in CommandCheck.voices {
        let text = try await Check.transcribe(try await speak(sentence, voice, folder, loop), with: transcriber)
        total += 1
        if Normal.words(text) == Normal.words(sentence) {
          right += 1
        } else {
          print("   \(voice): \(sentence) => \(text)")
        }
      }
    }
    let isEnough = Double(right) >= Double(total) * CommandCheck.share
    print("command transcriber, short sentences: \(right) of \(total) right", isEnough ? "" : "TOO FEW")

    var errors = 0
    var words = 0
    var latencies: [Double] = []
    for (index, sentence) in try Check.lines(dictation).enumerated() {
      let sound = try await speak(sentence, CommandCheck.voices[index % 3], folder, loop)
      let start = Monotonic.now()
      let text = try await Check.transcribe(sound, with: transcriber)
      latencies.append((Monotonic.now() - start).inSeconds)
      let expected = Normal.words(sentence)
      errors += Normal.distance(expected, Normal.words(text))
      words += expected.count
    }
    latencies.sort()
    print(
      "command transcriber, dictation: word error rate \(Check.short(Double(errors) / Double(max(1, words)) * 100)) % of \(words) words,",
      "median \(Check.short(latencies[latencies.count / 2])) s a sentence")
    await transcriber.stop()
    return isEnough
  }

  private func speak(_ sentence: String, _ voice: String, _ folder: String, _ loop: EventLoop) async throws -> PCM {
    let file = folder + "/spoken.wav"
    let flite = Subprocess.Command("flite", ["-voice", voice, "-t", sentence, "-o", file])
    let result = try await Subprocess.run(flite, deadline: .seconds(30), loop: loop)
    guard result.exit.isSuccess else { throw SpeechError(.failed, "flite ended with \(result.exit.inWords).") }
    return try Check.sound(file)
  }
}
