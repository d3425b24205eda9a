import Audio
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing

/// What a person sees and hears of a capture: the running program on a private sound server.
@Suite(.serialized) struct LiveTests {
  /// Records what the speaker plays.
  private final class Ear: Sendable {
    private let heard = Lock<[Float]>([])
    private let sound: SoundSystem
    private let lease: MicrophoneLease
    private let task: Task<Void, Never>
    private static let rate = 16_000

    init(_ server: PrivateSoundServer) async throws {
      sound = SoundSystem(AudioSettings(backend: .pulse, input: "speaker.monitor", server: server.address))
      lease = try await sound.microphone.lease(for: "a test")
      let capture = try await lease.capture(.init(rate: Self.rate))
      task = Task { [heard] in
        do throws(AudioError) {
          for try await case .chunk(let chunk) in capture { heard.withLock { $0 += chunk.samples } }
        } catch {}
      }
    }

    func end() async {
      await lease.release()
      await task.value
      await sound.close()
    }

    /// The tones heard until now, each once, of those that cues are made of.
    var tones: [Int] {
      let samples = heard.withLock { $0 }
      let frame = Self.rate / 50
      var tones: [Int] = []
      for start in stride(from: 0, to: samples.count - frame, by: frame) {
        let part = Array(samples[start..<(start + frame)])
        guard Level(part).rms > 0.05 else { continue }
        let strengths = [220, 587, 660, 880].map { ($0, Self.strength(of: Double($0), in: part)) }
        let tone = strengths.max { $0.1 < $1.1 }!.0
        if tones.last != tone { tones.append(tone) }
      }
      return tones
    }

    private static func strength(of hertz: Double, in samples: [Float]) -> Double {
      var (real, imaginary) = (0.0, 0.0)
      for (index, sample) in samples.enumerated() {
        let angle = 2 * Double.pi * hertz * Double(index) / Double(rate)
        real += Double(sample) * cos(angle)
        imaginary += Double(sample) * sin(angle)
      }
      return real * real + imaginary * imaginary
    }
  }

  private func with(
    input: String = "microphone", _ body: @escaping (Bed, PrivateSoundServer) async throws -> Void
  ) async throws {
    try await Bed.with { bed in
      let server = try PrivateSoundServer(folder: bed.folder("sound"))
      try await server.start()
      // A recogniser for which all sound is the same sentence: what is looked at here is what goes on around it.
      try bed.folder.write(
        "home/.config/talknode/config.toml",
        """
        [audio]
        backend = "pulse"
        server = "\(server.address)"
        input = "\(input)"
        [talk]
        transcriber = "command"
        command = ["/bin/sh", "-c", "test -s \\"$0\\" && echo hello there", "{wav}"]
        speak_answers = false
        """)
      try await bed.withDaemon { _ in
        try #require(try await bed.becomesReady())
        try await body(bed, server)
      }
      await server.stop()
    }
  }

  /// The lines of a program, collected while it runs.
  private final class Lines: Sendable {
    private let lines = Lock<[String]>([])
    private let task: Task<Void, Never>

    init(_ process: Subprocess) {
      task = Task { [lines] in
        while let line = try? await process.readLine() {
          lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
        }
      }
    }
    var all: [String] { lines.withLock { $0 } }
    func whole() async -> [String] {
      await task.value
      return all
    }
  }

  private func said(_ bed: Bed) async -> String {
    await bed.gateway.transcript().map { String(decoding: $0.encoded(), as: UTF8.self) }.joined()
  }

