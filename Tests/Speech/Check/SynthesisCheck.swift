import Audio
import Glibc
import Speech
import System

/// The synthesiser: how soon it is heard and silent, and whether it grows.
struct SynthesisCheck {
  let count: Int
  /// What 5,000 utterances may add to the program's memory. The library's own caches fill during the first.
  static let growthLimit = 3 << 20

  func run() async throws -> Bool {
    let synthesizer = Synthesizer()
    let cold = try await first(synthesizer, "This is the first thing that it says.")
    var warm: [Double] = []
    for index in 0..<200 {
      warm.append(try await first(synthesizer, "The answer to question number \(index) is not known yet.").milliseconds)
    }
    warm.sort()
    var cancels: [Double] = []
    let long = String(repeating: "This goes on for a very long time, and then it goes on. ", count: 400)
    for _ in 0..<50 { cancels.append(try await cancel(synthesizer, long).milliseconds) }
    cancels.sort()
    print("first audio: \(Check.short(cold.milliseconds)) ms with the library loaded, then", figures(warm))
    print("cancel to the end of synthesis:", figures(cancels))

    try await speak(synthesizer, count / 10)
    let before = Check.residentBytes()
    let start = Monotonic.now()
    try await speak(synthesizer, count)
    let seconds = (Monotonic.now() - start).inSeconds
    let growth = Check.residentBytes() - before
    print(
      "\(count) utterances: \(Check.short(seconds)) s, resident memory \(Check.short(Double(before) / 1_048_576)) MiB,",
      "grown by \(growth / 1024) KiB")
    let isGood =
      warm[warm.count * 95 / 100] <= 30 && cancels[cancels.count - 1] <= 100 && growth <= SynthesisCheck.growthLimit
    if !isGood { print("TOO SLOW OR TOO LARGE") }
    return isGood
  }

  private func figures(_ sorted: [Double]) -> String {
    "p50 \(Check.short(sorted[sorted.count / 2])) ms, p95 \(Check.short(sorted[sorted.count * 95 / 100])) ms, "
      + "highest \(Check.short(sorted[sorted.count - 1])) ms"
  }

  private func first(_ synthesizer: Synthesizer, _ text: String) async throws -> Duration {
    let start = Monotonic.now()
    var first: Duration?
    for try await _ in synthesizer.speak(Utterance(text)) where first == nil { first = Monotonic.now() - start }
    return first ?? .seconds(60)
  }

  /// Until the engine has left what was cancelled and has begun the next.
  private func cancel(_ synthesizer: Synthesizer, _ text: String) async throws -> Duration {
    let speech = synthesizer.speak(Utterance(text))
    for try await _ in speech { break }
    let start = Monotonic.now()
    speech.cancel()
    for try await _ in synthesizer.speak(Utterance("So.")) { break }
    return Monotonic.now() - start
  }

  private func speak(_ synthesizer: Synthesizer, _ count: Int) async throws {
    let languages = ["en-GB", "en-US", "en-GB", "en-GB", "de-DE", "en-GB", "fr", "en-GB", "en-GB", "zh-CN"]
    for index in 0..<count {
      let utterance = Utterance(
        "Utterance number \(index), as short as an answer is.", language: languages[index / 20 % 10])
      for try await _ in synthesizer.speak(utterance) {}
    }
  }
}

extension Check {
  /// The resident set of this process in bytes (proc(5), statm).
  static func residentBytes() -> Int {
    let fields = (Files.text("/proc/self/statm") ?? "").split(separator: " ")
    return (fields.count > 1 ? Int(fields[1]) ?? 0 : 0) * sysconf(Int32(_SC_PAGESIZE))
  }
}
