import Crypto
import GatewayProtocol
import System

/// `chat.*` (talk-and-chat §6): sending, history, abort and inject, and the agent's run behind them.
extension Method {
  static let chats = [
    Method("chat.send", .operator, Scope.write) { gateway, call throws(WireError) in
      .payload(try gateway.chatSend(call))
    },
    Method("chat.history", .operator, Scope.read) { gateway, call throws(WireError) in
      let params = try call.closed(
        "sessionKey", "agentId", "limit", "offset", "messageId", "sessionId", "maxChars", "inputRunIds", "maxBytes")
      let (key, limit, offset, longest) = try call.reading { () throws(SchemaError) in
        (
          ChatStore.canonical(try params.text("sessionKey", limit: 512), agent: try params.optionalText("agentId")),
          try params.optionalWhole("limit", in: 1...1000) ?? 200, try params.optionalWhole("offset") ?? 0,
          try params.optionalWhole("maxChars", in: 1...500_000) ?? 12_000
        )
      }
      let session = gateway.chat.session(key)
      let messages = session.messages.dropLast(Int(min(offset, 1 << 30))).suffix(Int(limit))
      return .payload([
        "sessionKey": .string(key), "sessionId": .string(session.sessionID),
        "messages": .array(messages.map { $0.json(limit: Int(longest)) }), "thinkingLevel": "low",
      ])
    },
    Method("chat.message.get", .operator, Scope.read) { gateway, call throws(WireError) in
      let params = try call.closed("sessionKey", "agentId", "messageId", "maxChars")
      let (key, id, longest) = try call.reading { () throws(SchemaError) in
        (
          ChatStore.canonical(try params.text("sessionKey", limit: 512), agent: try params.optionalText("agentId")),
          try params.text("messageId"), try params.optionalWhole("maxChars", in: 1...2_000_000) ?? 500_000
        )
      }
      guard let message = gateway.chat.session(key).messages.first(where: { $0.id == id }) else {
        return .payload(["ok": false, "unavailableReason": "not_found"])
      }
      return .payload(["ok": true, "message": message.json(limit: Int(longest))])
    },
    Method("chat.abort", .operator, Scope.write) { gateway, call throws(WireError) in
      let params = try call.closed("sessionKey", "agentId", "runId", "preserveSideRuns")
      let (key, runID) = try call.reading { () throws(SchemaError) in
        _ = try params.optionalFlag("preserveSideRuns")
        return (
          ChatStore.canonical(try params.text("sessionKey", limit: 512), agent: try params.optionalText("agentId")),
          try params.optionalText("runId")
        )
      }
      guard let runs = gateway.chat.running(in: key, runID: runID) else {
        throw .invalid("runId does not match sessionKey")
      }
      return .payload(gateway.abort(runs))
    },
    Method("chat.inject", .operator, Scope.admin) { gateway, call throws(WireError) in
      let params = try call.closed("sessionKey", "agentId", "message", "label")
      let (key, text) = try call.reading { () throws(SchemaError) in
        _ = try params.optionalText("label", limit: 100)
        return (
          ChatStore.canonical(try params.text("sessionKey", limit: 512), agent: try params.optionalText("agentId")),
          try params.text("message")
        )
      }
      return .payload(["ok": true, "messageId": .string(gateway.say(text, in: key))])
    },
  ]
}

extension DevGateway {
  /// Adds a message of the agent's to a session, without a run. Returns its id.
  @discardableResult
  public func say(_ text: String, in sessionKey: String = "main") -> String {
    let key = ChatStore.canonical(sessionKey)
    let message = chat.add("assistant", text, to: key, nowMs: WallClock.milliseconds())
    let run = ChatStore.Run(runID: "inject-" + message.id, sessionKey: key, input: "", text: text, seq: 1)
    tellChat(run, "final", ["message": chatMessage(run)])
    return message.id
  }

  func chatSend(_ call: Call) throws(WireError) -> JSON {
    let params = try call.closed(
      "sessionKey", "message", "idempotencyKey", "agentId", "sessionId", "thinking", "fastMode", "queueMode", "deliver",
      "replyToId", "attachments", "timeoutMs", "expectedLeafEntryId", "expectedSessionRoutingContract", "mentions")
    let (key, text, runID) = try call.reading { () throws(SchemaError) in
      (
        ChatStore.canonical(try params.text("sessionKey", limit: 512), agent: try params.optionalText("agentId")),
        try params.anyText("message"), try params.text("idempotencyKey")
      )
    }
    if let contract = params["expectedSessionRoutingContract"]?.string, contract != "per-sender|main|main" {
      throw .invalid("session routing changed", details: ["reason": "session-routing-changed"])
    }
    if text.utf8.contains(0) { throw .invalid("message must not contain null bytes") }
    let clean = String(
      String.UnicodeScalarView(text.unicodeScalars.filter { $0.value >= 32 || "\t\n\r".unicodeScalars.contains($0) }))
    if clean.trimmed.isEmpty && (params["attachments"]?.array ?? []).isEmpty {
      throw .invalid("message or attachment required")
    }
    if clean.trimmed == "/stop" { return abort(chat.running(in: key, runID: nil) ?? []) }
    switch startRun(clean, in: key, runID: runID) {
    case .started: return ["runId": .string(runID), "status": "started"]
    case .inFlight: return ["runId": .string(runID), "status": "in_flight"]
    case .ended(let status): return ["runId": .string(runID), "status": .string(status)]
    case .conflict:
      throw .invalid(
        "idempotency key was used for a different message", details: ["reason": "chat-request-conflict"])
    }
  }

