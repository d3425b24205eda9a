import GatewayProtocol
import System

/// Events to many, with their numbers and the rule for slow consumers (protocol §1.2, §2.3, §10.8).
extension DevGateway {
  /// Sends to every open connection that `audience` takes. One that has too much unsent misses a droppable event, though it is
  /// counted, and is closed by another.
  func broadcast(
    _ event: String, _ payload: JSON, droppable: Bool = false, withStateVersion: Bool = false,
    to audience: (Connection) -> Bool = { _ in true }
  ) {
    var body: [UInt8] = Array(#"{"type":"event","event":"#.utf8)
    JSON.encode(string: event, into: &body)
    body.append(contentsOf: #","payload":"#.utf8)
    payload.encode(into: &body)
    if withStateVersion {
      body.append(contentsOf: #","stateVersion":"#.utf8)
      stateVersionJSON.encode(into: &body)
    }
    for connection in connections.values where connection.seat != nil && audience(connection) {
      connection.seq += 1
      if connection.unsent > options.maxBufferedBytes {
        if !droppable { connection.close(1008, "slow consumer") }
        continue
      }
      connection.post(body + Array(#","seq":\#(connection.seq)}"#.utf8))
    }
  }

  /// Tells operators with the pairing scope (§6.8).
  func announce(_ notices: [Notice]) {
    for notice in notices {
      broadcast(notice.event, notice.payload) { $0.holds(Scope.pairing) }
      for listener in listeners.values { listener.yield(notice) }
    }
  }

  var stateVersionJSON: JSON { ["presence": .int(stateVersion.presence), "health": .int(stateVersion.health)] }

  func tellHealth() {
    stateVersion.health += 1
    broadcast("health", health, droppable: true, withStateVersion: true)
  }

  /// The `health` snapshot.
  var health: JSON {
    let nodes = Set(connections.values.compactMap(\.nodeID)).count
    return [
      "ok": true, "ts": .int(WallClock.milliseconds()), "durationMs": 0, "channels": [:],
      "nodes": ["connected": .int(Int64(nodes)), "paired": .int(Int64(records.surfaces.approved.count))],
    ]
  }

  /// The `presence` payload: who is connected.
  var presence: JSON {
    let entries = connections.values.sorted { $0.id < $1.id }.compactMap { connection -> JSON? in
      guard let seat = connection.seat else { return nil }
      let client = seat.params.client
      return .object(present: [
        "ts": .int(connection.openedAtMs), "host": client.displayName.map(JSON.string),
        "clientId": .string(client.id), "mode": .string(client.mode), "version": .string(client.version),
        "platform": .string(seat.kind.platform), "deviceFamily": seat.kind.deviceFamily.map(JSON.string),
        "modelIdentifier": client.modelIdentifier.map(JSON.string), "deviceId": seat.deviceID.map(JSON.string),
        "roles": [.string(seat.role.rawValue)], "scopes": .strings(seat.scopes),
        "instanceId": client.instanceID.map(JSON.string), "reason": "connect",
      ])
    }
    return ["presence": .array(entries)]
  }

  /// The newest open connection of a node: a second one does not end the first, but is the one that is asked.
  func connection(ofNode nodeID: String) -> Connection? {
    connections.values.filter { $0.nodeID == nodeID }.max { $0.id < $1.id }
  }
}
