import GatewayProtocol

/// What belongs to no family: the gateway's own state.
extension Method {
  static let house = [
    Method("health", .operator, Scope.read) { gateway, _ throws(WireError) in .payload(gateway.health) },
    Method("system-presence", .operator, Scope.read) { gateway, _ throws(WireError) in
      .payload(gateway.presence["presence"] ?? [])
    },
  ]
}
