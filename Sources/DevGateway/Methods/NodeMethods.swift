import GatewayProtocol
import System

/// `node.list`, `node.describe` and `node.pending.enqueue`: nodes as operators see them (protocol §10.9). `node.invoke` is in
/// `Invoke.swift`.
extension Method {
  static let nodes = [
    Method("node.list", .operator, Scope.read) { gateway, call throws(WireError) in
      _ = try call.closed()
      return .payload(["ts": .int(WallClock.milliseconds()), "nodes": .array(gateway.nodeList().map(JSON.object))])
    },
    Method("node.describe", .operator, Scope.read) { gateway, call throws(WireError) in
      let params = try call.closed("nodeId")
      let id = try call.reading { () throws(SchemaError) in try params.text("nodeId") }
      guard var node = gateway.describe(id) else { throw .invalid("unknown nodeId") }
      node["ts"] = .int(WallClock.milliseconds())
      return .payload(.object(node))
    },
    Method("node.invoke", .operator, Scope.write) { gateway, call throws(WireError) in
      try gateway.invoke(call)
      return .later
    },
    Method("node.pending.enqueue", .operator, Scope.write) { gateway, call throws(WireError) in
      let params = try call.closed("nodeId", "type", "priority", "expiresInMs", "wake")
      let (nodeID, type, priority, life) = try call.reading { () throws(SchemaError) in
        _ = try params.optionalFlag("wake")
        guard let type = try params.optionalChoice("type", of: ["status.request", "location.request"]) else {
          throw SchemaError(path: "root", problem: "must have required property 'type'")
        }
        return (
          try params.text("nodeId"), type, try params.optionalChoice("priority", of: ["normal", "high"]) ?? "normal",
          try params.optionalWhole("expiresInMs", in: 1000...86_400_000) ?? PendingQueues.workLifeMs
        )
      }
      let (item, revision) = gateway.queues.enqueue(
        type, priority: priority, lifeMs: life, for: nodeID, nowMs: WallClock.milliseconds())
      return .payload([
        "nodeId": .string(nodeID), "revision": .int(revision), "queued": item.json, "wakeTriggered": false,
      ])
    },
  ]
}

extension DevGateway {
  /// Every node there is: connected ones first, then by name.
  func nodeList() -> [[String: JSON]] {
    let ids =
      Set(records.surfaces.approved.keys).union(connections.values.compactMap(\.nodeID))
      .union(records.devices.paired.values.filter { $0.claim.roles.contains("node") }.map(\.claim.deviceID))
    return ids.compactMap(describe).sorted { left, right in
      let (one, two) = (left["connected"] == true, right["connected"] == true)
      if one != two { return one }
      let names = (left["displayName"]?.string ?? "", right["displayName"]?.string ?? "")
      return names.0 != names.1 ? names.0 < names.1 : (left["nodeId"]?.string ?? "") < (right["nodeId"]?.string ?? "")
    }
  }

  func describe(_ id: String) -> [String: JSON]? {
    let nowMs = WallClock.milliseconds()
    let device = records.devices.paired[id].flatMap { $0.claim.roles.contains("node") ? $0 : nil }
    let approved = records.surfaces.approved[id]
    let live = connection(ofNode: id)
    if device == nil && approved == nil && live == nil { return nil }
    var node: [String: JSON] = ["nodeId": .string(id), "connected": .bool(live != nil)]
    node["displayName"] = (device?.label ?? approved?.node.displayName ?? device?.displayName).map(JSON.string)
    node["platform"] = (live?.seat?.kind.platform ?? device?.claim.platform ?? approved?.node.platform).map(JSON.string)
    node["deviceFamily"] = (live?.seat?.kind.deviceFamily ?? approved?.node.deviceFamily).map(JSON.string)
    node["version"] = (live?.seat?.params.client.version ?? approved?.node.version).map(JSON.string)
    node["modelIdentifier"] = live?.seat?.params.client.modelIdentifier.map(JSON.string)
    node["clientId"] = device.map { .string($0.claim.clientID) }
    node["clientMode"] = device.map { .string($0.claim.clientMode) }
    node["connectedAtMs"] = live.map { .int($0.openedAtMs) }
    node["lastSeenAtMs"] = device?.lastSeenAtMs.map(JSON.int)
    node["lastSeenReason"] = device?.lastSeenReason.map(JSON.string)
    node["approvedAtMs"] = (approved?.approvedAtMs ?? device?.approvedAtMs).map(JSON.int)
    node["paired"] = .bool(device != nil || approved != nil)
    node.merge(surface(of: id, live: live, approved: approved).members) { first, _ in first }
    node["approvalState"] = .string(records.surfaces.state(of: id, nowMs: nowMs).rawValue)
    if let request = records.surfaces.request(of: id, nowMs: nowMs) {
      node["pendingRequestId"] = .string(request.requestID)
      node["pendingDeclaredCaps"] = .strings(request.surface.caps)
      node["pendingDeclaredCommands"] = .strings(request.surface.commands)
      if !request.surface.permissions.isEmpty {
        node["pendingDeclaredPermissions"] = .object(request.surface.permissions.mapValues(JSON.bool))
      }
    }
    return node
  }

  /// What is effective of a connected node; of one that is away, what was approved.
  private func surface(of id: String, live: Connection?, approved: SurfaceStore.Approved?) -> NodeSurface {
    if let seat = live?.seat { return effectiveSurface(seat) }
    var surface = approved?.surface ?? NodeSurface()
    surface.caps.sort()
    surface.commands.sort()
    return surface
  }
}
