import Crypto
import GatewayProtocol
import System
import Transport

/// A gateway that someone offers: where it is and what lets this device in. Read from any form of protocol §7.1–§7.2.
public struct GatewayOffer: Sendable, Equatable {
  /// The route that the gateway's id and the fingerprint belong to.
  public var primary: Endpoint
  /// 1 to 8 routes in the order they are to be tried; contains the primary.
  public var routes: [Endpoint]
  public var name: String?
  public var token: String?
  public var password: String?
  public var bootstrapToken: String?
  /// SHA-256 of the primary's leaf certificate.
  public var fingerprint: [UInt8]?
  /// Milliseconds since 1970.
  public var expiresAtMs: Int64?

  /// An offer of one URL, with the credentials a person gave beside it. Throws `plaintextRefused` for `ws://` outside the local network.
  public init(endpoint: Endpoint, name: String? = nil, token: String? = nil, password: String? = nil) throws(LinkError)
  {
    primary = endpoint
    routes = [endpoint]
    self.name = name
    self.token = token
    self.password = password
    try checkPlaintext()
  }

  /// Input longer than this is no offer.
  public static let longestText = 64 << 10

  /// Reads a setup code, `oc-pair://` code, JSON payload, text that contains a code, `openclaw://gateway…` link or URL. Total: any text
  /// ends in an offer or an error. A join link throws `LinkError.joinLink`: read it with `JoinLink`.
  public init(parsing text: String, nowMs: Int64) throws(LinkError) {
    guard text.utf8.count <= Self.longestText else {
      throw Self.invalid("That is far longer than any setup code (\(text.utf8.count) bytes).")
    }
    let text = text.trimmed
    if text.isEmpty { throw Self.invalid("There is nothing to read.") }
    if let link = Self.strip("openclaw://", from: text) {
      self = try Self.deepLink(link, nowMs: nowMs)
    } else if text.hasPrefix("{") {
      guard let json = try? JSON(parsing: text) else { throw Self.invalid("That begins like JSON but is none.") }
      self = try Self.payload(json, nowMs: nowMs)
    } else if ["ws://", "wss://", "http://", "https://"].contains(where: { Self.strip($0, from: text) != nil }),
      !text.contains(where: \.isWhitespace)
    {
      if JoinLink(text) != nil { throw LinkError(.joinLink, "That is a join link, which has to be fetched first.") }
      self = try GatewayOffer(endpoint: Self.endpoint(text))
    } else {
      self = try Self.code(in: Self.strip("oc-pair://", from: text) ?? text, nowMs: nowMs)
    }
  }

  /// Refuses an offer whose time is over. Asked when it is read, and again by `pair` before it is used.
  func checkExpiry(nowMs: Int64) throws(LinkError) {
    guard let expiresAtMs, expiresAtMs <= nowMs else { return }
    throw LinkError(
      .offerExpired, "This setup code was good until \(WallClock.iso8601(expiresAtMs)).",
      remedy: "Make a new one on the gateway host: openclaw qr --setup-code-only")
  }

  /// Drops alternative routes that would send secrets in the clear; an offer left without its primary is refused.
  private mutating func checkPlaintext() throws(LinkError) {
    guard PlaintextPolicy.allows(primary) else {
      throw LinkError(
        .plaintextRefused, "\(primary) is not on the local network, and ws:// would send the token in the clear.",
        remedy: "Use wss://, or reach the gateway by its address on the local network or through a tunnel to localhost."
      )
    }
    routes.removeAll { !PlaintextPolicy.allows($0) }
  }

  static func invalid(_ summary: String) -> LinkError {
    LinkError(
      .offerInvalid, summary,
      remedy:
        "Give a setup code (on the gateway host: openclaw qr --setup-code-only), or a URL such as wss://host:18789")
  }
}

// MARK: The forms

extension GatewayOffer {
  /// The first thing in `text` that decodes to a payload. When none is good, the first one's mistake is told.
  private static func code(in text: String, nowMs: Int64) throws(LinkError) -> GatewayOffer {
    var firstMistake: LinkError?
    for candidate in candidates(in: text) {
      guard let bytes = Base64.decode(candidate), let json = try? JSON(parsing: bytes), json.object != nil else {
        continue
      }
      do { return try payload(json, nowMs: nowMs) } catch { firstMistake = firstMistake ?? error }
    }
    throw firstMistake ?? invalid("There is no setup code in that.")
  }

