import Audio
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing

@testable import Speech

/// The spoken questions that the project brings along.
enum Samples {
  static let folder: String = {
    let file = #filePath.split(separator: "/", omittingEmptySubsequences: false)
    return file.dropLast(3).joined(separator: "/") + "/samples/speech"
  }()

  static func sentences() throws -> [String] {
    String(decoding: try Files.read(folder + "/sentences.txt"), as: UTF8.self).split(separator: "\n").map(String.init)
  }

  static func grammar() throws -> SpeechGrammar {
    try SpeechGrammar(jsgf: String(decoding: try Files.read(folder + "/sentences.jsgf"), as: UTF8.self))
  }

  static func sound(_ index: Int) throws -> PCM {
    let files = Files.list(folder).filter { $0.hasSuffix(".wav") }
    return try AudioFile.decodeNow(try Files.read(folder + "/" + files[index]))
  }

  /// As it sounds after a telephone: 8 kHz µ-law.
  static func relayed(_ index: Int) throws -> PCM {
    PCM(MuLaw.decode(MuLaw.encode(try sound(index).resampled(to: 8_000).samples)), rate: 8_000)
  }
}

/// Speech into text with the real pocketsphinx and its English model.
@Suite("pocketsphinx") struct PocketsphinxTests {
  private func transcribe(_ sound: PCM, _ transcriber: PocketsphinxTranscriber) async throws -> (
    text: String, partials: [String]
  ) {
    let transcription = try await transcriber.begin(TranscriptionRequest(rate: sound.rate))
    for start in stride(from: 0, to: sound.samples.count, by: sound.rate / 50) {
      await transcription.feed(Array(sound.samples[start..<min(sound.samples.count, start + sound.rate / 50)]))
    }
    let text = try await transcription.finish()
    var partials: [String] = []
    for await case .partial(let partial) in transcription.events { partials.append(partial) }
    return (text, partials)
  }

  @Test("with a grammar it understands questions in three voices, one after another, with partial texts")
  func grammar() async throws {
    let transcriber = PocketsphinxTranscriber(options: .init(grammar: try Samples.grammar()))
    let sentences = try Samples.sentences()
    for index in [0, 1, 2, 12] {
      let (text, partials) = try await transcribe(try Samples.sound(index), transcriber)
      #expect(text == sentences[index])
      #expect(!partials.isEmpty)
    }
    await transcriber.stop()
  }

  @Test("after a telephone codec it still does, thanks to faint noise")
  func relayed() async throws {
    let transcriber = PocketsphinxTranscriber(options: .init(grammar: try Samples.grammar()))
    let sentences = try Samples.sentences()
    for index in [3, 4, 5] {
      #expect(try await transcribe(try Samples.relayed(index), transcriber).text == sentences[index])
    }
    await transcriber.stop()
  }

  @Test("silence is no sentence")
  func silence() async throws {
    let transcriber = PocketsphinxTranscriber(options: .init(grammar: try Samples.grammar()))
    #expect(try await transcribe(.silence(.seconds(2), rate: 16_000), transcriber).text == "")
    #expect(try await transcribe(PCM([], rate: 16_000), transcriber).text == "")
    await transcriber.stop()
  }

