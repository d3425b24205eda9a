import Audio
import DevGateway
import Glibc
import Speech
import System
import TestSupport
import Testing

@testable import Conversation

/// What goes wrong when things come quickly one after another, or end while others wait for them.
@Suite("Talking: too early, too late, in between", .serialized) struct TalkTimingTests {
  @Test(
    "a key let go before the gateway has said whether it transcribes loses no word",
    arguments: [
      TalkOptions.TranscriberChoice.auto, .pocketsphinx,
    ])
  func beforeTheFacts(choice: TalkOptions.TranscriberChoice) async throws {
    let question = try Question(6)
    try await Booth.with(transcriber: choice) { booth in
      await booth.gateway.holdAnswers(to: "talk.config", "talk.catalog")
      // The second is not kept waiting again; both have their words.
      for _ in 0..<(choice == .auto ? 2 : 1) {
        _ = await booth.talk.start(.person)
        try await booth.say(question)
        let answer = await booth.talk.stop()
        guard case .ended(_, question.text?, .queued) = answer else {
          Issue.record("\(answer)")
          return
        }
        #expect(await booth.rests())
      }
    }
  }

  @Test("a capture that is given up before its session at the gateway is made leaves none there")
  func quickCancels() async throws {
    try await Booth.with(transcriber: .gateway) {
      $0.recogniser = try? Question.recogniser()
    } _: { booth in
      await booth.gateway.holdAnswers(to: "talk.session.create")
      for round in 1...2 {
        _ = await booth.talk.start(.person)
        #expect(await eventually { await booth.gateway.heldAnswers == round })
        _ = await booth.talk.cancel()
      }
      #expect(await booth.gateway.openTranscriptions == 2)
      await booth.gateway.releaseAnswers()
      #expect(await eventually { await booth.gateway.openTranscriptions == 0 })
    }
  }

  @Test("cancelled and begun again at once, again and again: nobody is told that the microphone is in use")
  func cancelAndStart() async throws {
    try await Booth.with { booth in
      for round in 0..<30 {
        async let first = booth.talk.start(.person)
        for _ in 0..<(round * 3) { await Task.yield() }
        _ = await booth.talk.cancel()
        let second = await booth.talk.start(.person)
        guard case .capturing = second else {
          Issue.record("round \(round): \(second)")
          return
        }
        _ = await first
        _ = await booth.talk.cancel()
      }
    }
  }

  @Test("switched off for agents, their open capture ends and a person's goes on")
  func agentsRefused() async throws {
    try await Booth.with { booth in
      guard case .capturing = await booth.talk.start(.gateway("g")) else {
        Issue.record("it did not begin")
        return
      }
      await booth.talk.agentsRefused()
      #expect(await booth.talk.phase == .idle)
      guard case .capturing = await booth.talk.start(.person) else {
        Issue.record("it did not begin again")
        return
      }
      await booth.talk.agentsRefused()
      #expect(await booth.talk.phase == .listening)
    }
  }

  @Test("a gateway that is left keeps nobody waiting for what its agent says, and a refused key is said")
  func gatewayLeft() async throws {
    try await Booth.with(agent: [.wait(.seconds(600))]) { booth in
      let notices = await booth.talk.notices()
      try await booth.ask(try Question(8))
      #expect(await eventually(within: .seconds(30)) { await booth.talk.phase == .thinking })
      await booth.talk.press(.start)
      var isTold = false
      for await case .trouble(let sentence) in notices where sentence.contains("still finishing") {
        isTold = true
        break
      }
      #expect(isTold)
      #expect(await booth.talk.phase == .thinking)
      await booth.talk.left(booth.link)
      #expect(await booth.rests())
      #expect(await booth.talk.lastReply == nil)
    }
  }

