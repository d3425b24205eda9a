import Audio
import DevGateway
import Glibc
import Speech
import System
import TestSupport
import Testing

@testable import Conversation

/// Talking, from the key to the answer in the ear, through real sound.
@Suite("Talking through real sound", .serialized) struct TalkSoundTests {
  @Test(
    "a key, a question, the key again: its words reach the agent by the gateway's recogniser, and the answer is heard")
  func byTheGateway() async throws {
    let question = try Question(4)
    try await Booth.with(transcriber: .auto) {
      $0.recogniser = try? Question.recogniser()
      $0.voice = .flite()
    } _: { booth in
      let heard = try await booth.heard {
        try await booth.ask(question)
        #expect(await eventually(within: .seconds(30)) { await booth.said() == [question.text] })
        #expect(await booth.rests())
      }
      #expect(heard > .milliseconds(500))
      let turn = await booth.talk.lastTurn
      #expect(turn.transcriber == "gateway" && turn.voice == .gateway(provider: "sh"))
      #expect(await booth.talk.lastReply == "You said: \(question.text)")
      #expect(await booth.talk.kept.all() == [])
      #expect(await eventually { await booth.gateway.openTranscriptions == 0 })
    }
  }

  @Test("a gateway whose catalog offers no transcription is not asked for any: this machine understands and answers")
  func byThisMachine() async throws {
    let question = try Question(7)
    try await Booth.with(transcriber: .auto) { booth in
      let heard = try await booth.heard {
        try await booth.ask(question)
        #expect(await eventually(within: .seconds(30)) { await booth.said() == [question.text] })
        #expect(await booth.rests())
      }
      #expect(heard > .milliseconds(500))
      let turn = await booth.talk.lastTurn
      #expect(turn.transcriber == "pocketsphinx")
      guard case .local(because: _?)? = turn.voice else {
        Issue.record("\(String(describing: turn.voice))")
        return
      }
    }
  }

  @Test("a clip that is no sound does not silence the answer: this machine speaks it")
  func brokenClip() async throws {
    try await Booth.with {
      $0.voice = TalkOffer.Voice(Subprocess.Command("cat"))
    } _: { booth in
      let heard = try await booth.heard {
        try await booth.ask(try Question(2))
        #expect(await eventually(within: .seconds(30)) { await booth.talk.lastTurn.voice != nil })
        #expect(await booth.rests())
      }
      #expect(heard > .milliseconds(500))
      #expect(await booth.gateway.spokenTexts.count == 1)
    }
  }