  @discardableResult
  func startRun(_ text: String, in key: String, runID: String) -> ChatStore.SendVerdict {
    let verdict = chat.send(text, to: key, runID: runID, nowMs: WallClock.milliseconds())
    guard case .started = verdict else { return verdict }
    let steps = options.agent(AgentTurn(sessionKey: key, runID: runID, text: text))
    // The answer to `chat.send` goes out first.
    runTasks[runID] = Task {
      tellAgent(runID, "lifecycle", ["phase": "start", "startedAt": .int(WallClock.milliseconds())])
      await play(steps, of: runID)
      // A run that was cut off may have been started anew under its id: that task is not this one's to forget.
      if !Task.isCancelled { runTasks[runID] = nil }
    }
    return verdict
  }

  private func play(_ steps: [AgentStep], of runID: String) async {
    for step in steps {
      switch step {
      case .wait(let time):
        do { try await Task.sleep(for: time) } catch { return }
      case .say(let text): say(text, runID)
      case .replace(let text): say(text, runID, replacing: true)
      case .status(let phase):
        guard let run = chat.advance(runID) else { return }
        tellChat(run, "status", ["phase": .string(phase)])
      case .tool(let name, let arguments, let result):
        let id = Random.uuid()
        tellAgent(
          runID, "tool", ["phase": "start", "toolCallId": .string(id), "name": .string(name), "args": arguments])
        tellAgent(
          runID, "tool", ["phase": "result", "toolCallId": .string(id), "name": .string(name), "result": result])
      case .fail(let message, let kind): return end(runID, "error", error: message, kind: kind)
      case .endSilently: return end(runID, "ok", isSilent: true)
      }
    }
    end(runID, "ok")
  }

  private func say(_ text: String, _ runID: String, replacing: Bool = false) {
    guard let run = chat.advance(runID, saying: text, replacing: replacing) else { return }
    // An old gateway sends the whole text so far and no difference (§6.4).
    var members: [String: JSON] = ["message": chatMessage(run)]
    if !options.protocol3 { members["deltaText"] = .string(text) }
    if replacing { members["replace"] = true }
    tellChat(run, "delta", members)
    tellAgent(runID, "assistant", ["text": .string(run.text), "delta": .string(text)])
  }

  private func end(
    _ runID: String, _ status: String, error: String? = nil, kind: String? = nil, isSilent: Bool = false
  ) {
    tellAgent(
      runID, "lifecycle", ["phase": status == "error" ? "error" : "end", "endedAt": .int(WallClock.milliseconds())])
    guard let run = chat.end(runID, as: status, error: error, nowMs: WallClock.milliseconds()) else { return }
    switch status {
    case "error":
      tellChat(run, "error", ["errorMessage": .string(error ?? ""), "errorKind": .string(kind ?? "unknown")])
    case "aborted": tellChat(run, "aborted", run.text.isEmpty ? [:] : ["message": chatMessage(run)])
    default: tellChat(run, "final", isSilent ? [:] : ["message": chatMessage(run), "stopReason": "stop"])
    }
  }

  func abort(_ runs: [ChatStore.Run]) -> JSON {
    for run in runs {
      end(run.runID, "aborted")
      runTasks.removeValue(forKey: run.runID)?.cancel()
    }
    return ["ok": true, "aborted": .bool(!runs.isEmpty), "runIds": .strings(runs.map(\.runID).sorted())]
  }

  // MARK: Events (§6.4)

  func chatMessage(_ run: ChatStore.Run) -> JSON {
    [
      "role": "assistant", "content": [["type": "text", "text": .string(run.text)]],
      "timestamp": .int(WallClock.milliseconds()),
    ]
  }

  func tellChat(_ run: ChatStore.Run, _ state: String, _ members: [String: JSON]) {
    var payload = members
    payload["runId"] = .string(run.runID)
    payload["sessionKey"] = .string(run.sessionKey)
    payload["agentId"] = .string(ChatStore.agent(of: run.sessionKey))
    payload["seq"] = .int(run.seq)
    payload["state"] = .string(state)
    tellSession(run.sessionKey, "chat", .object(payload), droppable: state == "delta") { _ in true }
  }

  private func tellAgent(_ runID: String, _ stream: String, _ data: JSON) {
    guard let run = chat.advance(runID) else { return }
    let payload: JSON = [
      "runId": .string(runID), "seq": .int(run.seq), "stream": .string(stream), "ts": .int(WallClock.milliseconds()),
      "sessionKey": .string(run.sessionKey), "data": data,
    ]
    tellSession(run.sessionKey, "agent", payload, droppable: true) { connection in
      // Tools are only shown to those who asked (§6.2).
      stream != "tool" || connection.seat?.params.surface.caps.contains("tool-events") ?? false
    }
  }

  /// To every operator that may read, and, without a number, to the nodes that subscribed.
  private func tellSession(
    _ key: String, _ event: String, _ payload: JSON, droppable: Bool, where wants: (Connection) -> Bool
  ) {
    broadcast(event, payload, droppable: droppable) { $0.holds(Scope.read) && wants($0) }
    for connection in connections.values
    where connection.isNode && connection.chatSessions.contains(key) && wants(connection) {
      connection.tell(event, payload)
    }
  }
}
