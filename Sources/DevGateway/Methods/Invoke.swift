import Crypto
import GatewayProtocol
import System

/// `node.invoke` and its answer, `node.invoke.result` (protocol §10.2, §10.3, §10.9).
///
/// This is the path the benchmark measures: a result is passed on as the text it came in, without being read into values.
extension DevGateway {
  /// What is asked of a node.
  struct Asked {
    var nodeID: String
    var command: String
    /// The params' JSON text.
    var paramsText: [UInt8]?
    var timeoutMs: Int64?
    var idempotencyKey: String
    var sessionKey: String?
    /// Wanted by agents that follow a stream.
    var idleTimeoutMs: Int64?
    /// With one, a cancel is sent to any client.
    var isStreaming = false
    var isAdmin = true
  }

  func invoke(_ call: Call) throws(WireError) {
    let params = try call.closed(
      "nodeId", "command", "params", "timeoutMs", "idempotencyKey", "sessionKey", "turnSourceChannel", "turnSourceTo",
      "turnSourceAccountId", "turnSourceThreadId")
    let asked = try call.reading { () throws(SchemaError) in
      Asked(
        nodeID: try params.text("nodeId"), command: try params.text("command"), paramsText: params["params"]?.encoded(),
        timeoutMs: try params.optionalWhole("timeoutMs"), idempotencyKey: try params.text("idempotencyKey"),
        sessionKey: try params.optionalText("sessionKey"), isAdmin: Scope.covers(call.seat.scopes, Scope.admin))
    }
    try begin(asked, for: .operator(connection: call.connection.id, requestID: call.id), id: Random.uuid())
  }

  /// Passes the gates of §11.5, sends the request to the node, and starts its clock.
  func begin(_ asked: Asked, for caller: InvokeRegistry.Caller, id: String) throws(WireError) {
    if CommandPolicy.neverInvoked.contains(asked.command) {
      throw .invalid(
        "node.invoke does not allow \(asked.command); it has a method of its own",
        details: ["command": .string(asked.command)])
    }
    if CommandPolicy.adminInvoke.contains(asked.command) && !asked.isAdmin {
      throw Scope.missing(Scope.admin, of: [Scope.admin])
    }
    guard let connection = connection(ofNode: asked.nodeID), let seat = connection.seat else {
      throw WireError(code: "UNAVAILABLE", message: "node not connected", details: ["code": "NOT_CONNECTED"])
    }
    let effective = effectiveSurface(seat)
    if let refusal = records.policy.refusal(
      of: asked.command, on: seat.kind, declared: seat.declared, effective: effective)
    {
      throw refusal
    }
    let sendsCancel = asked.isStreaming || seat.params.client.id == "node-host"
    invokes.begin(
      InvokeRegistry.Entry(
        id: id, nodeID: asked.nodeID, connection: connection.id, command: asked.command, sendsCancel: sendsCancel,
        caller: caller, asked: asked))
    startTimer(id, limitMs: asked.timeoutMs ?? Int64(ProtocolLimits.invokeTimeout.milliseconds))
    connection.post(Self.requestFrame(id, asked))
  }

