import Crypto
import GatewayProtocol
import System
import Transport

/// From a connection's first frame to hello-ok, or to its refusal (protocol §3).
extension DevGateway {
  func takeFirst(_ message: Message, from connection: Connection) {
    let json: JSON
    do { json = try JSON(parsing: message.bytes) } catch {
      Log.debug("dev-gateway: connection \(connection.id) sent no JSON: \(error)")
      return connection.close(1000, "")
    }
    guard let frame = try? Frame(json: json, closed: true), case .request(let request) = frame else {
      return connection.close(1008, "invalid request frame")
    }
    guard request.method == "connect" else { return refuse(connection, request.id, .firstRequest) }
    connection.cancelTimer(on: loop)
    if let refusal = faults.refusal(of: request.params) { return refuse(connection, request.id, refusal) }
    let house = Admission.House(
      nonce: connection.nonce, nowMs: WallClock.milliseconds(), isStarting: faults.isStarting,
      isProtocol3: options.protocol3, autoApproves: options.autoApprove, limitsLoopback: options.limitsLoopback)
    let admission = records.admit(request.params, from: connection.peer, to: house)
    announce(admission.notices)
    switch admission.verdict {
    case .refused(let refusal): refuse(connection, request.id, refusal)
    case .welcome(let seat): welcome(connection, request.id, seat)
    }
  }

  private func refuse(_ connection: Connection, _ requestID: String, _ refusal: Refusal) {
    connection.answer(requestID, .failure(refusal.error))
    connection.close(refusal.closeCode, refusal.closeReason)
  }

  private func welcome(_ connection: Connection, _ requestID: String, _ seat: Admission.Welcome) {
    if seat.role == .node { stateVersion.presence += 1 }
    let hello = hello(connection, seat)
    connection.open(seat, maxMessage: options.maxPayload)
    if seat.role == .node && options.earlyEvents { pushVoiceWake(to: connection) }
    let isDelivered = connection.post(
      Frame.response(Frame.Response(id: requestID, result: .success(hello))).encoded())
    if isDelivered, let token = seat.bootstrapToken { complete(token, by: seat) }
    tellHealth()
    if seat.role == .node && !options.earlyEvents { pushVoiceWake(to: connection) }
  }

  /// A setup code is used up once its device has its hello (§7.4).
  private func complete(_ token: String, by seat: Admission.Welcome) {
    guard let code = records.codes.complete(token) else { return }
    let payload = JSON.object(present: [
      "setupId": .string(code.setupID), "deviceId": seat.deviceID.map(JSON.string),
      "deviceName": seat.params.client.displayName.map(JSON.string), "access": .string(code.profile.rawValue),
      "ts": .int(WallClock.milliseconds()),
    ])
    announce([Notice(event: "device.pair.setup.completed", payload: payload)])
  }

  private func pushVoiceWake(to connection: Connection) {
    connection.tell("voicewake.changed", ["triggers": ["openclaw", "claude", "computer"]])
    connection.tell(
      "voicewake.routing.changed",
      ["config": ["version": 1, "defaultTarget": ["mode": "current"], "routes": [], "updatedAtMs": 0]])
  }

  // MARK: hello-ok (§3.7)

  private func hello(_ connection: Connection, _ seat: Admission.Welcome) -> JSON {
    let urls =
      seat.role == .node && !seat.isLegacy && seat.declared.caps.contains("canvas") ? mintSurface("canvas") : nil
    return .object(present: [
      "type": "hello-ok", "protocol": options.protocol3 ? 3 : 4,
      "server": ["version": .string(options.version), "connId": .string(connection.connID)],
      "features": ["methods": .strings(advertisedMethods), "events": .strings(Self.advertisedEvents)],
      "snapshot": snapshot(for: seat), "auth": auth(seat),
      "pluginSurfaceUrls": options.protocol3 ? nil : urls.map { ["canvas": .string($0.url)] },
      "canvasHostUrl": options.protocol3 ? urls.map { .string($0.url) } : nil,
      "policy": [
        "maxPayload": .int(Int64(options.maxPayload)), "maxBufferedBytes": .int(Int64(options.maxBufferedBytes)),
        "tickIntervalMs": .int(Int64(options.tickInterval.milliseconds)),
      ],
    ])
  }

  private func snapshot(for seat: Admission.Welcome) -> JSON {
    .object(present: [
      "presence": presence["presence"] ?? [], "health": health, "stateVersion": stateVersionJSON,
      "uptimeMs": .int(WallClock.milliseconds() - startedAtMs), "sessionDefaults": Self.sessionDefaults,
      "authMode": seat.role == .operator ? .string(options.password == nil ? "token" : "password") : nil,
    ])
  }

  private func auth(_ seat: Admission.Welcome) -> JSON {
    let handOff = seat.handOff.map { role, token -> JSON in
      [
        "role": .string(role), "scopes": .strings(token.scopes), "deviceToken": .string(token.secret),
        "issuedAtMs": .int(token.issuedAtMs),
      ]
    }
    return .object(present: [
      "role": .string(seat.role.rawValue), "scopes": .strings(seat.scopes),
      "deviceToken": seat.token.map { .string($0.secret) }, "issuedAtMs": seat.token.map { .int($0.issuedAtMs) },
      "deviceTokens": handOff.isEmpty ? nil : .array(handOff),
    ])
  }

  static let sessionDefaults: JSON = [
    "defaultAgentId": "main", "mainKey": "main", "mainSessionKey": .string(ChatStore.mainKey), "scope": "per-sender",
  ]

  static let advertisedEvents = [
    "connect.challenge", "agent", "chat", "presence", "tick", "talk.mode", "talk.event", "shutdown", "health",
    "heartbeat", "node.pair.requested", "node.pair.resolved", "node.invoke.request", "node.invoke.cancel",
    "device.pair.requested", "device.pair.resolved", "voicewake.changed", "voicewake.routing.changed",
  ]

  // MARK: Plugin surfaces (§3.8)

  /// A fresh capability URL, good for ten minutes.
  func mintSurface(_ name: String) -> SurfaceURL {
    let base = (tls == nil ? "http" : "https") + "://127.0.0.1:\(port)"
    let surface = SurfaceURL(
      url: "\(base)/__openclaw__/cap/\(Base64.encodeURL(Random.bytes(18)))",
      expiresAtMs: WallClock.milliseconds() + 600_000)
    surfaceTokens[name] = surface
    return surface
  }
}

/// A plugin surface's capability URL and its end.
struct SurfaceURL: Sendable {
  var url: String
  var expiresAtMs: Int64
}

extension DeviceStore.Token { var issuedAtMs: Int64 { rotatedAtMs ?? createdAtMs } }
