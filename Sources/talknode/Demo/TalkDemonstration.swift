import Audio
import Configuration
import Conversation
import DevGateway
import GatewayProtocol
import NodeKit
import Speech
import System

/// Push-to-talk through real sound: a sound server of the demo's own, a bundled question spoken into its microphone, the agent's answer
/// recorded at its speaker and understood again. The question is understood twice: by the gateway's recogniser, a process that gets
/// the relayed sound and nothing else, and by this machine's; and it is answered in the gateway's voice and in this machine's. With --live
/// a person speaks into the real microphone.
struct TalkDemonstration: Demonstration {
  let capability: Capability = "talk"
  private let scene = Lock<TalkScene?>(nil)

  func prepare(_ stage: Stage) async throws(Skip) {
    if stage.isLive { return }
    guard let folder = Samples.folder("speech"), let text = Files.text(folder + "/sentences.txt") else {
      throw Skip(reason: "The spoken samples are not beside the program.", remedy: "make demo, in the source folder")
    }
    let sentences = text.split(separator: "\n").map(\.trimmed).filter { !$0.isEmpty && !$0.hasPrefix("#") }
    let server: PrivateSoundServer
    let room: RoomTone
    do throws(AudioError) {
      server = try PrivateSoundServer(folder: stage.folder + "/sound")
      try await server.start()
      room = try await RoomTone(at: server.address)
    } catch {
      throw Skip(reason: error.summary, remedy: error.remedy ?? "sudo apt-get install pulseaudio")
    }
    await stage.atEnd {
      await room.end()
      await server.stop()
    }
    let scene: TalkScene
    let recogniser: Subprocess.Command
    do {
      scene = try TalkScene(address: server.address, folder: folder, sentences: sentences, out: stage.out)
      recogniser = try DevRecognizerCommand.command(sentences: folder + "/sentences.txt")
    } catch {
      throw Skip(reason: "The recogniser can't be used: \(error)", remedy: nil)
    }
    self.scene.withLock { $0 = scene }
    await stage.atEnd { await scene.close() }
    await stage.configureGateway { options in
      options.talk.recogniser = recogniser
      options.talk.voice = .flite()
    }
    await stage.configure { settings in
      settings.audio.server = server.address
      settings.audio.backend = .pulse
      settings.talk.phrases = sentences
      settings.talk.transcriber = .gateway
      // What is recorded at the speaker shall be the answer and nothing else.
      settings.talk.cues = false
    }
  }

  func steps(_ stage: Stage) -> [DemoStep] {
    guard let scene = scene.withLock({ $0 }) else { return liveSteps }
    return [
      DemoStep("talk.ptt.start", source: .sample) { payload async throws(DemoStep.Flaw) in
        guard payload["captureId"]?.string != nil else {
          throw DemoStep.Flaw(sentence: "The answer names no capture.")
        }
        return "listening; \(await scene.ask()) is spoken"
      },
      DemoStep("talk.ptt.stop", source: .sample) { payload async throws(DemoStep.Flaw) in
        let heard = try await scene.check(payload, file: "talk.ptt.stop.wav")
        return try await heard + whoDid(stage, transcriber: "gateway")
      },
      DemoStep("talk.ptt.cancel", source: .sample) { payload throws(DemoStep.Flaw) in
        guard payload["status"]?.string == "idle" else {
          throw DemoStep.Flaw(sentence: "A capture was still open: \(DemoStep.short(payload)).")
        }
        return "nothing was open"
      },
      DemoStep("talk.ptt.once", source: .sample) { payload async throws(DemoStep.Flaw) in
        let heard = try await scene.check(payload, file: "talk.ptt.once.wav")
        return try await heard + whoDid(stage, transcriber: "pocketsphinx")
      } before: {
        // The gateway has nothing to talk with any more: this machine does all of it.
        await stage.gateway?.setTalk(TalkOffer())
        await stage.node?.services.talk.transcribers.choose(.pocketsphinx)
      } meanwhile: {
        try? await Task.sleep(for: .milliseconds(700))
        _ = await scene.ask()
      },
    ]
  }

  /// Whose recogniser and whose voice it was; a flaw when the words came from another transcriber.
  private func whoDid(_ stage: Stage, transcriber: String) async throws(DemoStep.Flaw) -> String {
    guard let turn = await stage.node?.services.talk.lastTurn, turn.transcriber == transcriber else {
      throw DemoStep.Flaw(sentence: "It was not the transcriber “\(transcriber)” that understood it.")
    }
    let voice =
      switch turn.voice {
      case .gateway(let provider): "the gateway's voice, \(provider)"
      case .local(let reason): "this machine's voice" + (reason.map { " (\($0))" } ?? "")
      case nil: "an unknown voice"
      }
    return "; understood by \(transcriber), answered in \(voice)"
  }

  /// A person speaks; what comes back is shown, not judged.
  private var liveSteps: [DemoStep] {
    [
      DemoStep("talk.ptt.start", source: .live) { _ async throws(DemoStep.Flaw) in
        do { try await Task.sleep(for: .seconds(4)) } catch { throw DemoStep.Flaw(sentence: "Interrupted.") }
        return "four seconds were heard"
      },
      DemoStep("talk.ptt.stop", source: .live), DemoStep("talk.ptt.cancel", source: .live),
      DemoStep("talk.ptt.once", source: .live),
    ]
  }
}
