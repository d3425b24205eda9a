import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

@Suite("Chat: an agent that answers (talk-and-chat §6)")
struct ChatTests {
  private func send(_ text: String, _ key: String = "k-1", session: String = "main") -> JSON {
    ["sessionKey": .string(session), "message": .string(text), "idempotencyKey": .string(key)]
  }

  /// Waits for the chat event of a state.
  private func chat(_ peer: Peer, _ state: String, run: String = "k-1") async throws -> JSON {
    func find() async -> JSON? {
      await peer.events("chat").compactMap { $0["payload"] }.first {
        $0["state"]?.string == state && $0["runId"]?.string == run
      }
    }
    _ = await eventually { await find() != nil }
    return try #require(await find(), "no chat \(state)")
  }

  @Test("a message is acknowledged, then answered with a text that holds its words")
  func answer() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      #expect(try await owner.request("chat.send", send("turn on the lamp")) == ["runId": "k-1", "status": "started"])
      let final = try await chat(owner, "final")
      #expect(final["message"]?["content"]?.array?.first?["text"]?.string?.contains("turn on the lamp") == true)
      #expect(final["sessionKey"] == "agent:main:main")
      let deltas = await owner.events("chat").compactMap { $0["payload"]?["deltaText"]?.string }
      #expect(deltas.joined() == "You said: turn on the lamp")
      let order = await owner.frames.compactMap { $0["type"] == "res" ? "res" : $0["event"]?.string }
      let first = try #require(order.firstIndex(of: "agent"))
      #expect(order[..<first].last { $0 == "res" } != nil, "the acknowledgement goes first")
      let seqs = await owner.events("chat").compactMap { $0["payload"]?["seq"]?.int }
      #expect(seqs == seqs.sorted())
    }
  }

  @Test("the history proves that a message is stored, by its key")
  func history() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      try await owner.request("chat.send", send("first"))
      _ = try await chat(owner, "final")
      let history = try await owner.request("chat.history", ["sessionKey": "main"])
      let messages = try #require(history["messages"]?.array)
      #expect(messages.map { $0["role"]?.string } == ["user", "assistant"])
      #expect(messages.first?["idempotencyKey"] == "k-1:user")
      #expect(
        try await owner.request("chat.history", ["sessionKey": "main", "limit": 1])["messages"]?.array?.count == 1)
      let cut = try await owner.request("chat.history", ["sessionKey": "main", "maxChars": 3])
      #expect(cut["messages"]?.array?.first?["content"]?.array?.first?["text"] == "fir...(truncated)...")
      #expect(await gateway.transcript().count == 2)
    }
  }

  @Test("a key is one message: repeats are told how it stands, another text is a conflict")
  func idempotency() async throws {
    try await withGateway {
      $0.agent = { _ in [.say("a"), .wait(.seconds(60))] }
    } _: { gateway in
      let owner = try await gateway.owner()
      try await owner.request("chat.send", send("once"))
      #expect(try await owner.request("chat.send", send("once"))["status"] == "in_flight")
      let conflict = try await owner.error("chat.send", send("twice"))
      #expect(conflict?.details?["reason"] == "chat-request-conflict")
      _ = try await chat(owner, "delta")
      try await owner.request("chat.abort", ["sessionKey": "main"])
      #expect(try await owner.request("chat.send", send("once"))["status"] == "aborted")
      #expect(await gateway.transcript().count == 2)
    }
  }

  @Test("a run can be stopped; stopping nothing is no error; another session's run is")
  func abort() async throws {
    try await withGateway {
      $0.agent = { _ in [.say("part"), .wait(.seconds(60)), .say("rest")] }
    } _: { gateway in
      let owner = try await gateway.owner()
      try await owner.request("chat.send", send("long story"))
      _ = try await chat(owner, "delta")
      #expect(try await owner.error("chat.abort", ["sessionKey": "other", "runId": "k-1"])?.code == "INVALID_REQUEST")
      let aborted = try await owner.request("chat.abort", ["sessionKey": "main"])
      #expect(aborted == ["ok": true, "aborted": true, "runIds": ["k-1"]])
      #expect(try await chat(owner, "aborted")["message"]?["content"]?.array?.first?["text"] == "part")
      #expect(try await owner.request("chat.abort", ["sessionKey": "main"])["aborted"] == false)
      try await owner.request("chat.send", send("again", "k-2"))
      #expect(
        try await owner.request("chat.send", send("/stop", "k-3")) == ["ok": true, "aborted": true, "runIds": ["k-2"]])
    }
  }

  @Test("what an agent can do: phases, tools for those who asked, corrections, errors, silence")
  func steps() async throws {
    let agent: Agent = { turn in
      switch turn.text {
      case "fail": [.say("hm"), .fail(message: "no tokens left", kind: "rate_limit")]
      case "silent": [.say("quiet words"), .endSilently]
      default:
        [
          .status("starting_model"), .say("wrong"), .replace("right"),
          .tool(name: "clock", arguments: [:], result: ["time": 1]),
        ]
      }
    }
    try await withGateway {
      $0.agent = agent
    } _: { gateway in
      let owner = try await gateway.owner()
      var curious = try Badge.owner(gateway.token)
      curious.caps = ["tool-events"]
      let watcher = try await gateway.admit(curious)
      try await owner.request("chat.send", send("work"))
      #expect(try await chat(owner, "status")["phase"] == "starting_model")
      #expect(try await chat(owner, "final")["message"]?["content"]?.array?.first?["text"] == "right")
      func tools(_ peer: Peer) async -> Int {
        await peer.events("agent").count { $0["payload"]?["stream"] == "tool" }
      }
      _ = try await chat(watcher, "final")
      #expect(await tools(owner) == 0)
      #expect(await tools(watcher) == 2)
      try await owner.request("chat.send", send("fail", "k-2"))
      #expect(try await chat(owner, "error", run: "k-2")["errorKind"] == "rate_limit")
      try await owner.request("chat.send", send("silent", "k-3"))
      #expect(try await chat(owner, "final", run: "k-3")["message"] == nil)
      #expect(await gateway.transcript().last?["content"]?.array?.first?["text"] == "quiet words")
    }
  }

  @Test("a node hears of a session it has subscribed to, without numbers, and its spoken turns start runs")
  func node() async throws {
    try await withGateway { gateway in
      let node = try await gateway.admit(try Badge.node(gateway.token))
      let owner = try await gateway.owner()
      func event(_ name: String, _ payload: JSON) async throws {
        try await node.request("node.event", ["event": .string(name), "payloadJSON": .string(payload.text)])
      }
      try await event("voice.transcript", ["text": "not heard yet", "eventId": "e-1"])
      _ = await eventually { await owner.events("chat").contains { $0["payload"]?["state"] == "final" } }
      #expect(await node.events("chat").isEmpty)
      try await event("chat.subscribe", ["sessionKey": "main"])
      try await event("voice.transcript", ["text": "what time is it", "eventId": "e-2"])
      try await event("voice.transcript", ["text": "what time is it", "eventId": "e-2"])
      _ = await eventually { await node.events("chat").contains { $0["payload"]?["state"] == "final" } }
      let frames = await node.events("chat")
      #expect(frames.allSatisfy { $0["seq"] == nil })
      #expect(frames.first?["payload"]?["runId"]?.string?.hasPrefix("voice-") == true)
      #expect(await gateway.transcript().filter { $0["role"] == "user" }.count == 2, "a repeated event is one turn")
      try await event("agent.request", ["message": "from a link"])
      _ = await eventually { await gateway.transcript(of: "node-\(gateway.nodes()[0].nodeID)").count == 2 }
      try await event("chat.unsubscribe", ["sessionKey": "main"])
      let before = await node.events("chat").count
      try await owner.request("chat.send", send("unheard"))
      _ = try await chat(owner, "final")
      #expect(await node.events("chat").count == before)
    }
  }

  @Test("an owner's note is a message without a run; a clerk may not leave one")
  func inject() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      try await owner.request("chat.inject", ["sessionKey": "main", "message": "a note"])
      let told = try await owner.event("chat")
      #expect(told["state"] == "final")
      #expect(told["message"]?["content"]?.array?.first?["text"] == "a note")
      var clerk = try Badge.owner(gateway.token)
      clerk.scopes = ["operator.write"]
      let error = try await (try await gateway.admit(clerk)).error(
        "chat.inject", ["sessionKey": "main", "message": "x"])
      #expect(error?.detailsCode == "MISSING_SCOPE")
    }
  }

  @Test("what can't be sent")
  func refused() async throws {
    try await withGateway { gateway in
      let owner = try await gateway.owner()
      let wrong: [(JSON, String?)] = [
        (["sessionKey": "main", "message": " ", "idempotencyKey": "a"], nil),
        (["sessionKey": "main", "message": "a\0b", "idempotencyKey": "a"], nil),
        (["sessionKey": "main", "message": "a"], nil),
        (["sessionKey": .string(String(repeating: "k", count: 513)), "message": "a", "idempotencyKey": "a"], nil),
        (
          ["sessionKey": "main", "message": "a", "idempotencyKey": "a", "expectedSessionRoutingContract": "x|y|z"],
          "session-routing-changed"
        ),
        (["sessionKey": "main", "message": "a", "idempotencyKey": "a", "bogus": 1], nil),
      ]
      for (params, reason) in wrong {
        let error = try await owner.error("chat.send", params)
        #expect(error?.code == "INVALID_REQUEST", "\(params.text)")
        #expect(error?.details?["reason"]?.string == reason)
      }
      var good = send("a").object ?? [:]
      good["expectedSessionRoutingContract"] = "per-sender|main|main"
      good["thinking"] = "low"
      #expect(try await owner.request("chat.send", .object(good))["status"] == "started")
    }
  }
}
