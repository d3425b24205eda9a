import GatewayProtocol
import System

/// `device.*`: who may open a socket (protocol §6.7).
extension Method {
  static let devices = [
    Method("device.pair.list", .operator, Scope.pairing) { gateway, call throws(WireError) in
      _ = try call.closed()
      return .payload(gateway.deviceList())
    },
    Method("device.pair.approve", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("requestId")
      let id = try call.reading { () throws(SchemaError) in try params.text("requestId") }
      return .payload(try gateway.approveDevice(id, holding: call.seat.scopes))
    },
    Method("device.pair.reject", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("requestId")
      let id = try call.reading { () throws(SchemaError) in try params.text("requestId") }
      return .payload(try gateway.reject(device: id))
    },
    Method("device.pair.remove", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("deviceId")
      let id = try call.reading { () throws(SchemaError) in try params.text("deviceId") }
      return .payload(try gateway.remove(device: id, caller: call.connection))
    },
    Method("device.pair.rename", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("deviceId", "label")
      let (id, label) = try call.reading { () throws(SchemaError) in
        (try params.text("deviceId"), try params.text("label", limit: 64))
      }
      guard let device = gateway.records.devices.rename(id, to: label) else { throw .invalid("unknown deviceId") }
      return .payload(device.json)
    },
    Method("device.token.rotate", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("deviceId", "role", "scopes")
      let (id, role, scopes) = try call.reading { () throws(SchemaError) in
        (try params.text("deviceId"), try params.text("role"), try params.optionalTexts("scopes"))
      }
      if role == Role.node.rawValue { try Scope.demand([Scope.admin], of: call.seat.scopes) }
      try Scope.demand(scopes ?? [], of: call.seat.scopes)
      let token = try gateway.rotate(tokenOf: id, role: role, scopes: scopes, caller: call.connection)
      // The secret is only told to the device whose it is.
      let isOwn = call.seat.deviceID == id
      return .payload(
        .object(present: [
          "deviceId": .string(id), "role": .string(role), "token": isOwn ? .string(token.secret) : nil,
          "scopes": .strings(token.scopes), "rotatedAtMs": .int(token.issuedAtMs),
        ]))
    },
    Method("device.token.revoke", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("deviceId", "role")
      let (id, role) = try call.reading { () throws(SchemaError) in
        (try params.text("deviceId"), try params.text("role"))
      }
      let token = try gateway.revoke(tokenOf: id, role: role, caller: call.connection)
      return .payload([
        "deviceId": .string(id), "role": .string(role), "revokedAtMs": .int(token.revokedAtMs ?? 0),
      ])
    },
    Method("device.pair.setupCode", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("publicUrl", "preferRemoteUrl", "includeQr", "bootstrapProfile")
      let (url, profile) = try call.reading { () throws(SchemaError) in
        _ = try params.optionalFlag("preferRemoteUrl")
        _ = try params.optionalFlag("includeQr")
        return (
          try params.optionalText("publicUrl"),
          try params.optionalChoice("bootstrapProfile", of: ["limited", "node"])
        )
      }
      return .payload(
        gateway.issueSetupCode(
          profile.flatMap(SetupProfile.init(rawValue:)) ?? .full, urls: url.map { [$0] } ?? []
        ).json)
    },
    Method("device.pair.setupStatus", .operator, Scope.pairing) { gateway, call throws(WireError) in
      let params = try call.closed("setupId")
      let id = try call.reading { () throws(SchemaError) in try params.text("setupId") }
      guard let code = gateway.records.codes.status(id, nowMs: WallClock.milliseconds()) else {
        throw .invalid("unknown setupId")
      }
      return .payload(
        .object(present: [
          "setupId": .string(id), "status": .string(code.status.rawValue), "access": .string(code.profile.rawValue),
          "expiresAtMs": .int(code.expiresAtMs), "deviceId": code.deviceID.map(JSON.string),
        ]))
    },
  ]
}

extension DevGateway {
  func deviceList() -> JSON {
    let pending = records.devices.pendingNow(WallClock.milliseconds()).map(\.json)
    let paired = records.devices.paired.values.sorted { $0.approvedAtMs > $1.approvedAtMs }
    return ["pending": .array(pending), "paired": .array(paired.map(\.json))]
  }

  /// Nobody can give away more than they hold.
  func approveDevice(_ requestID: String, holding scopes: [String]) throws(WireError) -> JSON {
    let nowMs = WallClock.milliseconds()
    guard let request = records.devices.pendingNow(nowMs).first(where: { $0.requestID == requestID }) else {
      throw .invalid("unknown requestId")
    }
    if request.claim.roles.contains(Role.operator.rawValue) { try Scope.demand(request.claim.scopes, of: scopes) }
    guard let device = records.devices.approve(requestID, as: .owner, nowMs: nowMs) else {
      throw .invalid("unknown requestId")
    }
    let resolved = DeviceStore.Resolved(requestID: requestID, deviceID: device.claim.deviceID, isApproved: true)
    announce([resolved.notice(nowMs)])
    return ["requestId": .string(requestID), "device": device.json]
  }

