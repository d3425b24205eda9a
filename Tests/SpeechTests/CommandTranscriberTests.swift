import Audio
import Glibc
import System
import TestSupport
import Testing

@testable import Speech

/// Transcribing with programs of the user's choice: real ones, that do well, fail, hang and die.
@Suite("Command transcriber") final class CommandTranscriberTests: Sendable {
  let folder = TemporaryFolder()
  let loop = EventLoop(name: "test helpers")

  deinit { loop.stop() }

  private func transcriber(
    _ command: [String], answer: Duration = .seconds(20), start: Duration = .seconds(20)
  ) throws -> CommandTranscriber {
    var options = CommandTranscriber.Options(command: command, temporaryFolder: folder("speech"))
    options.answerLimit = answer
    options.startLimit = start
    return try CommandTranscriber(options: options, loop: loop)
  }

  private func shell(_ script: String) -> [String] { ["sh", "-c", script, "sh", "{wav}"] }

  /// Half a second of a ramp.
  private let sound = (0..<8_000).map { Float($0 % 100) / 200 }

  private func transcribe(_ transcriber: some Transcriber, rate: Int = 16_000, language: String? = nil) async throws
    -> String
  {
    let transcription = try await transcriber.begin(TranscriptionRequest(rate: rate, language: language))
    for start in stride(from: 0, to: sound.count, by: 320) {
      await transcription.feed(Array(sound[start..<(start + 320)]))
    }
    return try await transcription.finish()
  }

  private var leftFiles: [String] {
    Files.list(folder("speech/utterances")).flatMap { Files.list(folder("speech/utterances/\($0)")) }
  }

  // MARK: A command for each utterance

  @Test("the command gets a file that only this user can read, and it is gone afterwards")
  func oneShot() async throws {
    let command = try transcriber(shell("stat -c '%a %s' \"$1\"; cp \"$1\" \(folder("copy.wav"))"))
    #expect(!command.hasPartials)
    // 44 bytes of header and 8,000 samples.
    #expect(try await transcribe(command) == "600 16044")
    let copy = try AudioFile.decodeNow(try Files.read(folder("copy.wav")))
    #expect(copy.rate == 16_000 && copy.samples.count == 8_000)
    #expect(leftFiles.isEmpty)
    var status = stat()
    #expect(stat(folder("speech/utterances"), &status) == 0 && status.st_mode & 0o777 == 0o700)
  }

  @Test("sound at another rate is brought to 16 kHz")
  func rates() async throws {
    #expect(try await transcribe(try transcriber(shell("stat -c %s \"$1\"")), rate: 8_000) == "32044")
  }

  @Test(
    "the language is a plain code on the command line, or `auto`",
    arguments: [("de-AT", "de"), (nil, "auto"), ("x; rm", "auto"), ("--help", "auto")] as [(String?, String)])
  func language(_ language: String?, _ word: String) async throws {
    let command = try transcriber(["sh", "-c", "echo $2", "sh", "{wav}", "{language}"])
    #expect(try await transcribe(command, language: language) == word)
  }

  @Test("a command that fails is run again with the same sound")
  func retry() async throws {
    let again = "if [ -e \(folder("once")) ]; then stat -c %s \"$1\"; else touch \(folder("once")); exit 3; fi"
    #expect(try await transcribe(try transcriber(shell(again))) == "16044")
  }

  @Test("a command that hangs is killed, with its children, and run again")
  func hang() async throws {
    let script =
      "if [ -e \(folder("once")) ]; then echo done; else touch \(folder("once")); echo $$ > \(folder("pid")); sleep 600; fi"
    let command = try transcriber(shell(script), answer: .milliseconds(300))
    #expect(try await transcribe(command) == "done")
    let first = try #require(Files.text(folder("pid")).flatMap { Int32($0.trimmed) })
    #expect(await eventually { kill(first, 0) != 0 })
    #expect(leftFiles.isEmpty)
  }

