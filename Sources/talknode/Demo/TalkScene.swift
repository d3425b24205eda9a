import Audio
import GatewayProtocol
import Speech
import System

/// The other side of the demo's microphone and speaker: asks by sound, and listens to what is answered.
actor TalkScene {
  private let mouth: SoundSystem
  private let ear: SoundSystem
  private let folder: String
  private let out: String?
  private let check: AnswerCheck
  /// One of the bundled questions, drawn at random.
  nonisolated let question: (number: String, text: String)
  private var recording: Task<[Float], Never>?

  private static let rate = 16_000
  /// Silence after the answer that is its end.
  private static let end: Duration = .seconds(2)
  private static let patience: Duration = .seconds(40)

  init(address: String, folder: String, sentences: [String], out: String?) throws(SpeechError) {
    mouth = SoundSystem(AudioSettings(backend: .pulse, output: "mic_in", server: address, preRoll: .zero))
    ear = SoundSystem(AudioSettings(backend: .pulse, input: "speaker.monitor", server: address))
    self.folder = folder
    self.out = out
    check = try AnswerCheck(answers: sentences.map(Self.answer))
    let index = Int.random(in: 0..<sentences.count)
    question = (index < 9 ? "0\(index + 1)" : "\(index + 1)", sentences[index])
  }

  /// What the development gateway's agent says to a question.
  static func answer(to question: String) -> String { "you said \(question)" }

  func close() async {
    recording?.cancel()
    await check.close()
    await mouth.close()
    await ear.close()
  }

  /// Speaks the question into the microphone, and returns its name and words.
  func ask() async -> String {
    await listen()
    let file = Files.list(folder).first { $0.hasPrefix(question.number + "-") } ?? ""
    if let bytes = try? Files.read(folder + "/" + file), let sound = try? await AudioFile.decode(bytes),
      let lease = try? await mouth.speaker.lease(for: "the demo's question")
    {
      _ = try? await lease.play(sound)
      await lease.release()
    }
    // On a busy machine the last word is still on its way from the sink to the microphone; who holds a key lingers as well.
    try? await Task.sleep(for: .milliseconds(700))
    return "sample \(file), “\(question.text)”,"
  }

  /// What came back is the question, and what the speaker said is the answer to it, once.
  func check(_ payload: JSON, file: String) async throws(DemoStep.Flaw) -> String {
    let transcript = payload["transcript"]?.string ?? ""
    let status = payload["status"]?.string ?? "no status"
    guard status == "queued", transcript == SpeechGrammar.normalized(question.text) else {
      throw DemoStep.Flaw(sentence: "“\(question.text)” came back as “\(transcript)” (\(status)).")
    }
    let heard = PCM(await recording?.value ?? [], rate: Self.rate)
    recording = nil
    if let out { try? Files.writeAtomically(AudioFile.wav(heard), to: out + "/" + file, mode: 0o644) }
    let length = try await check.judge(heard, expecting: Self.answer(to: transcript))
    return "“\(transcript)”; the answer was heard, \((length.inSeconds * 10).rounded() / 10) s, and understood"
  }

  /// Records what the speaker plays, from now to the end of an answer.
  private func listen() async {
    // After a flaw an earlier recording still has the ear.
    recording?.cancel()
    _ = await recording?.value
    recording = Task { [ear] in
      var samples: [Float] = []
      guard let lease = try? await ear.microphone.lease(for: "the demo's ear"),
        let capture = try? await lease.capture(Capture.Options(rate: Self.rate))
      else { return [] }
      var loud = 0
      var quiet = 0
      do {
        for try await event in capture {
          guard case .chunk(let chunk) = event else { continue }
          samples += chunk.samples
          let isLoud = chunk.level.peak > AnswerCheck.threshold
          loud += isLoud ? chunk.samples.count : 0
          quiet = isLoud ? 0 : quiet + chunk.samples.count
          let isOver = loud > Self.rate / 2 && quiet > Self.end.samples(at: Self.rate)
          if isOver || samples.count > Self.patience.samples(at: Self.rate) || Task.isCancelled { break }
        }
      } catch {}
      await lease.release()
      return samples
    }
  }
}