  /// Runs of base64url characters of at least 24, each also without the punctuation around it, and in pieces where a `=` in its middle
  /// shows that it is none (`code=…`).
  private static func candidates(in text: String) -> [Substring] {
    let isOfCode: (Character) -> Bool = { $0.isASCII && ($0.isLetter || $0.isNumber || "_=-".contains($0)) }
    var candidates: [Substring] = []
    for run in text.split(whereSeparator: { !isOfCode($0) }) where run.utf8.count >= 24 {
      candidates.append(run)
      for piece in run.split(separator: "=") {
        let trimmed = trim(piece)
        for part in [piece, trimmed] where part.utf8.count >= 24 && part != candidates.last { candidates.append(part) }
      }
      if candidates.count > 64 { break }
    }
    return candidates
  }

  private static func trim(_ run: Substring) -> Substring {
    var run = run.drop { $0 == "_" || $0 == "-" }
    while let last = run.last, last == "_" || last == "-" { run.removeLast() }
    return run
  }

  /// The JSON object inside a code: `{url, urls?, …}`, or the older `{host, port?, tls?, …}`.
  static func payload(_ json: JSON, nowMs: Int64) throws(LinkError) -> GatewayOffer {
    guard json.object != nil else { throw invalid("A setup code holds an object.") }
    let primary: Endpoint
    var routes: [Endpoint]
    if let url = json["url"]?.string {
      primary = try endpoint(url)
      routes = []
      if let list = json["urls"] {
        guard let urls = list.strings, (1...8).contains(urls.count) else { throw invalid("urls must be 1 to 8 URLs.") }
        for url in urls {
          let route = try endpoint(url)
          if !routes.contains(route) { routes.append(route) }
        }
      }
      if !routes.contains(primary) { routes = [primary] + routes.prefix(7) }
    } else if let host = json["host"]?.string {
      primary = try endpoint(host: host, port: json["port"], isTLS: json["tls"])
      routes = [primary]
    } else {
      throw invalid("That setup code names no gateway: neither url nor host.")
    }
    var offer = try GatewayOffer(endpoint: primary)
    offer.routes = routes
    try offer.checkPlaintext()
    offer.name = try text("name", of: json, limit: 128)
    offer.token = try secret("token", of: json, limit: 16 << 10)
    offer.password = try secret("password", of: json, limit: 16 << 10)
    offer.bootstrapToken = try secret("bootstrapToken", of: json, limit: 256)
    if let value = json["tlsFingerprint"] {
      guard primary.isTLS else { throw invalid("A fingerprint needs a TLS gateway, and \(primary) is none.") }
      guard let fingerprint = value.string.flatMap(fingerprint(parsing:)) else {
        throw invalid("The fingerprint in that code is none.")
      }
      offer.fingerprint = fingerprint
    }
    if let value = json["expiresAtMs"] {
      guard let expiresAtMs = value.int else { throw invalid("The end of that code's time is no number.") }
      offer.expiresAtMs = expiresAtMs
      try offer.checkExpiry(nowMs: nowMs)
    }
    return offer
  }