  @Test("a command that fails each time says how, and keeps what was said to itself")
  func fails() async throws {
    let error = await #expect(throws: SpeechError.self) {
      _ = try await self.transcribe(
        try self.transcriber(self.shell("echo secret words; echo secret words >&2; exit 3")))
    }
    #expect(error?.summary == "The transcriber's command ended with exit code 3.")
    let missing = await #expect(throws: SpeechError.self) {
      _ = try await self.transcribe(try self.transcriber(["/nowhere/whisper", "{wav}"]))
    }
    #expect(missing?.code == .invalidSetting && missing?.remedy != nil)
    #expect(leftFiles.isEmpty)
  }

  @Test("more output than a transcript is an error, not memory")
  func flood() async throws {
    await #expect(throws: SpeechError.self) {
      _ = try await self.transcribe(try self.transcriber(self.shell("head -c 3000000 /dev/zero | tr '\\0' a")))
    }
  }

  @Test("cancelling kills the command")
  func cancel() async throws {
    let command = try transcriber(shell("echo $$ > \(folder("pid")); sleep 600"))
    let transcription = try await command.begin(TranscriptionRequest())
    await transcription.feed(sound)
    let text = Task { try await transcription.finish() }
    #expect(await eventually { Files.text(self.folder("pid"))?.hasSuffix("\n") ?? false })
    await transcription.cancel()
    let error = await #expect(throws: SpeechError.self) { _ = try await text.value }
    #expect(error?.code == .cancelled)
    let process = try #require(Files.text(folder("pid")).flatMap { Int32($0.trimmed) })
    #expect(await eventually { kill(process, 0) != 0 })
    #expect(await eventually { self.leftFiles.isEmpty })
  }

  @Test("what a crash left behind is removed at the next start")
  func sweep() throws {
    try folder.write("speech/utterances/4711-abcdef/old.wav", "sound")
    _ = try transcriber(shell("true"))
    #expect(Files.list(folder("speech/utterances")).isEmpty)
  }

  @Test(
    "another program of the same folder, a doctor beside the daemon, leaves the sound that is being transcribed alone")
  func beside() async throws {
    let script = "touch \(folder("begun")); while [ ! -e \(folder("go")) ]; do sleep 0.02; done; stat -c %s \"$1\""
    let daemon = try transcriber(shell(script))
    async let text = transcribe(daemon)
    #expect(await eventually { Files.exists(self.folder("begun")) })
    let doctor = try transcriber(shell("stat -c %s \"$1\""))
    #expect(leftFiles.count == 1)
    #expect(try await transcribe(doctor) == "16044")
    try folder.write("go", "")
    #expect(try await text == "16044")
    #expect(leftFiles.isEmpty)
  }

  @Test("who never transcribes makes no folder")
  func lazy() throws {
    _ = try transcriber(shell("true"))
    #expect(!Files.exists(folder("speech")))
  }

  // MARK: A helper that stays

  /// A helper that answers with how many samples it got, and does as its argument says at its first utterance.
  private func helper(_ misdeed: String = "none", form: String = "pcm") throws -> [String] {
    try folder.write(
      "helper.py",
      #"""
      import base64, json, os, sys, time
      misdeed, form, mark = sys.argv[1:4]
      def say(**m): print(json.dumps(m), flush=True)
      def is_first():
          if os.path.exists(mark): return False
          open(mark, "w").close()
          return True
      if misdeed == "no-start": print("ModuleNotFoundError: no model here", file=sys.stderr); sys.exit(1)
      if misdeed == "mute": time.sleep(600)
      print("some library says hello", flush=True)
      say(type="ready", audio=form, partials=True)
      count = 0
      for line in sys.stdin:
          m = json.loads(line)
          if misdeed == "die" and m["type"] in ("audio", "transcribe") and is_first(): os._exit(9)
          if misdeed == "hang" and m["type"] in ("finish", "transcribe") and is_first(): time.sleep(600)
          if misdeed == "flood" and m["type"] == "audio" and is_first(): print("x" * 2000000, flush=True)
          if misdeed == "refuse" and m["type"] == "finish": say(type="error", id=m["id"], message="too quiet"); continue
          if m["type"] == "start": count = 0
          if m["type"] == "audio":
              count += len(base64.b64decode(m["pcm"])) // 2
              say(type="partial", id=m["id"], text="%d so far" % count)
          if m["type"] == "finish": say(type="final", id=m["id"], text="%d samples %s" % (count, os.getpid()))
          if m["type"] == "transcribe":
              say(type="final", id=m["id"], text="%d bytes %o" % (os.path.getsize(m["wav"]), os.stat(m["wav"]).st_mode & 0o777))
      """#)
    return ["python3", folder("helper.py"), misdeed, form, folder("mark")]
  }

  @Test("a helper stays, and writes along")
  func stays() async throws {
    let helper = try transcriber(try helper())
    let availability = await helper.availability()
    #expect(availability.isReady && helper.hasPartials)
    let first = try await transcribe(helper)
    #expect(first.hasPrefix("8000 samples "))
    #expect(try await transcribe(helper) == first, "the same process answers")

    let transcription = try await helper.begin(TranscriptionRequest())
    await transcription.feed(sound)
    var partials = transcription.events.makeAsyncIterator()
    #expect(await partials.next() == .partial("8000 so far"))
    await transcription.cancel()
    await #expect(throws: SpeechError.self) { _ = try await transcription.finish() }
    #expect(try await transcribe(helper) == first)
    await helper.stop()
    let process = try #require(Int32(first.split(separator: " ").last ?? ""))
    #expect(await eventually { kill(process, 0) != 0 })
  }

  @Test("a helper may take files instead")
  func files() async throws {
    let helper = try transcriber(try helper(form: "wav"))
    #expect(try await transcribe(helper) == "16044 bytes 600")
    #expect(await eventually { self.leftFiles.isEmpty })
    await helper.stop()
  }

  @Test(
    "a helper that dies or talks nonsense in mid-utterance is replaced, and nothing that was heard is lost",
    arguments: ["die", "flood"])
  func dies(_ misdeed: String) async throws {
    let helper = try transcriber(try helper(misdeed))
    #expect(try await transcribe(helper).hasPrefix("8000 samples "))
    await helper.stop()
  }

  @Test("a helper that hangs is replaced, and nothing that was heard is lost", arguments: ["pcm", "wav"])
  func hangs(_ form: String) async throws {
    let helper = try transcriber(try helper("hang", form: form), answer: .milliseconds(200))
    #expect(try await transcribe(helper).hasPrefix(form == "pcm" ? "8000 samples " : "16044 bytes"))
    await helper.stop()
  }

  @Test("a helper that does not start says why in its own words")
  func noStart() async throws {
    let helper = try transcriber(try helper("no-start"))
    guard case .absent(let reason, _) = await helper.availability() else {
      Issue.record("it is not absent")
      return
    }
    #expect(reason == "The transcriber's helper ended with exit code 1: ModuleNotFoundError: no model here.")
    await #expect(throws: SpeechError.self) { _ = try await self.transcribe(helper) }
    await helper.stop()
  }

  @Test("a helper that is never ready is given up")
  func mute() async throws {
    let helper = try transcriber(try helper("mute"), start: .milliseconds(200))
    let error = await #expect(throws: SpeechError.self) { _ = try await self.transcribe(helper) }
    #expect(error?.code == .timeout)
    await helper.stop()
  }

  @Test("an utterance that is refused fails alone")
  func refused() async throws {
    let helper = try transcriber(try helper("refuse"))
    let error = await #expect(throws: SpeechError.self) { _ = try await self.transcribe(helper) }
    #expect(error?.summary == "The transcriber's helper says: too quiet")
    await helper.stop()
  }

  @Test("a program that is not installed is absent, with what to do")
  func notInstalled() async throws {
    for command in [["talknode-no-such-program"], ["talknode-no-such-program", "{wav}"]] {
      let transcriber = try transcriber(command)
      guard case .absent(let reason, let remedy) = await transcriber.availability() else {
        Issue.record("it is not absent")
        continue
      }
      #expect(reason.contains("talknode-no-such-program is not installed") && remedy != nil)
      await #expect(throws: SpeechError.self) { _ = try await self.transcribe(transcriber) }
    }
    #expect(throws: SpeechError.self) { try self.transcriber([]) }
  }
}
