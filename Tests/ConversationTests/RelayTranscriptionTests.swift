import GatewayProtocol
import Testing

@testable import Conversation

@Suite("Transcription by the gateway")
struct RelayTranscriptionTests {
  private let answer: JSON = [
    "sessionId": "s", "transcriptionSessionId": "s", "ready": false,
    "audio": ["inputEncoding": "g711_ulaw", "inputSampleRateHz": 8000],
  ]
  private func event(_ type: String, _ more: [String: JSON] = [:]) -> RelayTranscription.Event {
    .talkEvent(.object(["transcriptionSessionId": "s", "type": .string(type)].merging(more) { $1 }))
  }
  private func open() -> RelayTranscription {
    var relay = RelayTranscription()
    _ = relay.on(.created(answer))
    _ = relay.on(event("ready"))
    return relay
  }
  private func isFailure(_ actions: [RelayTranscription.Action], closing: Bool) -> Bool {
    guard case .failed? = actions.last else { return false }
    return actions.dropLast() == (closing ? [.close(sessionID: "s")] : [])
  }
  private let piece = [UInt8](repeating: 0x7F, count: RelayTranscription.pieceBytes)

  @Test("sound spoken before the provider is ready is sent when it is")
  func earlySound() {
    var relay = RelayTranscription()
    #expect(relay.on(.sound(piece)) == [])
    #expect(relay.on(.created(answer)) == [])
    #expect(relay.on(event("ready")) == [.append(sessionID: "s", piece)])
  }

  @Test("an event that overtakes the answer to create is not lost")
  func earlyEvents() {
    var relay = RelayTranscription()
    #expect(relay.on(.sound(piece)) == [])
    #expect(relay.on(event("ready")) == [])
    #expect(relay.on(.talkEvent(["transcriptionSessionId": "t", "type": "error", "message": "x"])) == [])
    for _ in 0..<500 { _ = relay.on(event("partial", ["text": "much"])) }
    #expect(relay.on(.created(answer)).contains(.append(sessionID: "s", piece)))
  }

  @Test("a session that is made after all, for nobody, is closed: cancelled, failed or too late")
  func lateSession() {
    for end in [RelayTranscription.Event.lost, .timeout, .createFailed("x")] {
      var relay = RelayTranscription()
      #expect(isFailure(relay.on(end), closing: false))
      #expect(relay.on(.created(answer)) == [.close(sessionID: "s")])
      #expect(relay.on(event("ready")) == [])
    }
    var refused = RelayTranscription()
    _ = refused.on(.lost)
    #expect(refused.on(.created(["ok": true])) == [])
  }

  @Test("at most four appends are in flight")
  func pacing() {
    var relay = open()
    #expect(relay.on(.sound(piece + piece + piece + piece + piece)).count == 4)
    #expect(relay.on(.appended) == [.append(sessionID: "s", piece)])
    #expect(relay.on(.appended) == [])
  }

  @Test("the end sends the rest, closes when all is taken, and waits for late finals")
  func lateFinals() {
    var relay = open()
    #expect(relay.on(.sound([1, 2, 3])) == [])
    #expect(relay.on(.finish) == [.append(sessionID: "s", [1, 2, 3])])
    #expect(relay.on(.appended) == [.close(sessionID: "s"), .startTimer(RelayTranscription.flushLimit)])
    #expect(relay.on(event("transcript", ["text": "turn on", "final": true])) == [.utterance("turn on")])
    #expect(relay.on(event("transcript", ["text": ""])) == [])
    #expect(relay.on(event("transcript", ["text": "the lights", "final": true])) == [.utterance("the lights")])
    #expect(relay.on(event("close", ["reason": "completed"])) == [.finished("turn on the lights")])
    #expect(relay.on(.timeout) == [])
  }

  @Test("partials replace each other and follow what is final")
  func partials() {
    var relay = open()
    #expect(relay.on(event("partial", ["text": "turn"])) == [.partial("turn")])
    #expect(relay.on(event("partial", ["text": "turn on"])) == [.partial("turn on")])
    _ = relay.on(event("transcript", ["text": "turn on", "final": true]))
    #expect(relay.on(event("partial", ["text": "the"])) == [.partial("turn on the")])
  }

  @Test("a gateway that never sends close still ends, with the last hypothesis kept")
  func silentGateway() {
    var relay = open()
    _ = relay.on(.finish)
    _ = relay.on(event("partial", ["text": "hello"]))
    #expect(relay.on(.timeout) == [.finished("hello")])
  }

  @Test("every trouble is said, and a session that was made is closed")
  func failures() {
    var relay = RelayTranscription()
    #expect(
      relay.on(.createFailed("No realtime transcription provider registered")) == [
        .failed("No realtime transcription provider registered")
      ])
    relay = open()
    #expect(isFailure(relay.on(.lost), closing: true))
    relay = open()
    #expect(relay.on(event("error", ["message": "no credit"])) == [.close(sessionID: "s"), .failed("no credit")])
    relay = RelayTranscription()
    let pcm: JSON = ["sessionId": "s", "audio": ["inputEncoding": "pcm16", "inputSampleRateHz": 24000]]
    #expect(isFailure(relay.on(.created(pcm)), closing: true))
    relay = RelayTranscription()
    #expect(isFailure(relay.on(.timeout), closing: false))
  }

  @Test("another session's events are not ours")
  func otherSession() {
    var relay = open()
    #expect(relay.on(.talkEvent(["transcriptionSessionId": "t", "type": "error", "message": "x"])) == [])
  }

  @Test("sound the gateway doesn't take has a bound, and past it the session fails, not the words")
  func backlog() {
    var relay = open()
    let minute = [UInt8](repeating: 0, count: 60 * 8000)
    for _ in 0..<6 { #expect(!relay.on(.sound(minute)).contains { if case .failed = $0 { true } else { false } }) }
    #expect(isFailure(relay.on(.sound(minute)), closing: true))
  }
}
