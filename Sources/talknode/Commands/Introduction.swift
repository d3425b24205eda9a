import GatewayClient
import GatewayProtocol
import System
import Transport

/// How a gateway is met for the first time: what was given is read, its routes are tried, its certificate is looked at, and only then
/// is it written down (protocol §7, §8).
struct Introduction: Sendable {
  /// A setup code in any form, or a URL.
  let text: String
  let token: String?
  let password: String?
  /// A fingerprint that a person vouches for.
  let trust: [UInt8]?

  /// Asks about a certificate the system does not know; true to trust it. nil: nobody can be asked.
  typealias Question = @Sendable (CertificateSighting, Endpoint) async -> Bool

  init(_ text: String, token: String?, password: String?, trust: String?) throws(Failure) {
    self.text = text
    self.token = token
    self.password = password
    self.trust = try trust.map { text throws(Failure) in
      guard let print = fingerprint(parsing: text) else {
        throw .usage("--trust needs a SHA-256 fingerprint: 64 hexadecimal digits, colons allowed.")
      }
      return print
    }
  }

  /// Returns the gateway as it now is in the registry, the active one. `isPersonal`: a person asked for it just now, which also undoes
  /// that the gateway had removed this device.
  func write(
    into registry: GatewayRegistry, environment: [String: String], isPersonal: Bool, loop: EventLoop,
    ask: Question?, tell: @Sendable (String) -> Void
  ) async throws(Failure) -> GatewayRecord {
    do throws(LinkError) {
      var offer = try await read(loop)
      if let token { offer.token = token }
      if let password { offer.password = password }
      let endpoint = await reachable(offer, loop, tell)
      let pin = try await certificate(of: endpoint, offer, registry, environment, loop, ask)
      let record = try await registry.add(offer, endpoint: endpoint, clearingRemoval: isPersonal)
      if let pin { try await registry.setPin(pin, for: endpoint, of: record.id) }
      return await registry.gateway(record.id) ?? record
    } catch {
      throw Failure(error)
    }
  }

  private func read(_ loop: EventLoop) async throws(LinkError) -> GatewayOffer {
    if let link = JoinLink(text) { return try await link.fetch(loop: loop) }
    return try GatewayOffer(parsing: text, nowMs: WallClock.milliseconds())
  }

  /// The first route that answers a TCP connect within 2 s; the primary when none does (protocol §7.6).
  private func reachable(_ offer: GatewayOffer, _ loop: EventLoop, _ tell: @Sendable (String) -> Void) async -> Endpoint {
    if offer.routes.count == 1 { return offer.primary }
    for route in offer.routes {
      if await isReachable(route, timeout: .seconds(2), loop: loop) { return route }
      tell("\(route) does not answer.")
    }
    return offer.primary
  }

  /// The pin to write down for this route; nil when none is needed.
  private func certificate(
    of endpoint: Endpoint, _ offer: GatewayOffer, _ registry: GatewayRegistry, _ environment: [String: String],
    _ loop: EventLoop, _ ask: Question?
  ) async throws(LinkError) -> [UInt8]? {
    guard endpoint.isTLS else { return nil }
    if let trust { return trust }
    if offer.fingerprint != nil && endpoint == offer.primary { return nil }  // comes with the offer
    if await registry.gateway(GatewayRecord.id(of: offer.primary))?.pins[endpoint.authority] != nil { return nil }
    let sighting: CertificateSighting
    do {
      sighting = try await probeCertificate(
        of: endpoint, timeout: .seconds(10), loop: loop, proxy: Proxy.fromEnvironment(environment, for: endpoint))
    } catch {
      // Nothing to look at now. The connection itself will say more, and goes on trying.
      return nil
    }
    if sighting.isSystemTrusted { return nil }
    let shown = hexadecimal(sighting.fingerprint)
    if let ask, await ask(sighting, endpoint) { return sighting.fingerprint }
    throw LinkError(
      .certificateUntrusted, "The certificate of \(endpoint.authority) is not one that this system trusts.",
      remedy: "Compare its fingerprint on the gateway host, then add: --trust \(shown)")
  }
}
