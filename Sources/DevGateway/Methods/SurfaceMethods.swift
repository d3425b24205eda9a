import GatewayProtocol
import System

/// `node.pair.*` and `node.rename`: what of a node may be used (protocol §6.6, §6.7).
extension Method {
  static let surfaces = [
    Method("node.pair.list", .operator, Scope.pairing) { gateway, call throws(WireError) in
      _ = try call.closed()
      return .payload(gateway.surfaceList())
    },
    Method("node.pair.approve", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("requestId")
      let id = try call.reading { () throws(SchemaError) in try params.text("requestId") }
      return .payload(try gateway.approve(surface: id, holding: call.seat.scopes))
    },
    Method("node.pair.reject", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("requestId")
      let id = try call.reading { () throws(SchemaError) in try params.text("requestId") }
      return .payload(try gateway.reject(surface: id))
    },
    Method("node.pair.remove", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("nodeId")
      let id = try call.reading { () throws(SchemaError) in try params.text("nodeId") }
      return .payload(try gateway.remove(surface: id))
    },
    Method("node.rename", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("nodeId", "displayName")
      let (id, name) = try call.reading { () throws(SchemaError) in
        (try params.text("nodeId"), try params.text("displayName"))
      }
      guard gateway.records.surfaces.approved[id] != nil else { throw .invalid("unknown nodeId") }
      gateway.records.surfaces.rename(id, to: name)
      return .payload(["nodeId": .string(id), "displayName": .string(name)])
    },
  ]
}

extension DevGateway {
  func surfaceList() -> JSON {
    let pending = records.surfaces.pendingNow(WallClock.milliseconds()).map(\.listed)
    let paired = records.surfaces.approved.values.sorted { $0.approvedAtMs > $1.approvedAtMs }.map(\.json)
    return ["pending": .array(pending), "paired": .array(paired)]
  }

  /// Takes effect on the live connection: what is effective is worked out anew at every use.
  func approve(surface requestID: String, holding scopes: [String]) throws(WireError) -> JSON {
    let nowMs = WallClock.milliseconds()
    guard let request = records.surfaces.pendingNow(nowMs).first(where: { $0.requestID == requestID }) else {
      throw .invalid("unknown requestId")
    }
    try Scope.demand(request.requiredScopes, of: scopes)
    guard let approved = records.surfaces.approve(requestID, nowMs: nowMs) else { throw .invalid("unknown requestId") }
    resolve(requestID, of: approved.node.nodeID, "approved")
    return ["requestId": .string(requestID), "node": approved.json]
  }

  func reject(surface requestID: String) throws(WireError) -> JSON {
    guard let request = records.surfaces.reject(requestID, nowMs: WallClock.milliseconds()) else {
      throw .invalid("unknown requestId")
    }
    resolve(requestID, of: request.node.nodeID, "rejected")
    return ["requestId": .string(requestID), "nodeId": .string(request.node.nodeID)]
  }

  func remove(surface nodeID: String) throws(WireError) -> JSON {
    guard let resolved = records.surfaces.remove(nodeID) else { throw .invalid("unknown nodeId") }
    announce(resolved.map { $0.notice(WallClock.milliseconds()) })
    for connection in connections.values where connection.nodeID == nodeID {
      connection.close(4001, "client invalidated: node removed")
    }
    return ["nodeId": .string(nodeID)]
  }

  private func resolve(_ requestID: String, of nodeID: String, _ decision: String) {
    let resolved = SurfaceStore.Resolved(requestID: requestID, nodeID: nodeID, decision: decision)
    announce([resolved.notice(WallClock.milliseconds())])
  }

  /// What agents may use of a connected node now: declared, approved and allowed.
  func effectiveSurface(_ seat: Admission.Welcome) -> NodeSurface {
    let usable = records.surfaces.usable(seat.declared, of: seat.deviceID ?? "")
    return records.policy.effective(usable, for: seat.kind, declaring: seat.declared)
  }
}
