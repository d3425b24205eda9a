import GatewayProtocol
import System

/// What a node may call (protocol §10.1). `node.invoke.result` is in `Invoke.swift`, the events' replies in `NodeEvents.swift`.
extension Method {
  static let nodeSide = [
    Method("node.invoke.progress", .node) { gateway, call throws(WireError) in
      let params = try call.closed("invokeId", "nodeId", "seq", "chunk")
      let (id, nodeID, seq, chunk) = try call.reading { () throws(SchemaError) in
        (
          try params.text("invokeId"), try params.text("nodeId"), try params.whole("seq"), try params.anyText("chunk")
        )
      }
      if nodeID != call.nodeID { throw .invalid("nodeId mismatch") }
      guard let isTaken = gateway.invokes.progress(id, from: call.connection.id, seq: seq, chunk: chunk) else {
        return .payload(["ok": true, "ignored": true])
      }
      gateway.restartIdleTimer(id)
      return .payload(isTaken ? ["ok": true] : ["ok": true, "ignored": true])
    },
    Method("node.event", .node) { gateway, call throws(WireError) in
      .payload(try gateway.takeEvent(call))
    },
    Method("node.pending.pull", .node) { gateway, call throws(WireError) in
      _ = try call.closed()
      let actions = gateway.queues.pull(call.nodeID, nowMs: WallClock.milliseconds())
      return .payload(["nodeId": .string(call.nodeID), "actions": .array(actions.map(\.json))])
    },
    Method("node.pending.ack", .node) { gateway, call throws(WireError) in
      let params = try call.closed("ids")
      let ids = try call.reading { () throws(SchemaError) in try params.optionalTexts("ids") ?? [] }
      if ids.isEmpty { throw Call.invalid(call.method, "at /ids: must NOT have fewer than 1 items") }
      let (known, left) = gateway.queues.acknowledge(ids, of: call.nodeID, nowMs: WallClock.milliseconds())
      return .payload([
        "nodeId": .string(call.nodeID), "ackedIds": .strings(known), "remainingCount": .int(Int64(left)),
      ])
    },
    Method("node.pending.drain", .node) { gateway, call throws(WireError) in
      let params = try call.closed("maxItems")
      let limit = try call.reading { () throws(SchemaError) in try params.optionalWhole("maxItems", in: 1...10) ?? 4 }
      let (items, revision, hasMore) = gateway.queues.drain(
        call.nodeID, limit: Int(limit), nowMs: WallClock.milliseconds())
      return .payload([
        "nodeId": .string(call.nodeID), "revision": .int(revision), "items": .array(items.map(\.json)),
        "hasMore": .bool(hasMore),
      ])
    },
    Method("node.pluginSurface.refresh", .node) { gateway, call throws(WireError) in
      let params = try call.closed("surface", "observedUrl")
      let name = try call.reading { () throws(SchemaError) in
        _ = try params.optionalText("observedUrl")
        return try params.text("surface")
      }
      if name != "canvas" || call.seat.isLegacy { throw .invalid("unknown plugin surface: \(name)") }
      let surface = gateway.mintSurface(name)
      return .payload([
        "surface": .string(name), "pluginSurfaceUrls": ["canvas": .string(surface.url)],
        "expiresAtMs": .int(surface.expiresAtMs),
      ])
    },
    // What protocol 3 has in its place.
    Method("node.canvas.capability.refresh", .node) { gateway, call throws(WireError) in
      _ = try call.closed()
      let surface = gateway.mintSurface("canvas")
      return .payload(["canvasHostUrl": .string(surface.url), "expiresAtMs": .int(surface.expiresAtMs)])
    },
    Method("node.pluginTools.update", .node) { gateway, call throws(WireError) in
      let params = try call.closed("tools")
      guard params["tools"]?.array != nil else { throw Call.invalid(call.method, "at /tools: must be array") }
      gateway.record("node.pluginTools.update", call.params, of: call.nodeID)
      return .payload(["ok": true])
    },
    Method("node.skills.update", .node) { gateway, call throws(WireError) in
      let params = try call.closed("skills")
      guard let skills = params["skills"]?.array, skills.count <= 64 else {
        throw Call.invalid(call.method, "at /skills: must be array of at most 64 items")
      }
      gateway.record("node.skills.update", call.params, of: call.nodeID)
      return .payload(["ok": true])
    },
  ]
}
