import Audio
import Glibc
import System
import TestSupport
import Testing

@testable import Speech

/// What the voice does when its library hangs or has no data. espeak-ng is one for a whole process, so each of these needs a process of
/// its own: `make test-hangs`.
@Suite("A voice that hangs") struct SpeechHangs {
  private func seconds(_ voice: Synthesizer, _ utterance: Utterance) async throws -> Double {
    try await voice.speak(utterance).whole().duration.inSeconds
  }

  private func isAbout(_ one: Double, _ other: Double) -> Bool { abs(one - other) < 0.02 * max(one, other) }

  /// A data folder of the real data, in which German's dictionary is a pipe that nobody writes to: whoever opens it hangs.
  private func dataThatHangs(in folder: TemporaryFolder) throws -> String {
    let real = try #require(
      ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/share", "/usr/lib"].map {
        $0 + "/espeak-ng-data"
      }
      .first(where: Files.exists), "espeak-ng-data is installed")
    try Files.makeFolder(folder("data/espeak-ng-data"))
    for name in Files.list(real) where name != "de_dict" {
      symlink(real + "/" + name, folder("data/espeak-ng-data/" + name))
    }
    mkfifo(folder("data/espeak-ng-data/de_dict"), 0o600)
    return folder("data")
  }

  /// Opens the pipe, so that the `count` threads that hang in it come back, and waits until they have ended: they go nowhere but to their
  /// end. (A process that exits while one of them reads a file takes the file away from under it.)
  private func letGo(_ folder: TemporaryFolder, _ count: Int) async {
    // The library has threads of its own, by the same name; they stay.
    func threads() -> Int {
      Files.list("/proc/self/task").count { Files.text("/proc/self/task/\($0)/comm")?.trimmed == "espeak-ng" }
    }
    let before = threads()
    let isOver = await eventually {
      let descriptor = open(folder("data/espeak-ng-data/de_dict"), O_WRONLY | O_NONBLOCK)
      if descriptor >= 0 { close(descriptor) }
      return threads() <= before - count
    }
    #expect(isOver, "of \(before) threads \(threads()) are there yet")
  }

  @Test("a thread that hangs in the library is left behind, and another speaks on with a private copy of it")
  func hang() async throws {
    let folder = TemporaryFolder()
    var options = Synthesizer.Options()
    options.dataFolder = try dataThatHangs(in: folder)
    options.hangLimit = .milliseconds(300)
    let voice = Synthesizer(options: options)
    let before = try await seconds(voice, Utterance("Good morning."))
    let hanging = voice.speak(Utterance("Guten Morgen.", language: "de"))
    // This one waits behind it, and must not be lost.
    let waiting = voice.speak(Utterance("Good morning."))
    let error = await #expect(throws: SpeechError.self) { for try await _ in hanging {} }
    #expect(error?.code == .timeout)
    #expect(isAbout(try await waiting.whole().duration.inSeconds, before))
    #expect(voice.hangs == 1)
    await letGo(folder, 1)
    #expect(isAbout(try await seconds(voice, Utterance("Good morning.")), before))
  }

  @Test("an engine that hangs again and again is not started for ever")
  func hangs() async throws {
    let folder = TemporaryFolder()
    var options = Synthesizer.Options()
    options.dataFolder = try dataThatHangs(in: folder)
    options.hangLimit = .milliseconds(200)
    let voice = Synthesizer(options: options)
    for _ in 0..<Synthesizer.hangsAllowed {
      _ = try? await voice.speak(Utterance("Guten Morgen.", language: "de")).whole()
    }
    let error = await #expect(throws: SpeechError.self) {
      _ = try await voice.speak(Utterance("Good morning.")).whole()
    }
    #expect(error?.remedy == "Restart talknode.")
    await letGo(folder, Synthesizer.hangsAllowed)
  }

  @Test("without its data it is absent, with what to install")
  func noData() async throws {
    let folder = TemporaryFolder()
    var options = Synthesizer.Options()
    options.dataFolder = folder.path
    let voice = Synthesizer(options: options)
    #expect(
      await voice.availability()
        == .absent(reason: "espeak-ng's data is not installed.", remedy: "apt install espeak-ng-data"))
    await #expect(throws: SpeechError.self) { _ = try await voice.speak(Utterance("Hello.")).whole() }
  }
}
