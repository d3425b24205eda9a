import Crypto
import GatewayProtocol
import System

/// Invokes of the gateway's own agent: begun, followed, called off, and waited for.
struct AgentInvokes {
  struct Ended: Sendable {
    let outcome: Result<InvokeResult, WireError>
    let chunks: [String]
  }

  /// Outcomes nobody has asked for yet; the oldest go first.
  private var ended: [String: Ended] = [:]
  private var order: [String] = []
  private var waiters: [String: CheckedContinuation<Ended, Never>] = [:]
  private static let mostKept = 256

  mutating func end(_ id: String, _ outcome: Result<InvokeResult, WireError>, chunks: [String]) {
    let result = Ended(outcome: outcome, chunks: chunks)
    if let waiter = waiters.removeValue(forKey: id) { return waiter.resume(returning: result) }
    ended[id] = result
    order.append(id)
    if order.count > Self.mostKept { ended[order.removeFirst()] = nil }
  }

  /// The outcome when it is there; then it is gone.
  mutating func take(_ id: String) -> Ended? {
    order.removeAll { $0 == id }
    return ended.removeValue(forKey: id)
  }

  mutating func wait(_ id: String, _ continuation: CheckedContinuation<Ended, Never>) { waiters[id] = continuation }
}

/// How an invoke of the agent ended well.
public struct InvokeReply: Sendable, Equatable {
  /// The payload's JSON text; nil when there was none.
  public let payloadText: [UInt8]?
  /// What came as `node.invoke.progress`, in order.
  public let chunks: [String]

  /// The payload as a value; null when there was none.
  public var payload: JSON { payloadText.flatMap { try? JSON(parsing: $0) } ?? .null }
}

extension DevGateway {
  /// Calls a command of a node as an agent would, and waits for the outcome. Throws what an operator would be told. Without `timeoutMs`
  /// the gateway waits 30 s, with 0 for ever.
  public func invoke(
    nodeID: String, command: String, params: JSON? = nil, timeoutMs: Int64? = nil, idempotencyKey: String? = nil
  ) async throws(WireError) -> JSON {
    let id = try beginInvoke(
      nodeID: nodeID, command: command, params: params, timeoutMs: timeoutMs, idempotencyKey: idempotencyKey)
    return try await reply(to: id).payload
  }

  /// Begins an invoke and returns its id. With `idleTimeoutMs` it is a streaming one: its chunks are kept, and silence ends it.
  public func beginInvoke(
    nodeID: String, command: String, params: JSON? = nil, timeoutMs: Int64? = nil, idleTimeoutMs: Int64? = nil,
    idempotencyKey: String? = nil, sessionKey: String? = nil
  ) throws(WireError) -> String {
    let id = Random.uuid()
    let asked = Asked(
      nodeID: nodeID, command: command, paramsText: params?.encoded(), timeoutMs: timeoutMs,
      idempotencyKey: idempotencyKey ?? Random.uuid(), sessionKey: sessionKey, idleTimeoutMs: idleTimeoutMs,
      isStreaming: idleTimeoutMs != nil)
    try begin(asked, for: .agent, id: id)
    restartIdleTimer(id)
    return id
  }

  /// Waits for an invoke that was begun. Each outcome can be asked for once; an id that is none fails at once.
  public func reply(to id: String) async throws(WireError) -> InvokeReply {
    let ended: AgentInvokes.Ended
    if let early = agentInvokes.take(id) {
      ended = early
    } else if invokes.entries[id] == nil {
      throw .invalid("unknown invoke")
    } else {
      ended = await withCheckedContinuation { agentInvokes.wait(id, $0) }
    }
    return InvokeReply(payloadText: try ended.outcome.get().payload, chunks: ended.chunks)
  }

  /// Calls an invoke off; it ends with `ABORTED`, and a late result is ignored.
  public func cancelInvoke(_ id: String) {
    guard let entry = giveUp(id) else { return }
    fail(entry, code: "ABORTED", message: "node invoke was called off")
  }

  /// Sends `node.invoke.input` to the node of a running invoke.
  public func sendInput(_ payload: JSON, to id: String) {
    guard let (entry, seq) = invokes.nextInput(id) else { return }
    connections[entry.connection]?.tell(
      "node.invoke.input",
      [
        "id": .string(id), "nodeId": .string(entry.nodeID), "seq": .int(seq), "payloadJSON": .string(payload.text),
      ])
  }
}
