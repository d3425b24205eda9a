import Crypto
import GatewayProtocol

/// All that a gateway remembers over a restart: its secrets, its devices, their surfaces, its setup codes.
struct Records: Sendable {
  var token: String
  var password: String?
  var devices = DeviceStore()
  var surfaces = SurfaceStore()
  var codes = SetupCodes()
  var limit = RateLimit()
  var policy = CommandPolicy()

  init(token: String, password: String? = nil) {
    self.token = token
    self.password = password
  }
}

/// An event that tells operators what has happened to the records (protocol §6.8).
public struct Notice: Sendable, Equatable {
  /// For example `device.pair.requested`.
  public let event: String
  public let payload: JSON
}

// MARK: As they are written on the wire

extension DeviceStore.Request {
  var json: JSON {
    .object(present: [
      "requestId": .string(requestID), "deviceId": .string(claim.deviceID), "publicKey": .string(claim.publicKey),
      "displayName": claim.displayName.map(JSON.string), "platform": .string(claim.platform),
      "deviceFamily": claim.deviceFamily.map(JSON.string), "clientId": .string(claim.clientID),
      "clientMode": .string(claim.clientMode), "role": .string(claim.role), "roles": .strings(claim.roles),
      "scopes": .strings(claim.scopes), "silent": .bool(isSilent), "isRepair": .bool(isRepair), "ts": .int(tsMs),
    ])
  }
}

extension DeviceStore.Device {
  /// Tokens are told about, never told.
  var json: JSON {
    let tokens = tokens.sorted { $0.key < $1.key }.map { role, token in
      JSON.object(present: [
        "role": .string(role), "scopes": .strings(token.scopes), "createdAtMs": .int(token.createdAtMs),
        "rotatedAtMs": token.rotatedAtMs.map(JSON.int), "lastUsedAtMs": token.lastUsedAtMs.map(JSON.int),
        "revokedAtMs": token.revokedAtMs.map(JSON.int),
      ])
    }
    return .object(present: [
      "deviceId": .string(claim.deviceID), "publicKey": .string(claim.publicKey),
      "displayName": displayName.map(JSON.string), "platform": .string(claim.platform),
      "deviceFamily": claim.deviceFamily.map(JSON.string), "clientId": .string(claim.clientID),
      "clientMode": .string(claim.clientMode), "role": .string(claim.role), "roles": .strings(claim.roles),
      "scopes": .strings(claim.scopes), "createdAtMs": .int(createdAtMs), "approvedAtMs": .int(approvedAtMs),
      "lastSeenAtMs": lastSeenAtMs.map(JSON.int), "lastSeenReason": lastSeenReason.map(JSON.string),
      "tokens": .array(tokens),
    ])
  }
}

extension DeviceStore.Resolved {
  func notice(_ nowMs: Int64) -> Notice {
    Notice(
      event: "device.pair.resolved",
      payload: [
        "requestId": .string(requestID), "deviceId": .string(deviceID),
        "decision": .string(isApproved ? "approved" : "rejected"), "ts": .int(nowMs),
      ])
  }
}

extension SurfaceStore.Request {
  var json: JSON { .object(members) }

  /// With the scopes that approving it takes, as in `node.pair.list`.
  var listed: JSON {
    .object(members.merging(["requiredApproveScopes": .strings(requiredScopes)]) { first, _ in first })
  }

  /// `operator.pairing` always; `write` for an ordinary command, `admin` for a host command (§6.7).
  var requiredScopes: [String] {
    var scopes = [Scope.pairing]
    if surface.commands.contains(where: { !CommandPolicy.needsAdmin.contains($0) }) { scopes.append(Scope.write) }
    if surface.commands.contains(where: CommandPolicy.needsAdmin.contains) { scopes.append(Scope.admin) }
    return scopes
  }

  private var members: [String: JSON] {
    var members = node.members.merging(surface.members) { first, _ in first }
    members["requestId"] = .string(requestID)
    members["silent"] = false
    members["ts"] = .int(tsMs)
    return members
  }
}

extension SurfaceStore.Approved {
  var json: JSON {
    var members = node.members.merging(surface.members) { first, _ in first }
    members["token"] = .string(token)
    members["createdAtMs"] = .int(createdAtMs)
    members["approvedAtMs"] = .int(approvedAtMs)
    members["lastConnectedAtMs"] = lastConnectedAtMs.map(JSON.int)
    return .object(members)
  }
}

extension SurfaceStore.Node {
  var members: [String: JSON] {
    var members: [String: JSON] = [
      "nodeId": .string(nodeID), "platform": .string(platform), "version": .string(version),
    ]
    members["displayName"] = displayName.map(JSON.string)
    members["deviceFamily"] = deviceFamily.map(JSON.string)
    return members
  }
}

extension SurfaceStore.Resolved {
  func notice(_ nowMs: Int64) -> Notice {
    Notice(
      event: "node.pair.resolved",
      payload: [
        "requestId": .string(requestID), "nodeId": .string(nodeID), "decision": .string(decision), "ts": .int(nowMs),
      ])
  }
}

extension NodeSurface {
  /// `permissions` only where there are any.
  var members: [String: JSON] {
    var members: [String: JSON] = ["caps": .strings(caps), "commands": .strings(commands)]
    if !permissions.isEmpty { members["permissions"] = .object(permissions.mapValues(JSON.bool)) }
    return members
  }
}
