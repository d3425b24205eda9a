import Audio
import Glibc
import Speech
import System

/// This machine's voice: how soon it is heard, and whether it grows.
extension Section {
  static let voice = Section(name: "voice") { options in
    let voice = Synthesizer()
    let cold = try await first(voice, "This is the first thing that it says.")
    var warm = Samples()
    for index in 0..<options.times(200) {
      warm.add(try await first(voice, "The answer to question number \(index) is not known yet."))
    }
    let loop = EventLoop(name: "voice")
    defer { loop.stop() }
    var program: (String, Double)?
    if access("/usr/bin/espeak-ng", X_OK) == 0 {
      var times = Samples()
      let command = Subprocess.Command(
        "espeak-ng", ["--stdout", "The answer to question number one is not known yet."])
      for _ in 0..<options.times(40) { times.add(try await firstOutput(command, loop)) }
      program = ("espeak-ng", times.median)
    }
    // The library's own caches fill during the first of them.
    let count = options.isQuick ? 500 : 5000
    try await speak(voice, count / 10)
    let before = try Machine.memory(of: getpid()).resident
    try await speak(voice, count)
    let growth = try Machine.memory(of: getpid()).resident - before
    return [
      Figure(
        "espeak first audio", unit: "ms", value: warm.median, target: .atMost(30), comparison: program,
        note: "p95 \(Report.text(warm.quantile(0.95), "ms")); the first of a process, with the library to load, "
          + Report.text(cold, "ms")),
      Figure(
        "growth over \(count) utterances", unit: "MB", value: max(0, growth), target: .atMost(3),
        note: "in four languages"),
    ]
  }

  private static func first(_ voice: Synthesizer, _ text: String) async throws -> Double {
    let start = Monotonic.now()
    var first: Duration?
    for try await _ in voice.speak(Utterance(text)) where first == nil { first = Monotonic.now() - start }
    guard let first else { throw BenchError("the voice said nothing") }
    return first.milliseconds
  }

  private static func speak(_ voice: Synthesizer, _ count: Int) async throws {
    let languages = ["en-GB", "en-US", "en-GB", "de-DE", "en-GB", "fr", "en-GB", "zh-CN"]
    for index in 0..<count {
      let text = "Utterance number \(index), as short as an answer is."
      for try await _ in voice.speak(Utterance(text, language: languages[index / 20 % languages.count])) {}
    }
  }
}
