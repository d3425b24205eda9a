import Crypto
import GatewayProtocol
import System

/// An event that a node has sent, as it came. Kept for tests and the demo to read.
public struct NodeEvent: Sendable, Equatable {
  public let nodeID: String
  /// For example `voice.transcript`.
  public let name: String
  /// The payload, parsed when it came as text; nil when there was none or it was no JSON.
  public let payload: JSON?
  public let atMs: Int64
}

/// `node.event` (protocol §10.4): every name is recorded and answered; some have an effect.
extension DevGateway {
  static let mostNodeEvents = 1000

  func record(_ name: String, _ payload: JSON?, of nodeID: String) {
    nodeEvents.append(NodeEvent(nodeID: nodeID, name: name, payload: payload, atMs: WallClock.milliseconds()))
    if nodeEvents.count > Self.mostNodeEvents { nodeEvents.removeFirst() }
  }

  func takeEvent(_ call: Call) throws(WireError) -> JSON {
    let params = try call.closed("event", "payload", "payloadJSON")
    let (name, text) = try call.reading { () throws(SchemaError) in
      (try params.text("event"), params["payloadJSON"] == .null ? nil : try params.optionalAnyText("payloadJSON"))
    }
    let payload = text.map { try? JSON(parsing: $0) } ?? params["payload"]
    record(name, payload, of: call.nodeID)
    func handled(_ isHandled: Bool, _ reason: String) -> JSON {
      ["ok": true, "event": .string(name), "handled": .bool(isHandled), "reason": .string(reason)]
    }
    switch name {
    case "node.presence.alive":
      guard Self.aliveTriggers.contains(payload?["trigger"]?.string ?? "") else {
        return handled(false, "invalid_payload")
      }
      if options.protocol3 { return ["ok": true] }
      if records.devices.paired[call.nodeID] == nil { return handled(false, "pairing_changed") }
      let reason = payload?["trigger"]?.string ?? "alive"
      records.devices.saw(call.nodeID, at: WallClock.milliseconds(), because: reason)
      return handled(true, "persisted")
    case "node.presence.activity": return activity(payload, call, handled)
    case "chat.subscribe", "chat.unsubscribe":
      guard let key = payload?["sessionKey"]?.string, !key.isEmpty else { return ["ok": true] }
      if name == "chat.subscribe" {
        call.connection.chatSessions.insert(ChatStore.canonical(key))
      } else {
        call.connection.chatSessions.remove(ChatStore.canonical(key))
      }
    case "voice.transcript": hear(payload)
    case "agent.request": askAgent(payload, nodeID: call.nodeID)
    // Only what a `system.run` of this gateway could have caused counts, and it runs none.
    case "exec.started", "exec.finished", "exec.denied": return handled(false, "unmatched_exec_event")
    case "push.apns.register":
      if let problem = Self.pushProblem(payload) { throw .invalid("invalid push.apns.register: \(problem)") }
    default: break
    }
    return ["ok": true]
  }

  private static let aliveTriggers: Set<String> = [
    "background", "silent_push", "bg_app_refresh", "significant_location", "manual", "connect",
  ]

  /// Whether somebody sits at the node; it must have been allowed to see that.
  private func activity(_ payload: JSON?, _ call: Call, _ handled: (Bool, String) -> JSON) -> JSON {
    if payload?["action"]?.string == "clear" {
      let wasKnown = idleSeconds.removeValue(forKey: call.nodeID) != nil
      return handled(wasKnown, wasKnown ? "cleared" : "already_clear")
    }
    guard let idle = payload?["idleSeconds"]?.int, 0...2_592_000 ~= idle else {
      return handled(false, "invalid_payload")
    }
    if call.seat.params.surface.permissions["accessibility"] != true { return handled(false, "permission_required") }
    idleSeconds[call.nodeID] = idle
    return handled(true, "updated")
  }

  /// A spoken turn starts a run of its own (talk-and-chat §2.3). Repeats of an event, bad and over-long payloads are dropped in silence.
  private func hear(_ payload: JSON?) {
    guard let text = payload?["text"]?.string?.trimmed, !text.isEmpty, text.unicodeScalars.count <= 20_000 else {
      return
    }
    let key = ChatStore.canonical(payload?["sessionKey"]?.string ?? ChatStore.mainKey)
    let ids = ["eventId", "providerEventId", "transcriptId"].compactMap { payload?[$0]?.string }
    let fingerprint = key + "\u{1F}" + (ids.first ?? text)
    if heardTranscripts.contains(fingerprint) { return }
    heardTranscripts.append(fingerprint)
    if heardTranscripts.count > 256 { heardTranscripts.removeFirst() }
    startRun(text, in: key, runID: "voice-" + Random.uuid())
  }

  private func askAgent(_ payload: JSON?, nodeID: String) {
    guard let text = payload?["message"]?.string?.trimmed, !text.isEmpty, text.unicodeScalars.count <= 20_000 else {
      return
    }
    let key = ChatStore.canonical(payload?["sessionKey"]?.string ?? "node-\(nodeID)")
    startRun(text, in: key, runID: payload?["key"]?.string ?? Random.uuid())
  }

  /// What is wrong with a push registration (§10.7); nil when nothing is.
  static func pushProblem(_ payload: JSON?) -> String? {
    func isFilled(_ key: String, _ limit: Int) -> Bool { 1...limit ~= (payload?[key]?.string ?? "").count }
    func isVisible(_ key: String, _ limit: Int) -> Bool {
      isFilled(key, limit) && (payload?[key]?.string ?? "").utf8.allSatisfy { 0x21...0x7E ~= $0 }
    }
    guard isFilled("topic", 255) else { return "topic must have 1 to 255 characters" }
    let environment = payload?["environment"]?.string
    guard ["sandbox", "production", nil].contains(environment) else { return "unknown environment" }
    if payload?["transport"]?.string == "relay" {
      if environment == nil { return "environment is required" }
      if payload?["distribution"]?.string != "official" { return "distribution must be official" }
      for (key, limit) in [("relayHandle", 256), ("installationId", 256), ("sendGrant", 1024)]
      where !isVisible(key, limit) {
        return "\(key) must have 1 to \(limit) visible ASCII characters"
      }
      return nil
    }
    let token = (payload?["token"]?.string ?? "").filter { !"<> ".contains($0) }
    return 32...512 ~= token.count && token.allSatisfy(\.isHexDigit) ? nil : "token must be 32 to 512 hex digits"
  }
}
