import GatewayProtocol
import Testing

@testable import Conversation

@Suite("A turn: waiting for the reply")
struct TurnTests {
  private func chat(
    _ state: String, _ more: [String: JSON] = [:], run: String = "r", session: String = "agent:main:main"
  )
    -> Turn.Event
  {
    .chat(
      .object(["runId": .string(run), "state": .string(state), "sessionKey": .string(session)].merging(more) { $1 }))
  }
  private func agent(_ stream: String, _ data: JSON) -> Turn.Event {
    .agent(["runId": "r", "stream": .string(stream), "data": data])
  }
  private func turn(_ events: Turn.Event..., history: Bool = true) -> Turn {
    var turn = Turn(run: .id("r"), hasHistory: history)
    for event in events { _ = turn.on(event) }
    return turn
  }

  @Test("a final with its message is the reply")
  func final() {
    var turn = turn(.acknowledged(status: "started"))
    #expect(
      turn.on(
        chat("final", ["message": ["role": "assistant", "content": [["type": "text", "text": " It is six. "]]]])) == [
          .finish(.reply("It is six."))
        ])
    #expect(turn.on(chat("final")) == [])
  }

  @Test("deltas add up, a replacing one starts over, an older gateway's cumulative message counts whole")
  func deltas() {
    var turn = turn()
    #expect(turn.on(chat("delta", ["deltaText": "It "])) == [.partial("It ")])
    #expect(turn.on(chat("delta", ["deltaText": "is six"])) == [.partial("It is six")])
    #expect(turn.on(chat("delta", ["deltaText": "No: ", "replace": true])) == [.partial("No: ")])
    #expect(turn.on(chat("delta", ["message": "No: seven"])) == [.partial("No: seven")])
    #expect(turn.on(chat("final")) == [.finish(.reply("No: seven"))])
  }

  @Test("another run's events are not ours")
  func otherRun() {
    var turn = turn()
    #expect(turn.on(chat("final", ["message": "x"], run: "other")) == [])
    #expect(turn.on(.chat(["state": "final", "message": "x"])) == [])
  }

  @Test("agent events carry the text so far, and their lifecycle ends the turn")
  func agentEvents() {
    var turn = turn()
    #expect(turn.on(agent("assistant", ["text": "Done"])) == [.partial("Done")])
    #expect(turn.on(agent("tool", ["phase": "start"])) == [])
    #expect(turn.on(agent("lifecycle", ["phase": "end"])) == [.finish(.reply("Done"))])
  }

  @Test("a final without text looks into the history every 300 ms for 12 s, then gives up")
  func historyAfterFinal() {
    var turn = turn()
    #expect(turn.on(chat("final")) == [.askHistory(anyTime: false)])
    var looks = 1
    while turn.on(.history(nil)) == [.startPoll(Turn.pollInterval)] {
      #expect(turn.on(.pollDue) == [.askHistory(anyTime: false)])
      looks += 1
    }
    #expect(looks == 40)
  }

  @Test("what the history has is the reply")
  func historyHit() {
    var turn = turn(chat("final"))
    _ = turn.on(.history(nil))
    _ = turn.on(.pollDue)
    #expect(turn.on(.history("Six.")) == [.finish(.reply("Six."))])
  }

  @Test("a replayed key that had ended goes to the history with no lower bound")
  func replayed() {
    var turn = turn()
    #expect(turn.on(.acknowledged(status: "ok")) == [.askHistory(anyTime: true)])
  }

  @Test("at the deadline the text so far is the reply; without any, the history is asked for 25 s")
  func deadline() {
    var some = turn(chat("delta", ["deltaText": "Half an answer"]))
    #expect(some.on(.deadline) == [.finish(.reply("Half an answer"))])
    var none = turn()
    #expect(none.on(.deadline) == [.askHistory(anyTime: false)])
  }

  @Test(
    "only an acknowledgement of this very run counts, and one of a failed run has not taken the words",
    arguments: [
      (["runId": "r", "status": "started"], .accepted(status: "started")),
      (["runId": "r", "status": "in_flight"], .accepted(status: "in_flight")),
      (["runId": "r", "status": "ok"], .accepted(status: "ok")), (["runId": "r"], .accepted(status: nil)),
      (["runId": "r", "status": "error"], .spent(status: "error")),
      (["runId": "r", "status": "timeout"], .spent(status: "timeout")),
      (["runId": "other", "status": "started"], .foreign), (["status": "started"], .foreign), (.null, .foreign),
      (["ok": true, "aborted": true, "runIds": ["x"]], .accepted(status: "aborted")),
    ] as [(JSON, Acknowledgement)])
  func acknowledgements(answer: JSON, meaning: Acknowledgement) {
    #expect(Acknowledgement(answer, runID: "r") == meaning)
  }

  @Test("aborted, error and refused sends are told apart")
  func ends() {
    var turn = turn()
    #expect(turn.on(chat("aborted")) == [.finish(.aborted)])
    turn = self.turn()
    #expect(turn.on(.acknowledged(status: "aborted")) == [.finish(.aborted)])
    turn = self.turn()
    #expect(turn.on(chat("error", ["errorMessage": "no credit"])) == [.finish(.failed("no credit"))])
    turn = self.turn()
    #expect(
      turn.on(.sendFailed("send blocked by session policy")) == [.finish(.failed("send blocked by session policy"))])
    turn = self.turn()
    #expect(
      turn.on(.acknowledged(status: "timeout")) == [.finish(.failed("the gateway says the run ended with timeout"))])
  }

  @Test("on the node socket the first voice run of our session is ours, and there is no history to ask")
  func reducedPath() {
    var turn = Turn(run: .firstVoice(sessionKey: "main"), hasHistory: false)
    _ = turn.on(.sent)
    #expect(turn.on(chat("delta", ["deltaText": "x"], run: "voice-1", session: "agent:main:other")) == [])
    #expect(turn.on(chat("delta", ["deltaText": "x"], run: "plain")) == [])
    #expect(turn.on(chat("delta", ["deltaText": "Hi"], run: "voice-2")) == [.partial("Hi")])
    #expect(turn.on(chat("final", ["message": "not ours"], run: "voice-3")) == [])
    #expect(turn.on(chat("final", run: "voice-2")) == [.finish(.reply("Hi"))])
    turn = Turn(run: .firstVoice(sessionKey: "main"), hasHistory: false)
    _ = turn.on(.sent)
    #expect(turn.on(chat("final", run: "voice-2")) == [.finish(.noReply)])
  }

  @Test("on the node socket a run that was there before our words went out is never taken for ours")
  func foreignRun() {
    var turn = Turn(run: .firstVoice(sessionKey: "main"), hasHistory: false)
    #expect(turn.on(chat("delta", ["deltaText": "Not"], run: "voice-1")) == [])
    _ = turn.on(.sent)
    #expect(turn.on(chat("delta", ["deltaText": "for us"], run: "voice-1")) == [])
    #expect(turn.on(chat("final", ["message": "Not for us"], run: "voice-1")) == [])
    #expect(turn.on(chat("final", ["message": "For us"], run: "voice-2")) == [.finish(.reply("For us"))])
  }

  @Test("after a reconnect the history is asked at once, and again beside the events until one of them has the reply")
  func reconnected() {
    var turn = turn(chat("delta", ["deltaText": "Half"]))
    #expect(turn.on(.disconnected) == [.startGrace(Turn.grace, 1)])
    #expect(turn.on(.disconnected) == [])
    #expect(turn.on(.reconnected) == [.askHistory(anyTime: false)])
    #expect(turn.on(.graceOver(1)) == [])
    #expect(turn.on(.history(nil)) == [.startPoll(Turn.catchUpInterval)])
    // A second outage does not start a second row of looks.
    #expect(turn.on(.disconnected) == [.startGrace(Turn.grace, 2)])
    #expect(turn.on(.reconnected) == [])
    #expect(turn.on(.pollDue) == [.askHistory(anyTime: false)])
    var told = turn
    #expect(turn.on(.history("Half an answer")) == [.finish(.reply("Half an answer"))])
    #expect(told.on(chat("final", ["message": "A whole one"])) == [.finish(.reply("A whole one"))])
  }

  @Test("a socket that does not come back ends the wait, long before the time for a reply is over")
  func graceOver() {
    var turn = turn()
    _ = turn.on(.disconnected)
    #expect(turn.on(.graceOver(0)) == [])
    guard case .finish(.failed)? = turn.on(.graceOver(1)).first else {
      Issue.record("it waits")
      return
    }
    #expect(turn.on(.reconnected) == [])
  }

  @Test("an empty final while the history is looked at anyway goes on with those looks, and an end")
  func catchUpThenFinal() {
    var turn = turn()
    _ = turn.on(.reconnected)
    #expect(turn.on(chat("final")) == [])
    var looks = 1
    while turn.on(.history(nil)) == [.startPoll(Turn.pollInterval)] {
      #expect(turn.on(.pollDue) == [.askHistory(anyTime: false)])
      looks += 1
    }
    #expect(looks == Turn.pollsAfterFinal)
  }

  @Test("a lost connection ends the wait with what there is")
  func lost() {
    var turn = turn(chat("delta", ["deltaText": "Half"]))
    #expect(turn.on(.lost) == [.finish(.reply("Half"))])
  }

  @Test(
    "text is found in every form a message has",
    arguments: [
      (JSON.string("a"), "a"), (["content": "a"], "a"), (["role": "assistant", "content": ["a", "b"]], "a\nb"),
      (["content": [["type": "thinking", "thinking": "x"], ["type": "text", "text": "a"]]], "a"),
      (["role": "user", "content": "a"], nil), (["content": "  "], nil), (7, nil), (.null, nil),
    ] as [(JSON, String?)])
  func messageText(message: JSON, text: String?) { #expect(ChatText.assistant(message) == text) }

  @Test("the history's newest assistant row counts only if it is later than the send")
  func historyRows() {
    let page: JSON = [
      "messages": [
        ["role": "assistant", "content": "old", "timestamp": 10], ["role": "user", "content": "q", "timestamp": 20],
      ]
    ]
    #expect(ChatText.newestAssistant(in: page, afterMs: 15) == nil)
    #expect(ChatText.newestAssistant(in: page, afterMs: 5) == "old")
    #expect(ChatText.newestAssistant(in: page, afterMs: nil) == "old")
  }
}
