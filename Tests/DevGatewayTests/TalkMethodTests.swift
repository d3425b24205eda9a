import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing

@Suite("Talk: transcription and a voice for those who have none (talk-and-chat §3, §4)")
struct TalkMethodTests {
  /// A recogniser that says what reached it: the digest of all its input. `script` runs before it reads.
  private static func listener(_ script: String = "") -> Subprocess.Command {
    Subprocess.Command(
      "sh",
      [
        "-c",
        """
        echo '{"type":"ready"}'; \(script)
        heard=$(md5sum | cut -c1-32)
        printf '{"type":"speechStart"}\\n{"type":"partial","text":"hm"}\\n{"type":"final","text":"%s"}\\n' "$heard"
        """,
      ])
  }

  private static func gateway(
    _ recogniser: Subprocess.Command = listener(), flushLimit: Duration = .seconds(5),
    _ body: @Sendable (DevGateway, Peer) async throws -> Void
  ) async throws {
    try await withGateway {
      $0.talk.recogniser = recogniser
      $0.talk.flushLimit = flushLimit
    } _: { gateway in
      try await body(gateway, try await gateway.owner())
    }
  }

  private let transcription: JSON = ["mode": "transcription", "transport": "gateway-relay", "brain": "none"]

  private func create(_ peer: Peer) async throws -> String {
    try #require(try await peer.request("talk.session.create", transcription)["transcriptionSessionId"]?.string)
  }
  private func append(_ bytes: [UInt8], to id: String, _ peer: Peer) async throws {
    try await peer.request(
      "talk.session.appendAudio", ["sessionId": .string(id), "audioBase64": .string(Base64.encode(bytes))])
  }
  private func close(_ id: String, _ peer: Peer) async throws {
    #expect(try await peer.request("talk.session.close", ["sessionId": .string(id)]) == ["ok": true])
  }
  /// Waits for a talk event of this session.
  private func event(_ type: String, of id: String, _ peer: Peer) async throws -> JSON {
    func find() async -> JSON? {
      await peer.events("talk.event").compactMap { $0["payload"] }.first {
        $0["transcriptionSessionId"]?.string == id && $0["type"]?.string == type
      }
    }
    _ = await eventually { await find() != nil }
    return try #require(await find(), "no \(type)")
  }

