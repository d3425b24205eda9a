import Audio
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing

/// `talknode audio …` on a private sound server.
@Suite(.serialized) struct AudioCommandTests {
  /// A sound server, and settings that name it.
  private final class Room: Sendable {
    let folder = TemporaryFolder()
    let loop = EventLoop(name: "test")
    let server: PrivateSoundServer

    init() async throws {
      server = try PrivateSoundServer(folder: folder("sound"))
      try await server.start()
      try folder.write("config.toml", "[audio]\nbackend = \"pulse\"\nserver = \"\(server.address)\"\n")
    }
    deinit { loop.stop() }

    func start(_ words: [String], settings: String = "config.toml") async throws -> Subprocess {
      try await Subprocess.start(
        .init(
          Program.path, ["audio"] + words + ["--config", folder(settings)],
          environment: Program.environment(folder, [:])), loop: loop)
    }
    func run(_ words: String..., settings: String = "config.toml") async throws -> Bed.Ending {
      try await Bed.ending(of: try await start(words, settings: settings))
    }

    /// Plays a tone into the microphone until `body` has ended.
    func withTone<Value>(_ body: () async throws -> Value) async throws -> Value {
      let sound = SoundSystem(AudioSettings(backend: .pulse, output: "mic_in", server: server.address))
      let lease = try await sound.speaker.lease(for: "a test")
      let tone = Task { _ = try? await lease.play(PCM.tone(440, seconds: 120, rate: 16_000, amplitude: 0.5)) }
      // Until it has come through the server.
      try await Task.sleep(for: .seconds(2))
      let result: Result<Value, any Error>
      do { result = .success(try await body()) } catch { result = .failure(error) }
      await lease.release()
      await tone.value
      await sound.close()
      return try result.get()
    }
  }

  @Test("list: the way, its devices, the chosen ones marked; and as JSON")
  func list() async throws {
    let room = try await Room()
    let shown = try await room.run("list")
    #expect(shown.exit == .code(0) && shown.errors == "")
    #expect(shown.output.contains("chosen by the settings"))
    #expect(shown.output.contains("->  microphone") && shown.output.contains("->  speaker"))
    #expect(shown.output.contains("48000 Hz, 2 channels"))
    let json = try await room.run("list", "--json").json
    #expect(json["backend"] == "pulse")
    let chosen = json["devices"]?.array?.filter { $0["chosen"] == true } ?? []
    #expect(chosen.compactMap { $0["name"]?.string } == ["microphone", "speaker"])
    #expect(chosen.first?["format"]?["rate"] == 16_000)
    try room.folder.write(
      "wrong.toml", "[audio]\nbackend = \"pulse\"\nserver = \"\(room.server.address)\"\ninput = \"headset\"\n")
    #expect(try await room.run("list", settings: "wrong.toml").errors.contains("\"headset\""))
  }

  @Test("test: what was heard is measured and played back; a silent microphone is said, and is a failure")
  func test() async throws {
    let room = try await Room()
    let json = try await room.withTone { try await room.run("test", "--seconds", "1", "--json").json }
    #expect(json["seconds"]?.double == 1)
    #expect(json["microphone"]?["name"] == "microphone" && json["speaker"]?["name"] == "speaker")
    // Half of full scale is 6 dB below it.
    #expect(abs((json["peak"]?.double ?? 0) + 6) < 1.5)
    #expect((json["noiseFloor"]?.double ?? 0) > -15)
    #expect(json["clipped"] == 0)
    #expect(json["playback"]?["heardMs"] == 1000)
    #expect(json["opened"]?.string?.contains("16000 Hz, 1 channel") == true)
    let silent = try await room.run("test", "--seconds", "3", "--silent")
    #expect(silent.exit == .code(69))
    #expect(silent.output.contains("-120 dB"))
    #expect(silent.errors.contains("nothing but zeros"))
    #expect(!silent.output.contains("played"))
  }

  @Test("meter: a line each tenth of a second, to its end or to Ctrl-C, and then nothing records")
  func meter() async throws {
    let room = try await Room()
    let lines = try await room.withTone {
      try await room.run("meter", "--seconds", "1", "--json").output.split(separator: "\n")
    }
    #expect(lines.count == 10)
    let last = try JSON(parsing: Array((lines.last ?? "").utf8))
    #expect(abs((last["peak"]?.double ?? 0) + 6) < 1.5 && (last["level"]?.double ?? 0) < (last["peak"]?.double ?? 0))
    let meter = try await room.start(["meter"])
    let line = try await meter.readLine()
    #expect(line.map { String(decoding: $0, as: UTF8.self) }?.contains("dB, peak") == true)
    await meter.signal(SIGINT)
    #expect(try await Bed.ending(of: meter).exit == .code(0))
  }

  @Test("without a sound server each says so in one sentence, with what to do")
  func nothing() async throws {
    let room = try await Room()
    try room.folder.write("gone.toml", "[audio]\nbackend = \"pulse\"\nserver = \"unix:/nonexistent/native\"\n")
    for words in [["list"], ["meter"], ["test"]] {
      let ending = try await Bed.ending(of: try await room.start(words, settings: "gone.toml"))
      #expect(ending.exit == .code(69), "\(words)")
      #expect(ending.errors.contains("No sound server answers") && ending.errors.contains("try:"))
    }
    #expect(try await room.run("test", "--seconds", "0").exit == .code(64))
  }
}