  @Test("in a terminal the level is shown, and Enter sends; start and end are heard; a bar gets a line a change")
  func terminal() async throws {
    try await with { bed, server in
      let ear = try await Ear(server)
      let follower = try await bed.start(["status", "--follow", "--json"])
      let lines = Lines(follower)
      #expect(await eventually(within: .seconds(60)) { !lines.all.isEmpty })
      let voice = SoundSystem(AudioSettings(backend: .pulse, output: "mic_in", server: server.address))
      let speaker = try await voice.speaker.lease(for: "a test")
      let speaking = Task { _ = try? await speaker.play(PCM.tone(300, seconds: 120, rate: 16_000)) }
      // `script` gives it a terminal.
      let command = "\(Program.path) ptt start --live --state \(bed.state())"
      let live = try await Subprocess.start(
        .init(
          "script", ["-qec", command, "/dev/null"], environment: Program.environment(bed.folder, ["TERM": "xterm"])),
        loop: bed.loop)
      let shown = try await withDeadline(.seconds(60)) {
        var shown = ""
        while !shown.contains("####"), let bytes = await live.read() { shown += String(decoding: bytes, as: UTF8.self) }
        return shown
      }
      #expect(shown.contains("####"), "\(shown)")
      let ending = try await Bed.ending(of: live, input: "\n")
      #expect(ending.exit == .code(0) && ending.output.contains("hello there"), "\(ending)")
      #expect(await eventually(within: .seconds(60)) { await said(bed).contains("hello there") })
      await speaker.release()
      await speaking.value
      await voice.close()
      #expect(await eventually(within: .seconds(60)) { ear.tones == [660, 880, 587] }, "\(ear.tones)")
      await ear.end()

      #expect(
        await eventually(within: .seconds(60)) {
          let last = try? JSON(parsing: Array((lines.all.last ?? "").utf8))
          return last?["talk"] == "idle"
        })
      await follower.end()
      let all = await lines.whole()
      let phases = try all.map { try JSON(parsing: Array($0.utf8))["talk"]?.string ?? "" }
      var changes: [String] = []
      for phase in phases where changes.last != phase { changes.append(phase) }
      #expect(changes.starts(with: ["idle", "preparing", "listening", "recognising", "thinking"]), "\(changes)")
      #expect(changes.last == "idle")
      // Each line says something that the one before did not.
      for (one, next) in zip(all, all.dropFirst()) { #expect(one != next) }
      let last = try JSON(parsing: Array((all.last ?? "").utf8))
      #expect(last["class"] == "ready" && last["text"] == last["summary"])
    }
  }

  @Test("as lines for a program: each notice an object, and Ctrl-C forgets what was said")
  func lines() async throws {
    try await with { bed, _ in
      let live = try await bed.start(["ptt", "start", "--live", "--json"])
      let lines = Lines(live)
      #expect(await eventually(within: .seconds(60)) { lines.all.contains { $0.contains("\"listening\"") } })
      await live.signal(SIGINT)
      let all = try await lines.whole().map { try JSON(parsing: Array($0.utf8)) }
      #expect(all.contains { $0["phase"] == "listening" })
      #expect(all.last?["status"] == "cancelled")
      #expect(await live.waitForExit() == .code(65))
      #expect(await !said(bed).contains("hello"))
      #expect(try await bed.run(["ptt", "last"]).output.contains("nothing waits"))
    }
  }

  @Test("a capture that another hand ends is shown to its end")
  func otherHand() async throws {
    try await with { bed, _ in
      let live = try await bed.start(["ptt", "start", "--live", "--json"])
      let lines = Lines(live)
      #expect(await eventually(within: .seconds(60)) { lines.all.contains { $0.contains("\"listening\"") } })
      #expect(try await bed.run(["ptt", "stop"]).output == "hello there\n")
      #expect(await live.waitForExit() == .code(0))
      #expect(await lines.whole().last?.contains("\"ended\"") == true)
    }
  }

  @Test("a microphone that is not there: said with what there is, heard as trouble, shown as a line")
  func trouble() async throws {
    try await with(input: "headset") { bed, server in
      let ear = try await Ear(server)
      let live = try await bed.run(["ptt", "start", "--live"])
      #expect(live.exit == .code(69))
      #expect(live.errors.contains("There is no microphone headset.") && live.errors.contains("microphone"))
      #expect(await eventually(within: .seconds(60)) { ear.tones == [220] }, "\(ear.tones)")
      await ear.end()
      #expect(try await bed.status()["talk"] == "idle")
    }
  }
}
