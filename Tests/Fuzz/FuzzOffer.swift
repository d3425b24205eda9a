// covers, as setup-code: Sources/GatewayClient/GatewayOffer.swift Sources/GatewayClient/JoinLink.swift Sources/GatewayClient/PlaintextPolicy.swift Sources/Transport/Endpoint.swift
import GatewayClient
import System
import Transport

/// Setup codes in all their forms: what is taken has routes that are allowed and can be stored; what is not has a reason on one line.
@Sendable func fuzzOffer(_ bytes: UnsafeRawBufferPointer) {
  let text = String(decoding: bytes, as: UTF8.self)
  let now: Int64 = 1_790_000_000_000
  do throws(LinkError) {
    let offer = try GatewayOffer(parsing: text, nowMs: now)
    precondition((1...8).contains(offer.routes.count) && offer.routes.contains(offer.primary))
    for route in offer.routes {
      precondition(!route.host.isEmpty && route.port != 0, "a route that leads nowhere: \(route)")
      precondition(Endpoint(url: route.description) == route, "a route that is stored as another: \(route)")
    }
    precondition(offer.fingerprint.map { $0.count == 32 && offer.primary.isTLS } ?? true)
    precondition(offer.expiresAtMs.map { $0 > now } ?? true)
  } catch {
    precondition(!error.summary.isEmpty && !error.summary.contains { $0.isNewline }, "no line: \(error.summary)")
    precondition(error.code != .joinLink || JoinLink(text) != nil, "a join link that is none")
  }
}
