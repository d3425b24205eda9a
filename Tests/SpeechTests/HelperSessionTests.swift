import Audio
import TestSupport
import Testing

@testable import Speech

/// What a helper program and its utterances are at, without any helper.
@Suite("Helper session") struct HelperSessionTests {
  private typealias Action = HelperSession.Action
  private let hung = SpeechError(.timeout, "The transcriber's helper did not answer in time.")

  /// A session with a helper that is ready for `form`.
  private func ready(_ form: HelperMessage.AudioForm = .pcm) -> HelperSession {
    var session = HelperSession()
    #expect(session.on(.prepare) == [.launch, .arm(.seconds(60))])
    #expect(session.on(.message(.ready(form, hasPartials: true))) == [.readiness(.success(true)), .disarm])
    return session
  }

  @Test("an utterance goes to the helper as it is heard, one request at a time")
  func streams() {
    var session = ready()
    let sound = Array(repeating: Int16(7), count: 20_000)
    #expect(
      session.on(.begin(id: 1, rate: 16_000, language: "en")) == [
        .readiness(.success(true)), .send(.start(id: 1, rate: 16_000, language: "en")),
      ])
    #expect(session.on(.audio(id: 1, sound)) == [])
    #expect(session.on(.drained) == [.send(.audio(id: 1, sound[..<16_000]))])
    #expect(session.on(.message(.partial(id: 1, "turn"))) == [.tell(id: 1, .partial("turn"))])
    #expect(session.on(.message(.endpoint(id: 1, "turn on"))) == [.tell(id: 1, .final("turn on"))])
    // 1.25 s of sound: 20 s and four times that.
    #expect(session.on(.finish(id: 1)) == [.arm(.seconds(25)), .readiness(.success(true))])
    #expect(session.on(.drained) == [.send(.audio(id: 1, sound[16_000...]))])
    #expect(session.on(.message(.final(id: 1, "too early"))) == [])
    #expect(session.on(.drained) == [.send(.finish(id: 1))])
    #expect(
      session.on(.message(.final(id: 1, "turn on the light"))) == [
        .answer(id: 1, .success("turn on the light")), .disarm,
      ])
    #expect(session.utterances.isEmpty)
  }

  @Test("a helper that wants files gets one, which is removed afterwards")
  func files() {
    var session = ready(.wav)
    _ = session.on(.begin(id: 1, rate: 16_000, language: nil))
    #expect(session.on(.audio(id: 1, [1, 2])) == [])
    #expect(session.on(.finish(id: 1)).contains(.writeFile(id: 1, [1, 2], rate: 16_000)))
    #expect(session.on(.fileWritten(id: 1, path: "/f")) == [.send(.transcribe(id: 1, wav: "/f", language: nil))])
    #expect(
      session.on(.message(.final(id: 1, "yes"))) == [.removeFile("/f"), .answer(id: 1, .success("yes")), .disarm])
  }

  @Test("a helper that hangs is killed, and the next one gets the utterance from its beginning")
  func hangs() {
    var session = ready()
    _ = session.on(.begin(id: 1, rate: 16_000, language: nil))
    _ = session.on(.audio(id: 1, [1, 2, 3]))
    _ = session.on(.drained)
    _ = session.on(.finish(id: 1))
    _ = session.on(.drained)
    #expect(session.on(.deadline) == [.disarm, .kill, .launch, .arm(.seconds(60))])
    let restarted = session.on(.message(.ready(.pcm, hasPartials: true)))
    #expect(restarted.contains(.send(.start(id: 1, rate: 16_000, language: nil))))
    #expect(session.on(.drained) == [.send(.audio(id: 1, [1, 2, 3][...]))])
    _ = session.on(.drained)
    // The second time is the last: another transcriber has to do it.
    #expect(
      session.on(.deadline) == [
        .disarm, .kill, .tell(id: 1, .failed(hung)), .answer(id: 1, .failure(hung)), .disarm,
      ])
  }

  @Test("a helper that dies between utterances is started again by the next")
  func diesIdle() {
    var session = ready()
    #expect(session.on(.ended("ended with signal 9")) == [.disarm, .kill])
    #expect(session.on(.begin(id: 1, rate: 16_000, language: nil)) == [.launch, .arm(.seconds(60))])
  }

  @Test("a helper that is never ready fails what waits, after its chances")
  func neverReady() {
    var session = HelperSession()
    _ = session.on(.begin(id: 1, rate: 16_000, language: nil))
    #expect(session.on(.ended("ended with exit code 1")).contains(.launch))
    let last = session.on(.ended("ended with exit code 1"))
    let error = SpeechError(.failed, "The transcriber's helper ended with exit code 1.")
    #expect(last.contains(.answer(id: 1, .failure(error))) && !last.contains(.launch))
    #expect(last.contains(.readiness(.failure(error))))
  }

  @Test("a command that can't be run fails everything at once")
  func notStarted() {
    var session = HelperSession()
    _ = session.on(.begin(id: 1, rate: 16_000, language: nil))
    _ = session.on(.begin(id: 2, rate: 16_000, language: nil))
    let error = SpeechError(.invalidSetting, "no such file")
    let actions = session.on(.notStarted(error))
    #expect(actions.contains(.answer(id: 1, .failure(error))) && actions.contains(.answer(id: 2, .failure(error))))
  }

  @Test("what is cancelled is answered, and told to the helper in front of what follows")
  func cancel() {
    var session = ready()
    _ = session.on(.begin(id: 1, rate: 16_000, language: nil))
    _ = session.on(.begin(id: 2, rate: 16_000, language: nil))
    _ = session.on(.drained)
    let actions = session.on(.cancel(id: 1))
    #expect(actions.first == .send(.cancel(id: 1)))
    #expect(actions.last == .send(.start(id: 2, rate: 16_000, language: nil)))
    // An answer that was on its way is nobody's.
    #expect(session.on(.message(.final(id: 1, "late"))) == [])
    #expect(session.on(.message(.partial(id: 1, "late"))) == [])
  }

  @Test("an utterance that the helper refuses fails alone")
  func refused() {
    var session = ready()
    _ = session.on(.begin(id: 1, rate: 16_000, language: nil))
    let actions = session.on(.message(.error(id: 1, "too short")))
    let error = SpeechError(.failed, "The transcriber's helper says: too short")
    #expect(actions.contains(.answer(id: 1, .failure(error))))
    #expect(session.phase == .ready(.pcm, hasPartials: true))
  }

  @Test("more utterances than can wait are refused")
  func busy() {
    var session = HelperSession()
    for id in 1...8 { _ = session.on(.begin(id: id, rate: 16_000, language: nil)) }
    let error = SpeechError(.busy, "Too many utterances wait for the transcriber.")
    #expect(session.on(.begin(id: 9, rate: 16_000, language: nil)) == [.answer(id: 9, .failure(error))])
  }

  @Test("whatever happens in whatever order: one answer each, no file left, nothing sent to a helper that is not there")
  func random() {
    var random = SeededRandom()
    for _ in 0..<2_000 {
      var session = HelperSession()
      var begun: Set<Int> = []
      var answered: [Int: Int] = [:]
      var files: Set<String> = []
      var writing: [Int] = []
      var isUp = false
      func check(_ actions: [HelperSession.Action]) {
        for action in actions {
          switch action {
          case .launch: isUp = true
          case .kill: isUp = false
          case .send: #expect(isUp, "seed \(random.seed)")
          case .writeFile(let id, _, _): writing.append(id)
          case .removeFile(let path): files.remove(path)
          case .answer(let id, _): answered[id, default: 0] += 1
          case .arm, .disarm, .tell, .readiness: break
          }
        }
      }
      for _ in 0..<60 {
        let id = Int.random(in: 1...6, using: &random)
        switch Int.random(in: 0..<14, using: &random) {
        case 0...2: if begun.insert(id).inserted { check(session.on(.begin(id: id, rate: 16_000, language: nil))) }
        case 3:
          check(session.on(.audio(id: id, Array(repeating: 1, count: Int.random(in: 0...40_000, using: &random)))))
        case 4: check(session.on(.finish(id: id)))
        case 5: check(session.on(.cancel(id: id)))
        case 6:
          if let id = writing.popLast() {
            files.insert("/\(id)")
            check(session.on(.fileWritten(id: id, path: "/\(id)")))
          }
        case 7: check(session.on(.message(.ready(Bool.random(using: &random) ? .pcm : .wav, hasPartials: false))))
        case 8: check(session.on(.message(.final(id: id, "text"))))
        case 9: check(session.on(.message(.error(id: Bool.random(using: &random) ? id : nil, "no"))))
        case 10, 11: check(session.on(.drained))
        case 12:
          isUp = false
          check(session.on(.ended("ended with signal 11")))
        default: check(session.on(.deadline))
        }
      }
      check(session.on(.stop))
      for id in writing {
        files.insert("/\(id)")
        check(session.on(.fileWritten(id: id, path: "/\(id)")))
      }
      #expect(begun.allSatisfy { answered[$0] == 1 } && answered.count == begun.count, "seed \(random.seed)")
      #expect(files.isEmpty, "seed \(random.seed)")
    }
  }
}