  @Test("without the operator role the words go by the node's own connection, and the answer is spoken here")
  func reduced() async throws {
    let question = try Question(11)
    try await Booth.with(.nodeOnly) { booth in
      let heard = try await booth.heard {
        try await booth.ask(question)
        #expect(
          await eventually(within: .seconds(30)) {
            await booth.gateway.receivedEvents(named: "voice.transcript").last?.payload?["text"]?.string
              == question.text
          })
        #expect(await booth.rests())
      }
      #expect(heard > .milliseconds(500))
      #expect(await booth.talk.lastTurn.voice == .local(because: nil))
      #expect(await booth.talk.kept.all() == [])
    }
  }

  @Test("without a gateway the words are kept; nothing sends them but the person, and then they are answered")
  func offline() async throws {
    let question = try Question(1)
    try await Booth.with { booth in
      await booth.gateway.crash()
      #expect(await eventually { await !booth.link.status().node.isConnected })
      _ = await booth.talk.start(.person)
      try await booth.say(question)
      let answer = await booth.talk.stop()
      guard case .ended(_, question.text?, .offline) = answer else {
        Issue.record("\(answer)")
        return
      }
      let note = try #require(await booth.talk.kept.last())
      #expect(note.text == question.text)
      var status = stat()
      #expect(stat(booth.kept, &status) == 0 && status.st_mode & 0o777 == 0o600)
      try await booth.gateway.start()
      #expect(await eventually(within: .seconds(20)) { await booth.link.status().isComplete })
      #expect(await booth.said() == [])
      let heard = try await booth.heard {
        let outcome = try await booth.talk.resend(note)
        #expect(outcome == .reply("You said: \(question.text)"))
      }
      #expect(heard > .milliseconds(500))
      #expect(await booth.said() == [question.text])
      #expect(await booth.talk.kept.all() == [])
    }
  }

  @Test("a capture that nobody could turn into text is kept as sound, for this user alone, until somebody can")
  func notUnderstood() async throws {
    let question = try Question(3)
    try await Booth.with(transcriber: .gateway) {
      $0.recogniser = Subprocess.Command("sh", ["-c", #"echo '{"type":"ready"}'; head -c 4000 >/dev/null; exit 1"#])
    } _: { booth in
      let notices = await booth.talk.notices()
      _ = await booth.talk.start(.person)
      try await booth.say(question)
      guard case .ended(let id, nil, .empty) = await booth.talk.stop() else {
        Issue.record("it was understood")
        return
      }
      #expect(await booth.talk.lastLoss?.id == id)
      var isTold = false
      for await case .trouble(let sentence) in notices where sentence.contains("talknode ptt resend") {
        isTold = true
        break
      }
      #expect(isTold)
      let note = try #require(await booth.talk.kept.last())
      let path = try #require(note.sound)
      var status = stat()
      #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
      await #expect(throws: TalkError.self) { try await booth.talk.resend(note) }
      #expect(Files.exists(path))
      await booth.talk.transcribers.choose(.pocketsphinx)
      #expect(try await booth.talk.resend(note) == .reply("You said: \(question.text)"))
      #expect(await booth.talk.kept.all() == [])
      #expect(!Files.exists(path))
    }
  }

  @Test("a once ends by itself when the person has, after the silence that the gateway names")
  func once() async throws {
    let question = try Question(9)
    try await Booth.with {
      $0.silenceTimeoutMs = 600
    } _: { booth in
      #expect(await booth.talk.transcribers.silenceMs(link: booth.link) == 600)
      async let answer = booth.talk.once(.person)
      #expect(await eventually { await booth.talk.phase == .listening })
      try await booth.say(question)
      let end = await answer
      guard case .ended(_, question.text?, .queued) = end else {
        Issue.record("\(end)")
        return
      }
      #expect(await booth.rests())
    }
  }

  @Test("a key while the answer is spoken silences it and listens")
  func interrupted() async throws {
    let long = Array(repeating: "This goes on and on, and then it goes on.", count: 40).joined(separator: " ")
    try await Booth.with(saying: long) { booth in
      let heard = try await booth.heard {
        try await booth.ask(try Question(5))
        #expect(await eventually(within: .seconds(30)) { await booth.talk.phase == .speaking })
        await booth.talk.press(.start)
        #expect(await eventually { await booth.talk.phase == .listening })
        _ = await booth.talk.cancel()
      }
      #expect(heard < .seconds(20))
      #expect(await booth.talk.phase == .idle)
    }
  }

  @Test("no microphone at all is said, with the code of the wire")
  func noMicrophone() async throws {
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let folder = TemporaryFolder()
    let talk = Talk(
      options: TalkOptions(), sound: SoundSystem(AudioSettings(backend: .pulse, server: "unix:\(folder("none"))")),
      synthesizer: Synthesizer(),
      transcribers: TranscriberSet(choice: .auto, command: nil, pocketsphinx: PocketsphinxTranscriber()),
      keptPath: folder("kept.json"), loop: loop, gateway: { nil }, openedByAgent: { _ in })
    guard case .failed(.unavailable(code: "UNAVAILABLE", let summary, _)) = await talk.start(.person) else {
      Issue.record("it began")
      return
    }
    #expect(!summary.isEmpty)
    #expect(await talk.phase == .idle)
    await talk.close()
  }
}

/// What is kept when there is nobody to give it to.
@Suite("What is kept") struct KeptTests {
  @Test("of sounds the newest few; their files go with them, and with their gateway")
  func bounds() async throws {
    let folder = TemporaryFolder()
    let kept = KeptTranscripts(path: folder("kept.json"))
    for index in 0..<(KeptTranscripts.soundLimit + 2) {
      try await kept.add(
        sound: .silence(.seconds(1), rate: 16_000), id: "\(index)", gatewayID: index == 2 ? "a" : "b", sessionKey: nil,
        atMs: Int64(index))
    }
    func files() -> [String] { Files.list(folder.path).filter { $0.hasSuffix(".wav") } }
    #expect(await kept.all().map(\.id) == ["2", "3", "4"])
    #expect(files() == ["unheard-2.wav", "unheard-3.wav", "unheard-4.wav"])
    // Read anew, as after a restart.
    let again = KeptTranscripts(path: folder("kept.json"))
    let known = await kept.all()
    #expect(await again.all() == known)
    try await again.forget(gateway: "a")
    #expect(files() == ["unheard-3.wav", "unheard-4.wav"])
    // Understood after all.
    try await again.add(.init(id: "3", text: "hello", gatewayID: "b", sessionKey: nil, atMs: 3))
    try await again.remove("4")
    #expect(files() == [])
    #expect(await again.all().map(\.text) == ["hello"])
  }
}
