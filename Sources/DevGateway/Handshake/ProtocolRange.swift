import GatewayProtocol

/// Which protocol versions a gateway takes (protocol §3.5).
struct ProtocolRange: Sendable {
  /// 4, or 3 for a gateway of before May 2026.
  var version: Int64 = 4

  enum Verdict: Equatable {
    case current
    /// A node that offers 3 but not 4: no plugin surfaces for it.
    case legacyNode
    case mismatch
  }

  func verdict(on params: ConnectParams) -> Verdict {
    let (low, high) = (params.minProtocol, params.maxProtocol)
    if high >= version && low <= version { return .current }
    if version != 4 { return .mismatch }
    if params.client.mode == "probe" && high >= 3 && low <= 4 { return .current }
    if params.role == Role.node.rawValue && params.client.mode == "node" && high >= 3 && low <= 3 { return .legacyNode }
    return .mismatch
  }

  func mismatch(_ params: ConnectParams) -> WireError {
    let details: JSON =
      version == 4
      ? [
        "code": "PROTOCOL_MISMATCH", "clientMinProtocol": .int(params.minProtocol),
        "clientMaxProtocol": .int(params.maxProtocol), "expectedProtocol": .int(version), "minimumProbeProtocol": 3,
      ] : ["expectedProtocol": .int(version)]
    return WireError(code: "INVALID_REQUEST", message: "protocol mismatch", details: details)
  }
}
