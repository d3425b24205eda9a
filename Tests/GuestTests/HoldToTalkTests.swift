import Audio
import DevGateway
import GatewayProtocol
import Glibc
import Speech
import System
import TestSupport
import Testing
import Triggers

extension FirstLane {
  /// The whole walk with a key and a sound card of the kernel's: the program as it is, between them and a gateway.
  @Suite("Hold to talk")
  struct HoldToTalkTests {
    let folder = TemporaryFolder()
    let loop = EventLoop(name: "hold to talk")

    /// What is played into one half of the loopback card is heard at the other.
    private static let mouth = "plughw:CARD=Loopback,DEV=0"
    private static let ear = "hw:CARD=Loopback,DEV=1"
    private static let samples =
      String(#filePath).split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/samples/speech"

    /// The program lies beside the test bundle.
    private static let program: String = {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = buffer.withUnsafeMutableBytes {
        readlink("/proc/self/exe", $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
      }
      let bundle = String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
      return bundle[...(bundle.lastIndex(of: "/") ?? bundle.startIndex)] + "talknode"
    }()

    private func command(_ words: String...) -> Subprocess.Command {
      .init(
        Self.program, words + ["--state", folder("state")],
        environment: ["HOME": folder("home"), "PATH": "/usr/bin:/bin", "TMPDIR": folder.path])
    }

    /// What `talknode status --follow` said last. One process: starting one takes seconds in the guest.
    private func follow() async throws -> (Subprocess, Lock<JSON>) {
      let follower = try await Subprocess.start(command("status", "--follow", "--json"), loop: loop)
      let last = Lock(JSON.null)
      Task {
        var line: [UInt8] = []
        while let bytes = await follower.read(1 << 16) {
          for byte in bytes {
            if byte != 0x0A {
              line.append(byte)
            } else if let status = try? JSON(parsing: line) {
              last.withLock { $0 = status }
              line = []
            }
          }
        }
      }
      return (follower, last)
    }

    /// What a quiet room sounds like; nothing at all would be taken for a muted microphone.
    private static let roomTone: PCM = {
      var random = SeededRandom(seed: 1)
      return PCM((0..<16_000).map { _ in Float(random.below(2001) - 1000) * 1e-6 }, rate: 16_000)
    }()

    @Test("a key is held, a sentence spoken, the key let go: the gateway has the sentence")
    func holdToTalk() async throws {
      var random = SeededRandom()
      let sentences = try #require(Files.text(Self.samples + "/sentences.txt"))
        .split(separator: "\n").map(String.init)
      let index = random.below(sentences.count)
      let number = index < 9 ? "0\(index + 1)" : "\(index + 1)"
      let file = try #require(Files.list(Self.samples).first { $0.hasPrefix(number + "-") })
      print("seed \(random.seed): \(file), “\(sentences[index])”")
      let speech = try await AudioFile.decode(Files.read(Self.samples + "/" + file))

      try folder.write(
        "home/.config/talknode/config.toml",
        """
        [talk]
        transcriber = "pocketsphinx"
        phrases = [\(sentences.map { "\"\($0)\"" }.joined(separator: ", "))]
        speak_answers = false
        cues = false
        [talk.key]
        key = "F13"
        device = "Talk pedal"
        [audio]
        backend = "alsa"
        input = "\(Self.ear)"
        """)
      let pedal = try VirtualKeyboard("Talk pedal", key: KeyCode("F13").rawValue)
      var options = DevGateway.Options()
      options.autoApprove = true
      let gateway = DevGateway(options: options, loop: loop)
      try await gateway.start()
      try folder.write("token", gateway.token + "\n")
      let daemon = try await Subprocess.start(
        command("run", "--gateway", await gateway.url, "--token-file", folder("token")), loop: loop)
      let voice = SoundSystem(AudioSettings(backend: .alsa, output: Self.mouth, preRoll: .zero))
      do {
        try await walk(pedal, speech, voice, gateway, sentences[index])
      } catch {
        print("the program said: \(await daemon.errorOutput)")
        await end(daemon, voice, gateway)
        throw error
      }
      await end(daemon, voice, gateway)
    }

    private func walk(
      _ pedal: VirtualKeyboard, _ speech: PCM, _ voice: SoundSystem, _ gateway: DevGateway, _ sentence: String
    ) async throws {
      let patience: Duration = .seconds(45)
      let isUp = await eventually(within: patience) { await gateway.sessions().count == 2 }
      try #require(isUp, "the program did not connect both sockets")
      // A press before the keyboard is watched is nobody's.
      let (follower, last) = try await follow()
      let isWatched = await eventually(within: patience) {
        last.withLock { $0 }["triggers"]?.array?.first?["ready"]?.bool == true
      }
      try #require(isWatched, "the key is not watched: \(last.withLock { $0 })")
      let lease = try await voice.speaker.lease(for: "the test")
      let room = Task { while !Task.isCancelled { _ = try await lease.play(Self.roomTone) } }
      try await Task.sleep(for: .milliseconds(500))
      try pedal.press()
      let isListening = await eventually(within: patience) { last.withLock { $0 }["talk"]?.string == "listening" }
      try #require(isListening, "it does not listen: \(last.withLock { $0 })")
      room.cancel()
      _ = await room.result
      _ = try await lease.play(speech)
      // The last word is on its way through the card's buffers.
      try await Task.sleep(for: .milliseconds(500))
      try pedal.release()
      await lease.release()
      let wanted = SpeechGrammar.normalized(sentence)
      var heard: [String] = []
      let isThere = await eventually(within: patience) {
        heard = await gateway.transcript().filter { $0["role"] == "user" }.map { Self.words(of: $0) }
        return !heard.isEmpty
      }
      let told = last.withLock { $0 }
      await follower.end()
      try #require(isThere, "nothing came: \(told)")
      #expect(heard == [wanted])
    }

    /// A message's text, which is a string or a list of parts.
    private static func words(of message: JSON) -> String {
      let content = message["content"]
      let text = content?.string ?? (content?.array ?? []).compactMap { $0["text"]?.string }.joined()
      return SpeechGrammar.normalized(text)
    }

    private func end(_ daemon: Subprocess, _ voice: SoundSystem, _ gateway: DevGateway) async {
      await daemon.end(grace: .seconds(10))
      await voice.close()
      await gateway.stop()
      loop.stop()
    }
  }
}