@Suite("Helper messages") struct HelperMessageTests {
  private func message(_ line: String) -> HelperMessage? { HelperMessage(line: Array(line.utf8)) }

  @Test("what helpers say is understood, and what they print besides is not")
  func parse() {
    #expect(message(#"{"type":"ready"}"#) == .ready(.pcm, hasPartials: false))
    #expect(message(#"{"type":"ready","audio":"wav","partials":true}"#) == .ready(.wav, hasPartials: true))
    #expect(message(#"{"type":"ready","audio":"mp3"}"#) == nil)
    #expect(message(#"{"type":"partial","id":"3","text":" turn  on "}"#) == .partial(id: 3, "turn on"))
    #expect(message(#"{"type":"final","id":3,"text":"turn on"}"#) == .final(id: 3, "turn on"))
    #expect(message(#"{"type":"final","id":"3"}"#) == .final(id: 3, ""))
    #expect(message(#"{"type":"final","text":"whose?"}"#) == nil)
    #expect(message(#"{"type":"endpoint","id":"3","text":"so"}"#) == .endpoint(id: 3, "so"))
    #expect(message(#"{"type":"error","message":"no model"}"#) == .error(id: nil, "no model"))
    #expect(message(#"{"type":"error","id":"x"}"#) == .error(id: nil, "no reason given"))
    for line in ["", "loading…", "[]", "{}", "{\"type\":7}", "{\"type\":\"dance\",\"id\":\"1\"}", "\u{0}\u{1}"] {
      #expect(message(line) == nil)
    }
  }

