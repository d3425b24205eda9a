import Glibc

extension Endpoint {
  /// Reads a `ws`, `wss`, `http` or `https` URL; the latter two mean the former (protocol §7.1). Without a port it is 18789 for
  /// plain and 443 for TLS. A context path is kept. Nil for everything else, and for user info, query and fragment (§7.2).
  public init?(url: String) {
    guard url.utf8.count <= 4096, let colon = url.firstRange(of: "://") else { return nil }
    let isTLS: Bool
    switch url[..<colon.lowerBound].lowercased() {
    case "ws", "http": isTLS = false
    case "wss", "https": isTLS = true
    default: return nil
    }
    let rest = url[colon.upperBound...]
    let slash = rest.firstIndex(of: "/") ?? rest.endIndex
    let path = rest[slash...]
    guard let (host, port) = Self.authority(rest[..<slash]), path.isEmpty || Self.isPath(String(path)) else {
      return nil
    }
    self.init(isTLS: isTLS, host: host, port: port ?? (isTLS ? 443 : 18_789), path: path.isEmpty ? "/" : String(path))
  }

  /// Host and port of `host`, `host:port`, `[v6]` or `[v6]:port`; the host in one form for all its spellings.
  static func authority(_ text: Substring) -> (host: String, port: UInt16?)? {
    var rest = text
    let host: String
    if rest.hasPrefix("[") {
      guard let end = rest.firstIndex(of: "]"), let address = sixth(rest[rest.index(after: rest.startIndex)..<end])
      else { return nil }
      host = address
      rest = rest[rest.index(after: end)...]
    } else {
      let end = rest.firstIndex(of: ":") ?? rest.endIndex
      host = rest[..<end].lowercased()
      guard isHostName(host) || Address.bytes(of: host)?.count == 4 else { return nil }
      rest = rest[end...]
    }
    if rest.isEmpty { return (host, nil) }
    let digits = rest.dropFirst()
    guard rest.hasPrefix(":"), digits.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), let port = UInt16(digits), port > 0
    else { return nil }
    return (host, port)
  }

  /// The usual spelling of an IPv6 address, its zone (`%25eth0` in a URL, RFC 6874) kept.
  private static func sixth(_ text: Substring) -> String? {
    let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    var address = in6_addr()
    guard text.contains(":"), !text.utf8.contains(0), inet_pton(AF_INET6, String(parts[0]), &address) == 1
    else { return nil }
    var out = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    guard inet_ntop(AF_INET6, &address, &out, socklen_t(out.count)) != nil else { return nil }
    let canonical = String(decoding: out.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if parts.count == 1 { return canonical }
    let zone = parts[1].hasPrefix("25") ? parts[1].dropFirst(2) : parts[1]
    guard !zone.isEmpty, zone.utf8.count <= 32, zone.utf8.allSatisfy(isNameByte) else { return nil }
    return canonical + "%" + zone
  }

  /// Letters, digits, hyphens and underscores between dots, with a letter in the last part: what ends in a number would be taken
  /// for an address by some and for a name by others.
  static func isHostName(_ text: String) -> Bool {
    var labels = text.split(separator: ".", omittingEmptySubsequences: false)
    if labels.count > 1 && labels.last == "" { labels.removeLast() }
    guard text.utf8.count <= 253, let last = labels.last, !last.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }) else {
      return false
    }
    return labels.allSatisfy { label in
      (1...63).contains(label.utf8.count) && label.utf8.allSatisfy { isNameByte($0) && $0 != UInt8(ascii: ".") }
        && label.first != "-" && label.last != "-"
    }
  }

  /// A slash and then what may stand in the first line of a request: visible ASCII without `?` and `#`.
  static func isPath(_ text: String) -> Bool {
    text.hasPrefix("/") && text.utf8.count <= 2048
      && text.utf8.allSatisfy { $0 > 32 && $0 < 127 && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
  }

  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 48...57, 65...90, 97...122: true
    default: "-_.".utf8.contains(byte)
    }
  }
}
