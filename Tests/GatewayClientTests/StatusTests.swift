import GatewayProtocol
import Testing

@testable import GatewayClient

@Suite("What the gateway says of this node")
struct DescriptionTests {
  static let surface = NodeSurface(
    caps: ["camera", "device", "system"], commands: ["camera.snap", "device.info", "system.notify", "talk.ptt.once"])

  func describe(_ members: [String: JSON]) throws -> NodeDescription {
    var members = members
    members["nodeId"] = "me"
    return try #require(NodeDescription(payload: .object(members), nodeID: "me"))
  }

  func reasons(_ description: NodeDescription, invoked: Set<String> = []) -> [String: WithheldCommand.Reason] {
    let withheld = description.judge(Self.surface, invoked: invoked).withheld
    return Dictionary(uniqueKeysWithValues: withheld.map { ($0.command, $0.reason) })
  }

  @Test("names every command it withholds, and why")
  func withheld() throws {
    let approved = try describe([
      "approvalState": "approved", "commands": ["system.notify", "talk.ptt.once"], "connected": true,
    ])
    #expect(approved.judge(Self.surface, invoked: []).state == .approved)
    #expect(approved.judge(Self.surface, invoked: []).effective == ["system.notify", "talk.ptt.once"])
    #expect(reasons(approved) == ["camera.snap": .dangerous, "device.info": .notAllowlisted])
    // An agent has called it, so the gateway's owner has just let it in.
    #expect(reasons(approved, invoked: ["device.info"]) == ["camera.snap": .dangerous])
  }

  @Test("tells a command that waits from one that is cut")
  func pending() throws {
    let description = try describe([
      "approvalState": "pending-reapproval", "commands": ["system.notify"], "connected": true,
      "pendingRequestId": "s-1",
      "pendingDeclaredCommands": ["system.notify", "talk.ptt.once"],
    ])
    let (state, withheld, effective) = description.judge(Self.surface, invoked: [])
    #expect(state == .pending && effective == ["system.notify"])
    #expect(
      reasons(description) == [
        "camera.snap": .dangerous, "device.info": .notAllowlisted, "talk.ptt.once": .notApproved,
      ])
    #expect(
      withheld.first { $0.command == "talk.ptt.once" }?.remedy == "On the gateway host: openclaw nodes approve s-1")
  }

  @Test("of an older version is understood by what it does not say")
  func older() throws {
    let pending = try describe(["commands": [], "connected": true])
    #expect(pending.judge(Self.surface, invoked: []).state == .pending)
    #expect(Set(reasons(pending).values) == [.notApproved])
    let approved = try describe(["commands": ["system.notify", "talk.ptt.once"], "connected": true])
    #expect(approved.judge(Self.surface, invoked: []).state == .approved)
    #expect(reasons(approved) == ["camera.snap": .dangerous, "device.info": .notAllowlisted])
    let nothing = try describe(["commands": [], "connected": true])
    #expect(nothing.judge(NodeSurface(), invoked: []).state == .approved)
  }

  @Test("about a node that is away says nothing about the allow-list")
  func away() throws {
    let description = try describe(["approvalState": "approved", "commands": [], "connected": false])
    #expect(Set(reasons(description).values) == [.notDeclared])
  }

  @Test("about another node is not taken for this one")
  func other() {
    #expect(NodeDescription(payload: ["nodeId": "other"], nodeID: "me") == nil)
    #expect(NodeDescription(payload: .null, nodeID: "me") == nil)
  }

  @Test("can't smuggle a command into a remedy")
  func hostileRequestID() throws {
    let description = try describe(["approvalState": "pending-approval", "pendingRequestId": "x; rm -rf ~"])
    #expect(description.pendingRequestID == nil)
  }
}

@Suite("The link's status")
struct StatusTests {
  static let full: LinkStatus = {
    var status = LinkStatus(gatewayID: "manual|h|1", name: "Home", url: "ws://h:1")
    status.serverVersion = "2026.5.31"
    status.node = .connected(sinceMs: 5)
    status.operator = .waitingForApproval(requestID: "op-1", reason: "role-upgrade")
    status.surface = .pending
    status.missing = [
      MissingApproval(kind: .surface, requestID: nil, reason: "unknown-until-operator-approved", sinceMs: 0),
      MissingApproval(kind: .operator, requestID: "op-1", reason: "role-upgrade", sinceMs: 6),
    ]
    status.withheld = [WithheldCommand(command: "camera.snap", reason: .dangerous, remedy: "r")]
    status.effectiveCommands = ["system.notify"]
    status.presence = "persisted"
    return status
  }()