  /// What follows `openclaw://`: `gateway?host=…` or `gateway/add?url=…`.
  private static func deepLink(_ link: String, nowMs: Int64) throws(LinkError) -> GatewayOffer {
    let parts = link.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    var path = parts[0].lowercased()
    while path.hasSuffix("/") { path.removeLast() }
    guard path == "gateway" || path == "gateway/add" else {
      throw invalid("openclaw://\(visible(path)) is no link to a gateway.")
    }
    guard parts.count == 2 else { throw invalid("That link says nothing about the gateway.") }
    var query: [String: JSON] = [:]
    let text = parts[1].split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)[0]
    for pair in text.split(separator: "&").prefix(32) {
      let pair = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      var raw = pair.count == 2 ? String(pair[1]) : ""
      // A plus sign is a space where browsers wrote the link; a secret may hold a real one, so only names are read that way.
      if pair[0] == "name" { raw = String(raw.map { $0 == "+" ? " " : $0 }) }
      guard let name = percentDecoded(pair[0]), let value = percentDecoded(raw) else {
        throw invalid("That link is not well written: \(visible(String(pair[0]))).")
      }
      if !value.isEmpty { query[name] = .string(value) }
    }
    if let port = query["port"]?.string {
      guard let port = Int64(port) else { throw invalid("\(visible(port)) is no port.") }
      query["port"] = .int(port)
    }
    if let tls = query["tls"]?.string { query["tls"] = .bool(!["0", "false", "no"].contains(tls.lowercased())) }
    if let expiresAtMs = query["expiresAtMs"]?.string { query["expiresAtMs"] = Int64(expiresAtMs).map(JSON.int) ?? "" }
    return try payload(.object(query), nowMs: nowMs)
  }
}

// MARK: Pieces

extension GatewayOffer {
  private static func endpoint(_ url: String) throws(LinkError) -> Endpoint {
    guard url.utf8.count <= 2048, let endpoint = Endpoint(url: url.trimmed) else {
      throw invalid(
        "\(visible(url)) is no gateway URL: it has a scheme (wss, ws, https, http), a host, and neither user, query nor fragment."
      )
    }
    return endpoint
  }

  /// The older form: TLS unless it says otherwise.
  private static func endpoint(host: String, port: JSON?, isTLS: JSON?) throws(LinkError) -> Endpoint {
    let isTLS = isTLS?.bool ?? true
    var authority = host.trimmed
    if authority.contains(":") && !authority.hasPrefix("[") { authority = "[\(authority)]" }
    if let port {
      guard let number = port.int, (1...65535).contains(number) else { throw invalid("The port must be 1 to 65535.") }
      authority += ":\(number)"
    }
    if authority.contains("/") { throw invalid("\(visible(host)) is no host.") }
    return try endpoint((isTLS ? "wss://" : "ws://") + authority)
  }

  private static func text(_ key: String, of json: JSON, limit: Int) throws(LinkError) -> String? {
    guard let value = json[key] else { return nil }
    guard let text = value.string?.trimmed, text.utf8.count <= limit else {
      throw invalid("\(key) must be a short text.")
    }
    return text.isEmpty ? nil : text
  }

  private static func secret(_ key: String, of json: JSON, limit: Int) throws(LinkError) -> String? {
    guard let value = json[key] else { return nil }
    guard let text = value.string, text.utf8.count <= limit else { throw invalid("\(key) must be a text.") }
    let plain = text.trimmed
    return plain.isEmpty ? nil : plain
  }

  /// What follows `prefix`, in any case of letters; nil when the text begins otherwise.
  private static func strip(_ prefix: String, from text: String) -> String? {
    guard text.utf8.count >= prefix.utf8.count else { return nil }
    let start = text.utf8.prefix(prefix.utf8.count)
    let matches = zip(start, prefix.utf8).allSatisfy { $0 == $1 || ($0 >= 65 && $0 <= 90 && $0 + 32 == $1) }
    return matches ? String(decoding: text.utf8.dropFirst(prefix.utf8.count), as: UTF8.self) : nil
  }

  /// Decodes `%41`; nil when that is no UTF-8 or badly written.
  static func percentDecoded(_ text: some StringProtocol) -> String? {
    var out: [UInt8] = []
    var bytes = text.utf8.makeIterator()
    while let byte = bytes.next() {
      switch byte {
      case UInt8(ascii: "%"):
        guard let high = bytes.next(), let low = bytes.next(),
          let pair = System.bytes(hexadecimal: String(decoding: [high, low], as: UTF8.self))
        else { return nil }
        out += pair
      default: out.append(byte)
      }
    }
    return String(validating: out, as: UTF8.self)
  }

  /// A short piece of foreign text for a message, without anything that could be a secret after `@` or `?`.
  private static func visible(_ text: String) -> String {
    let plain = text.prefix { $0 != "?" && $0 != "#" }
    let host = plain.split(separator: "@").last.map(String.init) ?? ""
    return String(host.filter { !$0.isNewline }.prefix(80))
  }
}