  private static func requestFrame(_ id: String, _ asked: Asked) -> [UInt8] {
    var out: [UInt8] = Array(#"{"type":"event","event":"node.invoke.request","payload":{"id":"#.utf8)
    JSON.encode(string: id, into: &out)
    func member(_ name: StaticString, _ value: String) {
      out.append(contentsOf: ",\"\(name)\":".utf8)
      JSON.encode(string: value, into: &out)
    }
    member("nodeId", asked.nodeID)
    member("command", asked.command)
    out.append(contentsOf: #","paramsJSON":"#.utf8)
    if let text = asked.paramsText {
      text.withUnsafeBytes { JSON.encode(stringBytes: $0, into: &out) }
    } else {
      out.append(contentsOf: "null".utf8)
    }
    if let timeout = asked.timeoutMs { out.append(contentsOf: ",\"timeoutMs\":\(timeout)".utf8) }
    member("idempotencyKey", asked.idempotencyKey)
    if let key = asked.sessionKey { member("sessionKey", key) }
    out.append(contentsOf: "}}".utf8)
    return out
  }

  // MARK: The clock

  /// 0 = no limit.
  private func startTimer(_ id: String, limitMs: Int64) {
    if limitMs == 0 { return }
    invokeTimers[id] = loop.after(.milliseconds(limitMs)) { [weak self] in
      self?.assumeIsolated { gateway in
        guard let entry = gateway.giveUp(id) else { return }
        gateway.fail(entry, code: "TIMEOUT", message: "node invoke timed out")
      }
    }
  }

  /// Starts the idle clock of a streaming invoke anew; its expiry is another error than the deadline's.
  func restartIdleTimer(_ id: String) {
    guard let limit = invokes.entries[id]?.asked.idleTimeoutMs else { return }
    if let old = idleTimers[id] { loop.cancel(old) }
    idleTimers[id] = loop.after(.milliseconds(limit)) { [weak self] in
      self?.assumeIsolated { gateway in
        guard let entry = gateway.giveUp(id) else { return }
        gateway.fail(entry, code: "IDLE_TIMEOUT", message: "node invoke was idle for too long")
      }
    }
  }

  private func stopTimers(_ id: String) {
    if let timer = invokeTimers.removeValue(forKey: id) { loop.cancel(timer) }
    if let timer = idleTimers.removeValue(forKey: id) { loop.cancel(timer) }
  }

  /// Takes the invoke off the list and tells the node to stop, where it is told.
  func giveUp(_ id: String) -> InvokeRegistry.Entry? {
    guard let entry = invokes.giveUp(id) else { return nil }
    if entry.sendsCancel {
      connections[entry.connection]?.tell(
        "node.invoke.cancel", ["invokeId": .string(id), "nodeId": .string(entry.nodeID)])
    }
    return entry
  }

  // MARK: The answer

  private static let resultMembers: Set = ["id", "nodeId", "ok", "payload", "payloadJSON", "error"]

  /// `node.invoke.result`, from its text.
  func takeResult(_ frame: RawObject, id requestID: String, from connection: Connection) {
    func refuse(_ problem: String) {
      connection.answer(requestID, .failure(Call.invalid("node.invoke.result", problem)))
    }
    guard let range = frame["params"], let params = try? RawObject(frame.bytes, in: range) else {
      return refuse("at root: must be object")
    }
    if let extra = params.members.map(\.key).first(where: { !Self.resultMembers.contains($0) }) {
      return refuse("at root: unexpected property '\(extra)'")
    }
    guard let id = params.string("id"), let nodeID = params.string("nodeId"), let ok = params.bool("ok") else {
      return refuse("at root: must have required properties 'id', 'nodeId', 'ok'")
    }
    if nodeID != connection.nodeID {
      return connection.answer(requestID, .failure(.invalid("nodeId mismatch")))
    }
    guard let entry = invokes.end(id, from: connection.id) else {
      return connection.answer(requestID, .success(["ok": true, "ignored": true]))
    }
    // Whoever asked is told first: nobody waits for the receipt.
    defer { connection.answer(requestID, .success(["ok": true])) }
    let error = params.json("error")
    if ok {
      settle(entry, .success(InvokeResult(params)))
    } else if park(entry, error, seat: connection.seat) {
      let details: JSON = ["code": "QUEUED_UNTIL_FOREGROUND", "command": .string(entry.command)]
      settle(
        entry,
        .failure(
          WireError(
            code: "UNAVAILABLE", message: "node command queued until the app is in the foreground", details: details,
            retryable: true)))
    } else {
      fail(
        entry, code: error?["code"]?.string ?? "UNAVAILABLE",
        message: error?["message"]?.string ?? "node invoke failed", details: error?["details"])
    }
  }

  /// A phone in the background: what needs its foreground waits in its queue (§10.5).
  private func park(_ entry: InvokeRegistry.Entry, _ error: JSON?, seat: Admission.Welcome?) -> Bool {
    let isBackground =
      error?["code"]?.string == "NODE_BACKGROUND_UNAVAILABLE"
      || error?["message"]?.string?.contains("BACKGROUND_UNAVAILABLE") ?? false
    guard isBackground, seat?.kind.family == .ios, PendingQueues.isForegroundOnly(entry.command) else { return false }
    queues.park(
      PendingQueues.Action(
        id: Random.uuid(), command: entry.command,
        paramsText: entry.asked.paramsText.map { String(decoding: $0, as: UTF8.self) },
        idempotencyKey: entry.asked.idempotencyKey, enqueuedAtMs: WallClock.milliseconds()),
      for: entry.nodeID)
    return true
  }

  /// What is said of a node's failure, and of the gateway's own for it: `CODE: text` (§10.9).
  func fail(_ entry: InvokeRegistry.Entry, code: String, message: String, details: JSON? = nil) {
    let nodeError = JSON.object(present: ["code": .string(code), "message": .string(message), "details": details])
    settle(
      entry,
      .failure(
        WireError(code: "UNAVAILABLE", message: "\(code): \(message)", details: ["nodeError": nodeError])))
  }

  private func settle(_ entry: InvokeRegistry.Entry, _ outcome: Result<InvokeResult, WireError>) {
    stopTimers(entry.id)
    switch entry.caller {
    case .agent: agentInvokes.end(entry.id, outcome, chunks: entry.stream.chunks)
    case .operator(let id, let requestID):
      guard let connection = connections[id] else { return }
      switch outcome {
      case .success(let result):
        connection.post(result.response(to: requestID, nodeID: entry.nodeID, command: entry.command))
      case .failure(let error): connection.answer(requestID, .failure(error))
      }
    }
  }
}

/// A node's result, as text.
struct InvokeResult: Sendable {
  /// The payload's JSON text; nil when there is none, or when it is none.
  let payload: [UInt8]?
  /// The same as a JSON string, with its quotes.
  private let payloadString: [UInt8]?

  init(_ params: RawObject) {
    if let range = params["payloadJSON"], params.isString("payloadJSON") {
      let text = Array((params.string("payloadJSON") ?? "").utf8)
      payloadString = Array(params.bytes[range])
      payload = RawObject.isJSON(text) ? text : nil
    } else if let range = params["payload"] ?? params["payloadJSON"] {
      // A `payloadJSON` that is no string is moved to `payload` (§10.2).
      payload = Array(params.bytes[range])
      var string: [UInt8] = []
      params.bytes[range].withUnsafeBytes { JSON.encode(stringBytes: $0, into: &string) }
      payloadString = string
    } else {
      payload = nil
      payloadString = nil
    }
  }

  func response(to requestID: String, nodeID: String, command: String) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity((payload?.count ?? 0) + (payloadString?.count ?? 0) + 256)
    out.append(contentsOf: #"{"type":"res","id":"#.utf8)
    JSON.encode(string: requestID, into: &out)
    out.append(contentsOf: #","ok":true,"payload":{"ok":true,"nodeId":"#.utf8)
    JSON.encode(string: nodeID, into: &out)
    out.append(contentsOf: #","command":"#.utf8)
    JSON.encode(string: command, into: &out)
    if let payload {
      out.append(contentsOf: #","payload":"#.utf8)
      out.append(contentsOf: payload)
    }
    if let payloadString {
      out.append(contentsOf: #","payloadJSON":"#.utf8)
      out.append(contentsOf: payloadString)
    }
    out.append(contentsOf: "}}".utf8)
    return out
  }
}