  @Test("it says what it is good for, and what is missing")
  func availability() async throws {
    let folder = TemporaryFolder()
    let good = PocketsphinxTranscriber(options: .init(grammar: try SpeechGrammar(sentences: ["Turn on the light!"])))
    #expect(
      await good.availability()
        == .ready(
          "pocketsphinx with a grammar of 4 different words: quick, and good for exactly those sentences; it hears nothing else"
        ))
    let noModel = PocketsphinxTranscriber(options: .init(modelFolder: folder.path))
    #expect(
      await noModel.availability()
        == .absent(reason: "pocketsphinx has no model in \(folder.path).", remedy: "apt install pocketsphinx-en-us"))
    let unknown = PocketsphinxTranscriber(options: .init(grammar: try SpeechGrammar(sentences: ["xyzzy frobnicate"])))
    guard case .absent(let reason, let remedy) = await unknown.availability() else {
      Issue.record("it is not absent")
      return
    }
    #expect(reason == "pocketsphinx does not know how “frobnicate”, “xyzzy” is spoken." && remedy != nil)
    let broken = PocketsphinxTranscriber(
      options: .init(grammar: try SpeechGrammar(jsgf: "#JSGF V1.0; grammar g; public <s> = turn ( on;")))
    #expect(await !broken.availability().isReady)
    await #expect(throws: SpeechError.self) { _ = try await good.begin(TranscriptionRequest(language: "de")) }
    for transcriber in [good, noModel, unknown, broken] { await transcriber.stop() }
  }

  @Test("a model that is not used for a while goes out of memory, and comes back when it is")
  func unloaded() async throws {
    var options = PocketsphinxTranscriber.Options(grammar: try Samples.grammar())
    options.keepsModel = .milliseconds(200)
    let transcriber = PocketsphinxTranscriber(options: options)
    for _ in 0..<2 {
      #expect(try await transcribe(try Samples.sound(0), transcriber).text == (try Samples.sentences()[0]))
      #expect(await eventually { !transcriber.isOpen })
    }
  }

  @Test("an utterance that is cancelled or forgotten is not in the way of the next")
  func cancelled() async throws {
    let transcriber = PocketsphinxTranscriber(options: .init(grammar: try Samples.grammar()))
    let sound = try Samples.sound(0)
    let cancelled = try await transcriber.begin(TranscriptionRequest(rate: sound.rate))
    await cancelled.feed(sound.samples)
    await cancelled.cancel()
    let error = await #expect(throws: SpeechError.self) { _ = try await cancelled.finish() }
    #expect(error?.code == .cancelled)
    let forgotten = try await transcriber.begin(TranscriptionRequest(rate: sound.rate))
    await forgotten.feed(sound.samples)
    #expect(try await transcribe(sound, transcriber).text == (try Samples.sentences()[0]))
    await transcriber.stop()
  }

  // MARK: The recogniser as a process

  /// Runs the worker on pipes, as a process would be, and returns its messages.
  private func work(_ options: RecognizerWorker.Options, _ bytes: [UInt8]) async throws -> (
    code: Int32, messages: [JSON]
  ) {
    var input: [Int32] = [0, 0]
    var output: [Int32] = [0, 0]
    try #require(pipe(&input) == 0 && pipe(&output) == 0)
    let (reading, writing) = (input[0], input[1])
    let (result, answer) = (output[0], output[1])
    let code = Lock<Int32?>(nil)
    try #require(
      startThread(name: "test worker") {
        let exit = RecognizerWorker.run(options, input: reading, output: answer)
        close(answer)
        close(reading)
        code.withLock { $0 = exit }
      })
    try #require(
      startThread(name: "test feeder") {
        // A worker that has ended before does not read any more.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        try? Files.write(bytes, to: writing, named: "pipe")
        close(writing)
      })
    let text = Lock("")
    try #require(
      startThread(name: "test reader") {
        let all = try? Files.read("/proc/self/fd/\(result)")
        close(result)
        text.withLock { $0 = String(decoding: all ?? [], as: UTF8.self) + "end" }
      })
    #expect(
      await eventually(within: .seconds(60)) { code.withLock { $0 } != nil && text.withLock { $0.hasSuffix("end") } })
    let lines = text.withLock { $0.dropLast(3) }.split(separator: "\n")
    return (code.withLock { $0 } ?? -1, try lines.map { try JSON(parsing: String($0)) })
  }

  @Test("a process of its own hears what is relayed: ready, partial texts, a final at the end of its input")
  func worker() async throws {
    let sound = try Samples.relayed(4)
    let (code, messages) = try await work(.init(rate: 8_000, grammar: try Samples.grammar()), sound.littleEndian)
    #expect(code == 0)
    #expect(messages.first?["type"]?.string == "ready")
    #expect(messages.contains { $0["type"]?.string == "partial" })
    #expect(messages.last == ["type": "final", "text": .string(try Samples.sentences()[4])])
    #expect(messages.filter { $0["type"]?.string == "final" }.count == 1)
  }

  @Test("with endpoints, each sentence between silences is a final of its own")
  func endpoints() async throws {
    let pause = PCM.silence(.milliseconds(1_500), rate: 16_000).littleEndian
    let bytes = try Samples.sound(0).littleEndian + pause + Samples.sound(1).littleEndian + pause
    let (code, messages) = try await work(.init(rate: 16_000, grammar: try Samples.grammar(), endpoints: true), bytes)
    let finals = messages.filter { $0["type"]?.string == "final" }.compactMap { $0["text"]?.string }.filter {
      !$0.isEmpty
    }
    #expect(code == 0)
    #expect(finals == Array(try Samples.sentences()[..<2]))
    #expect(messages.filter { $0["type"]?.string == "speechStart" }.count == 2)
  }

  @Test("what it can't do it says in one line, and ends")
  func workerFails() async throws {
    let (code, messages) = try await work(.init(rate: 8_000, modelFolder: "/nowhere"), [0, 0])
    #expect(code == 1)
    #expect(messages.count == 1 && messages[0]["type"]?.string == "error")
    let (bad, _) = try await work(.init(rate: 3), [])
    #expect(bad == 1)
  }
}

/// The sentences that are listened for.
@Suite("Speech grammar") struct SpeechGrammarTests {
  @Test("sentences become a grammar: no punctuation, no case, no repetition")
  func sentences() throws {
    let grammar = try SpeechGrammar(sentences: ["Turn on the light!", "What’s the time?", "turn on the  light", "…"])
    #expect(
      grammar.jsgf == "#JSGF V1.0;\ngrammar sentences;\npublic <sentence> = turn on the light\n  | what's the time;\n")
    #expect(grammar.words == ["light", "on", "the", "time", "turn", "what's"])
  }

  @Test("a grammar written by hand is read for its words")
  func words() throws {
    let grammar = try SpeechGrammar(
      jsgf: """
        #JSGF V1.0 UTF-8 en;
        // lights and such
        grammar home;
        public <command> = [please] (turn <state> | /0.5/ dim {quiet}) the <thing>+ ; /* and
        more */
        <state> = on | OFF; <thing> = light | "fan" | radio*;
        """)
    #expect(grammar.words == ["dim", "fan", "light", "off", "on", "please", "radio", "the", "turn"])
  }

  @Test(
    "what is no grammar is refused with an example",
    arguments: [
      "", "turn on", "#JSGF V1.0; grammar g; <s> = a;", "#JSGF V1.0; grammar g; public <s> = ;",
      "#JSGF V1.0; /* public <s> = a;",
    ])
  func refused(_ text: String) {
    let error = #expect(throws: SpeechError.self) { try SpeechGrammar(jsgf: text) }
    #expect(error?.code == .invalidSetting && error?.remedy?.contains("#JSGF V1.0;") == true)
  }

  @Test("an empty list of sentences, or an endless grammar, is refused")
  func bounds() {
    #expect(throws: SpeechError.self) { try SpeechGrammar(sentences: ["", "!?"]) }
    #expect(throws: SpeechError.self) {
      try SpeechGrammar(jsgf: "#JSGF public " + String(repeating: "a ", count: 200_000))
    }
  }
}