  @Test("a reply that came while the operator's socket was down is found in the history after it is up again")
  func repliedMeanwhile() async throws {
    let question = try Question(10)
    try await Booth.with(agent: [.wait(.seconds(2)), .say("It is done.")]) { booth in
      try await booth.ask(question)
      #expect(await eventually(within: .seconds(30)) { await booth.said() == [question.text] })
      // Away until the agent has spoken.
      await booth.gateway.setStarting(true)
      await booth.gateway.drop(booth.deviceID, role: .operator)
      #expect(await eventually(within: .seconds(20)) { await booth.gateway.transcript().count == 2 })
      await booth.gateway.clearFaults()
      #expect(await booth.rests())
      #expect(await booth.talk.lastReply == "It is done.")
    }
  }

  @Test("a hush while the gateway makes its voice ends the turn at once")
  func hushBeforeTheVoice() async throws {
    try await Booth.with {
      $0.voice = TalkOffer.Voice(Subprocess.Command("sleep", ["600"]))
    } _: { booth in
      try await booth.ask(try Question(2))
      #expect(await eventually(within: .seconds(30)) { await !booth.gateway.spokenTexts.isEmpty })
      await booth.talk.hush()
      #expect(await booth.rests())
      #expect(await booth.talk.lastTurn.voice == nil)
    }
  }

  @Test("what is spoken on demand is refused while the microphone is open")
  func notIntoTheMicrophone() async throws {
    try await Booth.with { booth in
      _ = await booth.talk.start(.person)
      let refused = await #expect(throws: TalkError.self) {
        _ = try await booth.talk.listen(to: "hello", link: nil)
      }
      #expect(refused?.code == "PTT_BUSY")
      let note = KeptTranscripts.Kept(id: "k", text: "hello", gatewayID: nil, sessionKey: nil, atMs: 1)
      await #expect(throws: TalkError.self) { try await booth.talk.resend(note) }
      #expect(await booth.said() == [])
    }
  }

  @Test("a kept sound that can't be read just now stays kept; one that is gone or damaged is given up")
  func unreadable() async throws {
    try await Booth.with { booth in
      let kept = booth.talk.kept
      func add(_ id: String) async throws -> KeptTranscripts.Kept {
        try await kept.add(
          sound: .silence(.seconds(1), rate: 16_000), id: id, gatewayID: nil, sessionKey: nil, atMs: 1)
      }
      let note = try await add("a")
      let path = try #require(note.sound)
      let bytes = try Files.read(path)
      // A folder in its place can't be read as a file, by nobody.
      try Files.removeTree(path)
      try Files.makeFolder(path)
      let now = await #expect(throws: TalkError.self) { try await booth.talk.resend(note) }
      #expect(now?.code == "STATE_UNUSABLE")
      #expect(await kept.all() == [note])
      try Files.removeTree(path)
      try Files.writeAtomically(Array(bytes.prefix(8)), to: path)
      let damaged = await #expect(throws: TalkError.self) { try await booth.talk.resend(note) }
      #expect(damaged?.code == "NOTHING_KEPT")
      #expect(await kept.all() == [])
      let other = try await add("b")
      try Files.removeTree(try #require(other.sound))
      await #expect(throws: TalkError.self) { try await booth.talk.resend(other) }
      #expect(await kept.all() == [])
    }
  }

  @Test("what waits for another gateway does not stand before what waits for this one")
  func notForThisGateway() async throws {
    try await Booth.with { booth in
      let here = KeptTranscripts.Kept(
        id: "1", text: "hello", gatewayID: booth.link.gateway.id, sessionKey: nil, atMs: 1)
      let there = KeptTranscripts.Kept(id: "2", text: "elsewhere", gatewayID: "other", sessionKey: nil, atMs: 2)
      try await booth.talk.kept.add(there)
      let refused = await #expect(throws: TalkError.self) { try await booth.talk.resendable() }
      #expect(refused?.remedy == "talknode gateways use other")
      try await booth.talk.kept.add(here)
      try await booth.talk.kept.remove("2")
      try await booth.talk.kept.add(there)
      #expect(try await booth.talk.resendable() == here)
    }
  }
}
