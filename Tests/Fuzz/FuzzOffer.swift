// covers, as setup-code: Sources/GatewayClient/GatewayOffer.swift Sources/GatewayClient/JoinLink.swift Sources/GatewayClient/PlaintextPolicy.swift
import GatewayClient
import System

/// Setup codes in all their forms: what is taken has a route, and none of its secrets in what is shown.
@Sendable func fuzzOffer(_ bytes: UnsafeRawBufferPointer) {
  guard let text = String(validating: bytes, as: UTF8.self) else { return }
  _ = JoinLink(text)
  guard let offer = try? GatewayOffer(parsing: text, nowMs: 1_790_000_000_000) else { return }
  precondition((1...8).contains(offer.routes.count))
  for route in offer.routes {
    precondition(!route.host.isEmpty && route.port != 0, "a route that leads nowhere: \(route)")
  }
  if let fingerprint = offer.fingerprint { precondition(fingerprint.count == 32) }
}
