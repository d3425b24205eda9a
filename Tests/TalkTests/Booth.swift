import Audio
import DevGateway
import GatewayClient
import Glibc
import LinkTestSupport
import Speech
import System
import TestSupport
import Testing

@testable import Conversation

/// A person at a microphone: a sound server of the test's own, a gateway, and the conversation between them. What is said is played into the
/// microphone, what is answered is recorded at the speaker.
struct Booth: Sendable {
  let gateway: DevGateway
  let link: GatewayLink
  /// This node, as the gateway knows it.
  let deviceID: String
  let talk: Talk
  let kept: String
  private let address: String

  /// Who is let in.
  enum Admission { case all, nodeOnly }

  static func with(
    _ admission: Admission = .all, transcriber: TalkOptions.TranscriberChoice = .pocketsphinx,
    saying reply: String? = nil, agent steps: [AgentStep]? = nil, offer: (inout TalkOffer) -> Void = { _ in },
    _ body: (Booth) async throws -> Void
  ) async throws {
    let folder = TemporaryFolder()
    let server = try PrivateSoundServer(folder: folder("sound"))
    try await server.start()
    let room = try await RoomTone(at: server.address)
    do {
      try await withHouse {
        offer(&$0.talk)
        if let reply { $0.agent = { _ in [.say(reply)] } }
        if let steps { $0.agent = { _ in steps } }
        $0.autoApprove = false
      } _: { gateway, desk in
        let link = try await desk.connect(try await gateway.offer())
        try await admit(admission, link, to: gateway)
        let talk = try makeTalk(transcriber, folder("kept.json"), server.address, link, loop: gateway.loop)
        let booth = Booth(
          gateway: gateway, link: link, deviceID: desk.id, talk: talk, kept: folder("kept.json"),
          address: server.address)
        do { try await body(booth) } catch {
          await talk.close()
          throw error
        }
        await talk.close()
      }
    } catch {
      await room.end()
      await server.stop()
      throw error
    }
    await room.end()
    await server.stop()
  }

  private static func admit(_ admission: Admission, _ link: GatewayLink, to gateway: DevGateway) async throws {
    switch admission {
    case .all: try #require(await gateway.approveAll(link))
    case .nodeOnly:
      let isIn = await eventually(within: .seconds(20)) {
        for device in await gateway.pendingDevices() where device.role == "node" {
          try? await gateway.approveDevice(device.requestID)
        }
        return await link.status().node.isConnected
      }
      try #require(isIn)
    }
  }

  private static func makeTalk(
    _ transcriber: TalkOptions.TranscriberChoice, _ kept: String, _ address: String, _ link: GatewayLink,
    loop: EventLoop
  ) throws -> Talk {
    var options = TalkOptions()
    options.transcriber = transcriber
    options.hasCues = false
    let pocketsphinx = PocketsphinxTranscriber(
      options: .init(grammar: try SpeechGrammar(sentences: Question.sentences())))
    return Talk(
      options: options, sound: SoundSystem(AudioSettings(backend: .pulse, server: address)),
      synthesizer: Synthesizer(),
      transcribers: TranscriberSet(choice: transcriber, command: nil, pocketsphinx: pocketsphinx), keptPath: kept,
      loop: loop, gateway: { link }, openedByAgent: { _ in })
  }

  // MARK: The person

  /// Says a question into the microphone.
  func say(_ question: Question) async throws {
    let mouth = SoundSystem(AudioSettings(backend: .pulse, output: "mic_in", server: address, preRoll: .zero))
    let lease = try await mouth.speaker.lease(for: "a question")
    try await lease.play(try question.sound())
    await lease.release()
    await mouth.close()
    // The recogniser wants a breath of silence after it.
    try await Task.sleep(for: .milliseconds(300))
  }

  /// Presses the key, says the question and lets the key go.
  func ask(_ question: Question) async throws {
    await talk.press(.start)
    try #require(await eventually { await talk.phase == .listening })
    try await say(question)
    await talk.press(.stop)
  }

  /// Waits until nothing goes on any more.
  func rests() async -> Bool { await eventually(within: .seconds(30)) { await talk.phase == .idle } }

  /// How long something was heard at the speaker while `body` went on.
  func heard(during body: () async throws -> Void) async throws -> Duration {
    let ear = SoundSystem(AudioSettings(backend: .pulse, input: "speaker.monitor", server: address))
    let lease = try await ear.microphone.lease(for: "the ear")
    let capture = try await lease.capture(Capture.Options(rate: 16_000, bound: .seconds(120)))
    let listening = Task {
      var loud = Duration.zero
      for try await case .chunk(let chunk) in capture where chunk.level.peak > 0.02 { loud += .milliseconds(20) }
      return loud
    }
    try await body()
    // What was played last is still on its way.
    try await Task.sleep(for: .milliseconds(300))
    await capture.stop()
    let loud = try await listening.value
    await lease.release()
    await ear.close()
    return loud
  }

  /// What a person has said, as the gateway has it.
  func said() async -> [String] {
    await gateway.transcript().filter { $0["role"] == "user" }.compactMap {
      $0["content"]?.array?.first?["text"]?.string
    }
  }
}

/// One of the questions that the project brings along.
struct Question: Sendable {
  let index: Int
  let text: String

  init(_ index: Int) throws {
    self.index = index
    text = try Self.sentences()[index]
  }

  static let folder =
    #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(
      separator: "/") + "/samples/speech"

  static func sentences() throws -> [String] {
    String(decoding: try Files.read(folder + "/sentences.txt"), as: UTF8.self).split(separator: "\n").map(String.init)
  }

  func sound() throws -> PCM {
    let files = Files.list(Self.folder).filter { $0.hasSuffix(".wav") }
    return try AudioFile.decodeNow(try Files.read(Self.folder + "/" + files[index]))
  }

  /// The development gateway's recogniser for these questions: the built program, beside the test bundle.
  static func recogniser() throws -> Subprocess.Command {
    let bundle = try #require(realpath("/proc/self/exe", nil))
    defer { free(bundle) }
    let path = String(cString: bundle)
    let program = path[...(path.lastIndex(of: "/") ?? path.startIndex)] + "talknode"
    return Subprocess.Command(String(program), ["dev-recognizer", "--sentences", folder + "/sentences.txt"])
  }
}
