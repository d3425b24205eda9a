import System

extension Proxy {
  /// The proxy that the environment names for `endpoint`, nil for a direct connection.
  ///
  /// `https_proxy` for wss, `http_proxy` for ws (small letters only, because a CGI server sets HTTP_PROXY from a request's
  /// `Proxy` header), else `all_proxy`; `no_proxy` excepts hosts. Each but `http_proxy` also in capitals. This machine itself is
  /// never asked for through a proxy. Of kinds, `http://` (also without a scheme) and `https://` are known; others are
  /// reported and left out.
  public static func fromEnvironment(_ environment: [String: String], for endpoint: Endpoint) -> Proxy? {
    func value(_ name: String) -> String? {
      let value = environment[name] ?? (name == "http_proxy" ? nil : environment[name.uppercased()])
      return value?.trimmed.isEmpty == false ? value?.trimmed : nil
    }
    guard let text = value(endpoint.isTLS ? "https_proxy" : "http_proxy") ?? value("all_proxy") else { return nil }
    if isLoopback(endpoint.host) { return nil }
    if let exceptions = value("no_proxy"), excepts(exceptions, endpoint) { return nil }
    guard let proxy = Proxy(url: text) else {
      // The value may hold a password.
      Log.once("proxy", .warning, "The proxy in the environment is not used: it is no http:// or https:// URL.")
      return nil
    }
    return proxy
  }

  /// `[http[s]://][user[:password]@]host[:port][/]`; without a port 80, or 443 with TLS.
  init?(url: String) {
    var rest = Substring(url)
    var isTLS = false
    if let colon = rest.firstRange(of: "://") {
      switch rest[..<colon.lowerBound].lowercased() {
      case "http": break
      case "https": isTLS = true
      default: return nil
      }
      rest = rest[colon.upperBound...]
    }
    rest = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    var credentials: String?
    if let at = rest.lastIndex(of: "@") {
      guard let decoded = Self.percentDecoded(rest[..<at]) else { return nil }
      credentials = decoded.contains(":") ? decoded : decoded + ":"
      rest = rest[rest.index(after: at)...]
    }
    guard let (host, port) = Endpoint.authority(rest) else { return nil }
    self.init(endpoint: Endpoint(isTLS: isTLS, host: host, port: port ?? (isTLS ? 443 : 80)), credentials: credentials)
  }

  private static func isLoopback(_ host: String) -> Bool {
    if host == "localhost" || host.hasSuffix(".localhost") { return true }
    guard let address = Address.bytes(of: host) else { return false }
    return address.count == 4 ? address[0] == 127 : address == Array(repeating: 0, count: 15) + [1]
  }

  /// Entries are separated by commas or spaces: `*`, a domain (also with a leading dot or `*.`) that covers its
  /// subdomains, an address, a range like `10.0.0.0/8`; each of the single ones also with a port.
  static func excepts(_ exceptions: String, _ endpoint: Endpoint) -> Bool {
    let host = endpoint.host.hasSuffix(".") ? String(endpoint.host.dropLast()) : endpoint.host
    return exceptions.split { $0 == "," || $0.isWhitespace }.contains { entry in
      if entry == "*" { return true }
      if let slash = entry.firstIndex(of: "/") {
        return covers(String(entry[..<slash]), prefix: Int(entry[entry.index(after: slash)...]), host)
      }
      var name = entry.lowercased()
      for prefix in ["*.", "."] where name.hasPrefix(prefix) { name = String(name.dropFirst(prefix.count)) }
      // An IPv6 address stands with or without brackets here, and only with them before a port.
      if let (bare, port) = Address.bytes(of: name) != nil ? (name, nil) : Endpoint.authority(Substring(name)) {
        if let port, port != endpoint.port { return false }
        name = bare
      }
      if let address = Address.bytes(of: host) { return Address.bytes(of: name) == address }
      return host == name || host.hasSuffix("." + name)
    }
  }

  private static func covers(_ network: String, prefix: Int?, _ host: String) -> Bool {
    guard let prefix, let network = Address.bytes(of: network), let address = Address.bytes(of: host),
      network.count == address.count, (0...network.count * 8).contains(prefix)
    else { return false }
    return (0..<prefix).allSatisfy { bit in
      let mask = UInt8(0x80) >> UInt8(bit % 8)
      return network[bit / 8] & mask == address[bit / 8] & mask
    }
  }

  private static func percentDecoded(_ text: Substring) -> String? {
    var out: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      if byte != UInt8(ascii: "%") {
        out.append(byte)
        continue
      }
      guard let decoded = bytes(hexadecimal: String(decoding: rest.prefix(2), as: UTF8.self)), decoded.count == 1 else {
        return nil
      }
      out.append(decoded[0])
      rest = rest.dropFirst(2)
    }
    return String(validating: out, as: UTF8.self)
  }
}