  @Test(
    "is the same after a way through JSON",
    arguments: [
      SocketStatus.idle, .connecting(attempt: 3), .waitingForApproval(requestID: nil, reason: "not-paired"),
      .backingOff(untilMs: 9, reason: "refused"), .connected(sinceMs: 4),
      .stopped(code: "C", summary: "s", remedy: "r"),
    ])
  func roundTrip(socket: SocketStatus) {
    var status = Self.full
    status.node = socket
    #expect(LinkStatus(json: status.json) == status)
  }

  @Test("has the keys that scripts read")
  func keys() throws {
    let json = Self.full.json
    let names = Set(try #require(json.object).keys)
    #expect(
      names == [
        "gateway", "name", "url", "serverVersion", "node", "operator", "surface", "missing", "withheld",
        "effectiveCommands",
        "presence", "complete",
      ])
    #expect(json["operator"] == ["state": "waiting", "requestId": "op-1", "reason": "role-upgrade"])
    #expect(
      json["missing"]?.array?.last == [
        "kind": "operator", "requestId": "op-1", "command": "openclaw devices approve op-1", "reason": "role-upgrade",
        "sinceMs": 6,
      ])
    #expect(json["missing"]?.array?.first?["command"] == "openclaw nodes pending")
    #expect(json["complete"] == false)
  }

  @Test("is turned into the steps of pairing, each told once")
  func progress() {
    var progress = PairingProgress()
    var status = LinkStatus(gatewayID: "g", name: "n", url: "ws://h:1")
    status.node = .waitingForApproval(requestID: "d-1", reason: "not-paired")
    let device = MissingApproval(kind: .device, requestID: "d-1", reason: "not-paired", sinceMs: 1)
    status.missing = [device]
    #expect(progress.on(status) == [.missing(device)])
    #expect(progress.on(status) == [])
    #expect(device.command == "openclaw devices approve d-1")

    status.node = .connected(sinceMs: 2)
    status.operator = .waitingForApproval(requestID: "o-1", reason: "role-upgrade")
    let surface = MissingApproval(kind: .surface, requestID: nil, reason: "unknown-until-operator-approved", sinceMs: 0)
    let role = MissingApproval(kind: .operator, requestID: "o-1", reason: "role-upgrade", sinceMs: 3)
    status.missing = [surface, role]
    #expect(progress.on(status) == [.approved(.device), .missing(surface), .missing(role)])

    status.operator = .connected(sinceMs: 4)
    status.surface = .pending
    let named = MissingApproval(kind: .surface, requestID: "s-1", reason: "not-approved", sinceMs: 5)
    status.missing = [named]
    #expect(progress.on(status) == [.approved(.operator), .missing(named)])
    #expect(!progress.isComplete)

    status.surface = .approved
    status.missing = []
    #expect(progress.on(status) == [.approved(.surface), .complete])
    #expect(progress.isComplete && progress.on(status) == [])

    status.node = .backingOff(untilMs: 1, reason: "lost")
    #expect(progress.on(status) == [.retrying(.node, reason: "lost")])
    #expect(!progress.isComplete)
    status.node = .stopped(code: "X", summary: "s", remedy: "r")
    #expect(progress.on(status) == [.stopped(.node, code: "X", summary: "s", remedy: "r")])
    #expect(progress.on(status) == [])
  }

  @Test("every step is a sentence, and names the command for the gateway host")
  func sentences() {
    let events: [PairingEvent] = [
      .route(url: "ws://h:1", answers: false), .unreachable(url: "u", reason: "r"),
      .certificate(url: "u", fingerprint: "f", isSystemTrusted: true), .stored(id: "i", url: "u"), .approved(.device),
      .approved(.surface), .approved(.operator), .retrying(.node, reason: "r"),
      .stopped(.operator, code: "c", summary: "s.", remedy: "m"), .complete,
    ]
    for event in events { #expect(!event.sentence.isEmpty && event.json["event"]?.string != nil) }
    for kind in MissingApproval.Kind.allCases {
      let event = PairingEvent.missing(MissingApproval(kind: kind, requestID: "q-7", reason: "", sinceMs: 0))
      #expect(event.sentence.contains("openclaw \(kind == .surface ? "nodes" : "devices") approve q-7"))
    }
  }
}
