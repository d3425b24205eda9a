import GatewayProtocol
import System
import Transport

/// Takes an offer to the point where a link can begin: finds the route that works, settles which certificate is trusted, and stores
/// the gateway as the active one. What follows is watched with `PairingProgress`.
public struct Pairing: Sendable {
  /// A certificate that neither an offer nor the system vouches for.
  public struct Question: Sendable, Equatable {
    public let endpoint: Endpoint
    /// SHA-256 of the leaf, 32 bytes.
    public let fingerprint: [UInt8]
    public let subject: String
    /// The certificate that was accepted before; nil when this is the first.
    public let previous: [UInt8]?
  }

  private let registry: GatewayRegistry
  private let loop: EventLoop
  private let trusted: [UInt8]?
  private let proxy: @Sendable (Endpoint) -> Proxy?
  private let nowMs: @Sendable () -> Int64
  private let ask: @Sendable (Question) async -> Bool
  private let report: @Sendable (PairingEvent) -> Void

  /// - Parameters:
  ///   - trusted: the fingerprint that a person gave beforehand (`--trust`).
  ///   - ask: whether a person accepts a certificate; `false` where nobody can be asked.
  ///   - report: hears of each step.
  public init(
    registry: GatewayRegistry, loop: EventLoop, trusted: [UInt8]? = nil,
    proxy: @escaping @Sendable (Endpoint) -> Proxy? = { _ in nil },
    nowMs: @escaping @Sendable () -> Int64 = WallClock.milliseconds,
    ask: @escaping @Sendable (Question) async -> Bool = { _ in false },
    report: @escaping @Sendable (PairingEvent) -> Void = { _ in }
  ) {
    self.registry = registry
    self.loop = loop
    self.trusted = trusted
    self.proxy = proxy
    self.nowMs = nowMs
    self.ask = ask
    self.report = report
  }

  /// Reads any form of an offer; a join link is fetched.
  public func offer(parsing text: String) async throws(LinkError) -> GatewayOffer {
    do throws(LinkError) { return try GatewayOffer(parsing: text, nowMs: nowMs()) } catch {
      guard error.code == .joinLink, let link = JoinLink(text) else { throw error }
      return try await link.fetch(loop: loop, proxy: proxy(link.endpoint), nowMs: nowMs())
    }
  }

  /// Settles route and trust and stores the gateway. A gateway that can't be reached now is stored all the same: the link goes on
  /// trying. `isByPerson` is false for a start that a script repeats: then a gateway that removed this device is not asked again.
  public func prepare(_ offer: GatewayOffer, isByPerson: Bool = true) async throws(LinkError) -> GatewayRecord {
    try offer.checkExpiry(nowMs: nowMs())
    if trusted != nil && !offer.routes.contains(where: \.isTLS) {
      throw LinkError(
        .offerInvalid, "A trusted fingerprint needs a TLS gateway, and \(offer.primary) is none.",
        remedy: "Leave out --trust, or use wss://")
    }
    let known = await registry.gateway(GatewayRecord.id(of: offer.primary))
    let endpoint = await route(offer)
    let pin = endpoint.isTLS ? try await pin(endpoint, offer, known) : nil
    let record = try await registry.add(offer, endpoint: endpoint, nowMs: nowMs(), clearingRemoval: isByPerson)
    if let pin { try await registry.setPin(pin, for: endpoint, of: record.id) }
    let stored = await registry.gateway(record.id) ?? record
    report(.stored(id: stored.id, url: stored.endpoint.description))
    return stored
  }

  /// The first route that answers, else the primary (protocol §7.6). Behind a proxy only the proxy can tell.
  private func route(_ offer: GatewayOffer) async -> Endpoint {
    if proxy(offer.primary) != nil { return offer.primary }
    let found = await RouteProbe.first(of: offer.routes, loop: loop) { route, answers in
      report(.route(url: route.description, answers: answers))
    }
    return found ?? offer.primary
  }

  /// The certificate to pin for `endpoint`; nil when the system trusts it, or when it can't be seen now.
  private func pin(
    _ endpoint: Endpoint, _ offer: GatewayOffer, _ known: GatewayRecord?
  ) async throws(LinkError) -> [UInt8]? {
    let offered = endpoint == offer.primary ? offer.fingerprint : nil
    let previous = known?.pins[endpoint.authority]
    let sighting: CertificateSighting
    do throws(TransportError) {
      sighting = try await probeCertificate(
        of: endpoint, timeout: .seconds(10), loop: loop, proxy: proxy(endpoint))
    } catch {
      report(.unreachable(url: endpoint.description, reason: error.description))
      return trusted ?? offered ?? previous
    }
    let seen = sighting.fingerprint
    report(
      .certificate(url: endpoint.description, fingerprint: hexadecimal(seen), isSystemTrusted: sighting.isSystemTrusted)
    )
    // What a person or the code vouches for counts alone.
    if let expected = trusted ?? offered {
      if expected == seen { return seen }
      throw mismatch(endpoint, seen, expected)
    }
    if previous == seen { return seen }
    if previous == nil && sighting.isSystemTrusted { return nil }
    // A changed certificate may be accepted anew only when the system trusts it (protocol §8).
    if let previous, !sighting.isSystemTrusted { throw mismatch(endpoint, seen, previous) }
    let question = Question(endpoint: endpoint, fingerprint: seen, subject: sighting.subject, previous: previous)
    if await ask(question) { return seen }
    throw LinkError(
      .certificateUntrusted,
      "The certificate of \(endpoint.authority) (SHA-256 \(hexadecimal(seen))) was not accepted.",
      remedy: "Compare the fingerprint at the gateway, then: talknode pair CODE|URL --trust \(hexadecimal(seen))")
  }

  private func mismatch(_ endpoint: Endpoint, _ seen: [UInt8], _ expected: [UInt8]) -> LinkError {
    LinkError(
      .pinMismatch,
      "\(endpoint.authority) shows another certificate than expected: \(hexadecimal(seen)) and not \(hexadecimal(expected)).",
      remedy:
        "Someone may be in between. If it was changed on purpose: talknode pair CODE|URL --trust \(hexadecimal(seen))")
  }
}