  @Test("samples are sent as base64 of little-endian bytes")
  func audio() {
    let line = HelperRequest.audio(id: 4, [1, -2, 256]).line
    #expect(String(decoding: line, as: UTF8.self) == "{\"id\":\"4\",\"pcm\":\"AQD+/wAB\",\"type\":\"audio\"}\n")
  }

  @Test(
    "what recognisers print becomes a transcript",
    arguments: [
      ("  Turn on\n the light. ", "Turn on the light."), ("[00:00:00.000 --> 00:00:02.000]   Turn on.", "Turn on."),
      ("[BLANK_AUDIO]", ""), ("(wind blowing)", ""), ("[ Silence ]", ""), ("*sighs*", ""),
      ("hello [MUSIC PLAYING] there", "hello there"),
      ("the array [a] is (b) here", "the array [a] is (b) here"), ("(one) two (three)", "(one) two (three)"),
      ("{\"text\":\" Turn on. \"}", "Turn on."), ("{\"other\":1}", "{\"other\":1}"), ("", ""),
      ("open [bracket", "open [bracket"),
    ])
  func clean(_ output: String, _ text: String) {
    #expect(TranscriptText.of(output: Array(output.utf8)) == text)
  }

  @Test("a transcript is no longer than the gateway takes")
  func bounded() {
    #expect(TranscriptText.clean(String(repeating: "a", count: 100_000)).count == 20_000)
    #expect(TranscriptText.clean(String(repeating: "[", count: 100_000)).count <= 20_000)
  }
}