  func reject(device requestID: String) throws(WireError) -> JSON {
    let nowMs = WallClock.milliseconds()
    guard let request = records.devices.reject(requestID, nowMs: nowMs) else { throw .invalid("unknown requestId") }
    records.codes.revoke(boundTo: request.claim.deviceID, publicKey: request.claim.publicKey)
    let resolved = DeviceStore.Resolved(requestID: requestID, deviceID: request.claim.deviceID, isApproved: false)
    announce([resolved.notice(nowMs)])
    return ["requestId": .string(requestID), "deviceId": .string(request.claim.deviceID)]
  }

  func remove(device id: String, caller: Connection? = nil) throws(WireError) -> JSON {
    let nowMs = WallClock.milliseconds()
    guard let (_, putAside) = records.devices.remove(id) else { throw .invalid("unknown deviceId") }
    let surfaces = records.surfaces.forget(id)
    queues.forget(id)
    announce(putAside.map { $0.notice(nowMs) } + surfaces.map { $0.notice(nowMs) })
    closeSockets(of: id, role: nil, "device removed", caller: caller)
    return ["deviceId": .string(id)]
  }

  func rotate(
    tokenOf id: String, role: String, scopes: [String]?, caller: Connection? = nil
  ) throws(WireError) -> DeviceStore.Token {
    guard let token = records.devices.rotate(id, role: role, scopes: scopes, nowMs: WallClock.milliseconds()) else {
      throw .invalid("unknown deviceId/role")
    }
    closeSockets(of: id, role: role, "client invalidated: device-token-rotated", caller: caller)
    return token
  }

  func revoke(tokenOf id: String, role: String, caller: Connection? = nil) throws(WireError) -> DeviceStore.Token {
    guard let token = records.devices.revoke(id, role: role, nowMs: WallClock.milliseconds()) else {
      throw .invalid("unknown deviceId/role")
    }
    closeSockets(of: id, role: role, "client invalidated: device-token-revoked", caller: caller)
    return token
  }

  private func closeSockets(of deviceID: String, role: String?, _ reason: String, caller: Connection?) {
    for connection in connections.values where connection.seat?.deviceID == deviceID {
      guard role == nil || connection.seat?.role.rawValue == role else { continue }
      // Who has called this about itself is answered first.
      let id = connection.id
      if connection === caller {
        Task { connections[id]?.close(4001, reason) }
      } else {
        connection.close(4001, reason)
      }
    }
  }

  /// A code of this profile for `urls`, or for this gateway's own; full is made limited where a URL is neither TLS nor this
  /// machine (§7.4).
  func issueSetupCode(_ profile: SetupProfile, urls: [String], lifeMs: Int64 = SetupCodes.lifeMs) -> IssuedSetupCode {
    let urls = urls.isEmpty ? [url] : Array(urls.prefix(8))
    let isSafe = urls.allSatisfy { $0.hasPrefix("wss://") || $0.hasPrefix("https://") || Self.isLoopback($0) }
    let granted = profile == .full && !isSafe ? .limited : profile
    let code = records.codes.issue(granted, nowMs: WallClock.milliseconds(), lifeMs: lifeMs)
    let text = SetupCodes.text(
      code, urls: urls, fingerprint: urls[0].hasPrefix("wss") ? fingerprint.map(hexadecimal) : nil)
    return IssuedSetupCode(
      setupID: code.setupID, text: text, expiresAtMs: code.expiresAtMs, urls: urls, profile: granted,
      usesPassword: options.password != nil)
  }

  private static func isLoopback(_ url: String) -> Bool {
    guard let host = url.split(separator: "/", maxSplits: 2).last?.split(separator: "/").first else { return false }
    return ["127.", "localhost", "[::1]"].contains { host.hasPrefix($0) }
  }
}

/// A setup code as it is handed out (protocol §7.5).
public struct IssuedSetupCode: Sendable {
  public let setupID: String
  /// base64url of the JSON of §7.1: what a client is given.
  public let text: String
  public let expiresAtMs: Int64
  public let urls: [String]
  public let profile: SetupProfile
  let usesPassword: Bool

  var json: JSON {
    .object(present: [
      "setupId": .string(setupID), "expiresAtMs": .int(expiresAtMs), "setupCode": .string(text),
      "gatewayUrl": .string(urls[0]), "gatewayUrls": urls.count > 1 ? .strings(urls) : nil,
      "auth": usesPassword ? "password" : "token", "urlSource": "loopback", "access": .string(profile.rawValue),
    ])
  }
}
