import Audio
import Configuration
import Conversation
import GatewayProtocol
import NodeKit
import Speech
import System

/// Push-to-talk through real sound: a sound server of the demo's own, a bundled question spoken into its microphone, the agent's answer
/// recorded at its speaker and understood again. With --live a person speaks into the real microphone.
struct TalkDemonstration: Demonstration {
  let capability: Capability = "talk"
  private let scene = Lock<Scene?>(nil)

  func prepare(_ stage: Stage) async throws(Skip) {
    if stage.isLive { return }
    guard let folder = Samples.folder("speech"), let text = Files.text(folder + "/sentences.txt") else {
      throw Skip(reason: "The spoken samples are not beside the program.", remedy: "make demo, in the source folder")
    }
    let sentences = text.split(separator: "\n").map(\.trimmed).filter { !$0.isEmpty && !$0.hasPrefix("#") }
    let server: PrivateSoundServer
    do throws(AudioError) {
      server = try PrivateSoundServer(folder: stage.folder + "/sound")
      try await server.start()
    } catch {
      throw Skip(reason: error.summary, remedy: error.remedy ?? "sudo apt-get install pulseaudio")
    }
    let scene = Scene(address: server.address, folder: folder, sentences: sentences, out: stage.out)
    self.scene.withLock { $0 = scene }
    await stage.atEnd {
      await scene.close()
      await server.stop()
    }
    await stage.configure { settings in
      settings.audio.server = server.address
      settings.audio.backend = .pulse
      settings.talk.phrases = sentences
      settings.talk.transcriber = .pocketsphinx
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
        try await scene.check(payload, file: "talk.ptt.stop.wav")
      },
      DemoStep("talk.ptt.cancel", source: .sample) { payload throws(DemoStep.Flaw) in
        guard payload["status"]?.string == "idle" else {
          throw DemoStep.Flaw(sentence: "A capture was still open: \(DemoStep.short(payload)).")
        }
        return "nothing was open"
      },
      DemoStep("talk.ptt.once", source: .sample) { payload async throws(DemoStep.Flaw) in
        try await scene.check(payload, file: "talk.ptt.once.wav")
      } meanwhile: {
        await scene.askSoon()
      },
    ]
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

/// The other side of the demo's microphone and speaker: asks by sound, and listens to what is answered.
private actor Scene {
  private let mouth: SoundSystem
  private let ear: SoundSystem
  private let folder: String
  private let sentences: [String]
  private let out: String?
  private let recogniser: PocketsphinxTranscriber
  private var question = ""
  private var recording: Task<[Float], Never>?
  private static let rate = 16_000

  init(address: String, folder: String, sentences: [String], out: String?) {
    mouth = SoundSystem(AudioSettings(backend: .pulse, output: "mic_in", server: address, preRoll: .zero))
    ear = SoundSystem(AudioSettings(backend: .pulse, input: "speaker.monitor", server: address))
    self.folder = folder
    self.sentences = sentences
    self.out = out
    // Everything the agent might be heard to say, so that a wrong answer is heard as a wrong one.
    let answers = sentences.map { "you said \($0)" }
    let grammar = try? SpeechGrammar(sentences: answers)
    var options = PocketsphinxTranscriber.Options(grammar: grammar)
    options.isNoiseless = true
    recogniser = PocketsphinxTranscriber(options: options)
  }

  func close() async {
    recording?.cancel()
    await recogniser.stop()
    await mouth.close()
    await ear.close()
  }

  /// Speaks a question drawn at random, and returns its number and its words.
  func ask() async -> String {
    let index = Int.random(in: 0..<sentences.count)
    question = sentences[index]
    let number = index + 1 < 10 ? "0\(index + 1)" : "\(index + 1)"
    let file = Files.list(folder).first { $0.hasPrefix(number + "-") } ?? ""
    listen()
    if let bytes = try? Files.read(folder + "/" + file), let sound = try? await AudioFile.decode(bytes),
      let lease = try? await mouth.speaker.lease(for: "the demo's question")
    {
      _ = try? await lease.play(sound)
      await lease.release()
    }
    try? await Task.sleep(for: .milliseconds(300))
    return "sample \(number), “\(question)”,"
  }

  func askSoon() async {
    try? await Task.sleep(for: .milliseconds(700))
    _ = await ask()
  }

  /// The transcript is the question, and what the speaker said is the answer to it, once.
  func check(_ payload: JSON, file: String) async throws(DemoStep.Flaw) -> String {
    let transcript = payload["transcript"]?.string ?? ""
    let status = payload["status"]?.string ?? "no status"
    guard status == "queued", transcript == SpeechGrammar.normalized(question) else {
      throw DemoStep.Flaw(sentence: "“\(question)” came back as “\(transcript)” (\(status)).")
    }
    let heard = await answer()
    if let out { try? Files.writeAtomically(AudioFile.wav(heard), to: out + "/" + file, mode: 0o644) }
    let loud = try Self.voice(of: heard)
    let understood = await understand(loud)
    guard understood == "you said \(transcript)" else {
      throw DemoStep.Flaw(sentence: "The answer was heard as “\(understood)”.")
    }
    let seconds = (loud.duration.inSeconds * 10).rounded() / 10
    return "“\(transcript)”; the answer was heard, \(seconds) s, and understood"
  }

  // MARK: The ear

  private func listen() {
    recording?.cancel()
    recording = Task { [ear] in
      var samples: [Float] = []
      guard let lease = try? await ear.microphone.lease(for: "the demo's ear"),
        let capture = try? await lease.capture(Capture.Options(rate: Self.rate))
      else { return [] }
      var quiet = 0
      var hasSpoken = false
      do {
        for try await event in capture {
          guard case .chunk(let chunk) = event else { continue }
          samples += chunk.samples
          // The cues are short; an answer is not. Two quiet seconds after it are its end.
          if chunk.level.peak > 0.02 { quiet = 0 } else { quiet += chunk.samples.count }
          if samples.suffix(Self.rate).filter({ abs($0) > 0.02 }).count > Self.rate / 6 { hasSpoken = true }
          let isOver = hasSpoken && quiet > 2 * Self.rate
          if isOver || samples.count > 40 * Self.rate || Task.isCancelled { break }
        }
      } catch {}
      await lease.release()
      return samples
    }
  }

  private func answer() async -> PCM {
    let samples = await recording?.value ?? []
    recording = nil
    return PCM(samples, rate: Self.rate)
  }

  /// The longest stretch of sound in it, which is the answer; cues are shorter. Silence is a flaw, and so is an answer twice.
  private static func voice(of heard: PCM) throws(DemoStep.Flaw) -> PCM {
    let frame = rate / 20
    var stretches: [Range<Int>] = []
    var at = 0
    while at < heard.samples.count {
      let end = min(at + frame, heard.samples.count)
      if heard.samples[at..<end].contains(where: { abs($0) > 0.02 }) {
        // Half a second without sound ends a stretch: pauses between words are shorter.
        if let last = stretches.last, at - last.upperBound < rate / 2 {
          stretches[stretches.count - 1] = last.lowerBound..<end
        } else {
          stretches.append(at..<end)
        }
      }
      at = end
    }
    let voices = stretches.filter { $0.count > rate * 3 / 5 }
    guard let voice = voices.first else { throw DemoStep.Flaw(sentence: "Nothing was heard at the speaker.") }
    if voices.count > 1 { throw DemoStep.Flaw(sentence: "The answer was heard \(voices.count) times.") }
    let margin = rate / 5
    let range = max(0, voice.lowerBound - margin)..<min(heard.samples.count, voice.upperBound + margin)
    return PCM(Array(heard.samples[range]), rate: rate)
  }

  private func understand(_ sound: PCM) async -> String {
    guard let transcription = try? await recogniser.begin(TranscriptionRequest(rate: sound.rate)) else { return "" }
    await transcription.feed(sound.samples)
    return (try? await transcription.finish()) ?? ""
  }
}