  @Test("a gateway that has nothing to talk with says so, and why")
  func nothing() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      let catalog = try await owner.request("talk.catalog", [:])
      for group in ["speech", "transcription", "realtime"] { #expect(catalog[group]?["ready"] == false) }
      let refused = try await owner.error("talk.session.create", transcription)
      #expect(refused?.code == "UNAVAILABLE")
      #expect(refused?.details?["talkIssue"]?["code"] == "realtime_unavailable")
      #expect(try await owner.error("talk.speak", ["text": "hello"])?.details?["fallbackEligible"] == true)
      #expect(try await owner.error("tts.speak", ["text": "hello"])?.code == "UNAVAILABLE")
    }
  }

  @Test(
    "what is appended reaches the recogniser byte for byte, and its words come back as events of this connection alone")
  func relay() async throws {
    try await Self.gateway { gateway, owner in
      let other = try await gateway.owner()
      let catalog = try await owner.request("talk.catalog", [:])
      #expect(catalog["transcription"]?["ready"] == true)
      let made = try await owner.request("talk.session.create", transcription)
      let id = try #require(made["sessionId"]?.string)
      #expect(made["audio"] == ["inputEncoding": "g711_ulaw", "inputSampleRateHz": 8000])
      #expect((made["expiresAt"]?.int ?? 0) < 10_000_000_000, "seconds, not milliseconds")
      _ = try await event("ready", of: id, owner)
      var random = SeededRandom()
      let sound = (0..<100_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      for start in stride(from: 0, to: sound.count, by: 480) {
        try await append(Array(sound[start..<min(sound.count, start + 480)]), to: id, owner)
      }
      #expect(try await event("inputAudio", of: id, owner)["byteLength"] == 480)
      try await close(id, owner)
      let closed = try await event("close", of: id, owner)
      #expect(closed["reason"] == "completed")
      let words = await owner.events("talk.event").compactMap { $0["payload"] }.filter {
        $0["type"] == "transcript" && $0["text"]?.string != ""
      }
      let digest = try await Subprocess.run(
        Subprocess.Command("md5sum"), input: sound, deadline: .seconds(20), loop: gateway.loop)
      #expect(
        words.map { $0["text"]?.string } == [String(decoding: digest.output.prefix(32), as: UTF8.self)],
        "seed \(random.seed)")
      let envelope = try #require(words.first?["talkEvent"])
      #expect(envelope["type"] == "transcript.done" && envelope["sessionId"]?.string == id && envelope["final"] == true)
      #expect(envelope["turnId"]?.string == (try await event("partial", of: id, owner))["talkEvent"]?["turnId"]?.string)
      #expect(await owner.events("talk.event").allSatisfy { $0["seq"] == nil })
      #expect(await other.events("talk.event").isEmpty)
      #expect(await gateway.openTranscriptions == 0)
    }
  }

  @Test("without any sound a close ends it at once")
  func unused() async throws {
    try await Self.gateway(Self.listener("sleep 60")) { gateway, owner in
      let id = try await create(owner)
      try await close(id, owner)
      #expect(try await event("close", of: id, owner)["reason"] == "completed")
      let late = try await owner.error(
        "talk.session.appendAudio", ["sessionId": .string(id), "audioBase64": "AAAA"])
      #expect(late?.message == "Unknown transcription Talk session")
    }
  }

  @Test("two sessions a connection, each its owner's own; they die with the connection")
  func limits() async throws {
    try await Self.gateway { gateway, owner in
      let first = try await create(owner)
      _ = try await create(owner)
      let third = try await owner.error("talk.session.create", transcription)
      #expect(third?.message == "Too many active transcription Talk sessions for this connection")
      let other = try await gateway.owner()
      let stolen = try await other.error("talk.session.close", ["sessionId": .string(first)])
      #expect(stolen?.message == "Unknown transcription Talk session")
      await owner.close()
      #expect(await eventually { await gateway.openTranscriptions == 0 })
    }
  }

  @Test("params that do not fit are refused, each for its own reason")
  func params() async throws {
    try await Self.gateway { _, owner in
      func refusal(_ method: String, _ params: JSON) async throws -> String? {
        let error = try await owner.error(method, params)
        return error?.code == "INVALID_REQUEST" ? error?.message : error.map { "\($0)" }
      }
      #expect(try await refusal("talk.catalog", ["x": 1])?.contains("unexpected property") == true)
      #expect(
        try await refusal("talk.session.create", ["mode": "transcription", "brain": "agent-consult"])?.contains(
          "requires transport") == true)
      #expect(try await owner.error("talk.session.create", ["mode": "realtime"])?.code == "UNAVAILABLE")
      let elsewhere = try await owner.error("talk.session.create", ["mode": "transcription", "provider": "x"])
      #expect(elsewhere?.message == #"Realtime transcription provider "x" is not configured"#)
      let id = try await create(owner)
      let long = String(repeating: "A", count: (512 << 10) + 4)
      #expect(
        try await refusal("talk.session.appendAudio", ["sessionId": .string(id), "audioBase64": .string(long)])
          == "Transcription Talk audio frame is too large")
      #expect(
        try await refusal("talk.session.appendAudio", ["sessionId": .string(id), "audioBase64": "§"])
          == "audioBase64 is not base64")
      #expect(
        try await refusal(
          "talk.session.appendAudio", ["sessionId": .string(id), "audioBase64": "AAAA", "timestamp": 1.5])?.contains(
            "must be integer") == true)
      #expect(
        try await owner.error("talk.config", ["includeSecrets": true]) == nil, "an admin may")
    }
  }

  @Test("a recogniser that dies, or can't be started, is an error and the end")
  func dead() async throws {
    try await Self.gateway(Subprocess.Command("sh", ["-c", "exit 3"])) { gateway, owner in
      let id = try await create(owner)
      #expect(try await event("error", of: id, owner)["message"]?.string?.contains("ended") == true)
      #expect(try await event("close", of: id, owner)["reason"] == "error")
      var offer = TalkOffer()
      offer.recogniser = Subprocess.Command("/nonexistent/recogniser")
      await gateway.setTalk(offer)
      let next = try await create(owner)
      #expect(try await event("close", of: next, owner)["reason"] == "error")
    }
  }

  @Test("a recogniser that never comes to an end is ended after the time for late words")
  func endless() async throws {
    try await Self.gateway(Self.listener("sleep 600 & trap '' TERM; sleep 600"), flushLimit: .milliseconds(50)) {
      gateway, owner in
      let id = try await create(owner)
      _ = try await event("ready", of: id, owner)
      try await append([1, 2, 3], to: id, owner)
      try await close(id, owner)
      #expect(try await event("close", of: id, owner)["reason"] == "completed")
    }
  }

  @Test("talk.speak and tts.speak give what the voice's program gives, and the reason when it gives nothing")
  func voice() async throws {
    try await withGateway {
      $0.talk.voice = TalkOffer.Voice(Subprocess.Command("cat"), outputFormat: "wav")
    } _: { gateway in
      let owner = try await gateway.owner()
      for method in ["talk.speak", "tts.speak"] {
        let clip = try await owner.request(method, ["text": " Good morning. "])
        #expect(clip["audioBase64"]?.string.flatMap { Base64.decode($0) } == Array("Good morning.".utf8))
        #expect(clip["provider"] == "cat" && clip["mimeType"] == "audio/wav" && clip["outputFormat"] == "wav")
        #expect(try await owner.error(method, ["text": " "])?.code == "INVALID_REQUEST")
      }
      #expect(await gateway.spokenTexts == ["Good morning.", "Good morning."])
      #expect(try await owner.error("talk.speak", ["text": "a", "rateWpm": 400])?.code == "INVALID_REQUEST")
      #expect(try await owner.error("tts.speak", ["text": "a", "voiceId": "b"])?.code == "INVALID_REQUEST")
      let long = String(repeating: "a", count: 5000)
      #expect(
        try await owner.error("tts.speak", ["text": .string(long)])?.message
          == "tts.speak text too long (5000 chars, max 4096)")
      var offer = TalkOffer()
      offer.voice = TalkOffer.Voice(Subprocess.Command("false"))
      await gateway.setTalk(offer)
      let failed = try await owner.error("talk.speak", ["text": "a"])
      #expect(failed?.details == ["reason": "synthesis_failed", "fallbackEligible": false])
    }
  }

  @Test("the talk settings a client is told: the silence that ends an utterance, and which voice")
  func config() async throws {
    try await withGateway {
      $0.talk.silenceTimeoutMs = 1234
      $0.talk.voice = .flite()
    } _: { gateway in
      let owner = try await gateway.owner()
      let config = try await owner.request("talk.config", [:])["config"]
      #expect(config?["talk"]?["silenceTimeoutMs"] == 1234 && config?["session"]?["mainKey"] == "main")
      #expect(config?["talk"]?["interruptOnSpeech"] == true)
      #expect(try await owner.request("talk.mode", ["enabled": true, "phase": "listening"])["phase"] == "listening")
      #expect(try await owner.event("talk.mode")["enabled"] == true)
    }
  }

  @Test("one message of a session can be looked up by its id")
  func message() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      let id = try #require(
        try await owner.request("chat.inject", ["sessionKey": "main", "message": "Tea is ready."])["messageId"])
      let found = try await owner.request("chat.message.get", ["sessionKey": "main", "messageId": id])
      #expect(found["message"]?["content"]?.array?.first?["text"] == "Tea is ready.")
      #expect(
        try await owner.request("chat.message.get", ["sessionKey": "main", "messageId": "x"])
          == ["ok": false, "unavailableReason": "not_found"])
    }
  }
}
