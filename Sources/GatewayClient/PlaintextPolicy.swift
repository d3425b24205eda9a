import Transport

/// Where `ws://` is allowed (protocol §7.3, the rule of the newest mobile client): this machine and its local network. Elsewhere the
/// shared token would travel in the clear.
enum PlaintextPolicy {
  static func allows(_ endpoint: Endpoint) -> Bool { endpoint.isTLS || allows(host: endpoint.host) }

  static func allows(host: String) -> Bool {
    if isLoopback(host) { return true }
    let host = host.lowercased()
    if host == "local" { return false }
    if host.hasSuffix(".local") || host.hasSuffix(".local.") { return true }
    if let address = ipv4(host) { return isPrivate(address) }
    guard let groups = ipv6(host) else { return false }
    if let mapped = mapped(groups) { return isPrivate(mapped) }
    // Unique local fc00::/7 and link-local fe80::/10.
    return groups[0] & 0xFE00 == 0xFC00 || groups[0] & 0xFFC0 == 0xFE80
  }

  /// This machine by name or address.
  static func isLoopback(_ host: String) -> Bool {
    let host = host.lowercased()
    if host == "localhost" || host == "localhost." { return true }
    if let address = ipv4(host) { return address[0] == 127 || address == [0, 0, 0, 0] }
    guard let groups = ipv6(host) else { return false }
    if let mapped = mapped(groups) { return mapped[0] == 127 || mapped == [0, 0, 0, 0] }
    return groups.dropLast().allSatisfy { $0 == 0 } && groups[7] <= 1
  }

  private static func isPrivate(_ address: [UInt8]) -> Bool {
    switch (address[0], address[1]) {
    case (10, _), (127, _), (192, 168), (169, 254): true
    case (172, 16...31): true
    default: address == [0, 0, 0, 0]
    }
  }

  /// The IPv4 address inside `::ffff:a.b.c.d`.
  private static func mapped(_ groups: [UInt16]) -> [UInt8]? {
    guard groups[0..<5].allSatisfy({ $0 == 0 }), groups[5] == 0xFFFF else { return nil }
    return [UInt8(groups[6] >> 8), UInt8(groups[6] & 255), UInt8(groups[7] >> 8), UInt8(groups[7] & 255)]
  }

  /// Four decimal parts. `010.0.0.1` is none: programs don't agree on what it means.
  static func ipv4(_ host: String) -> [UInt8]? {
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 4 else { return nil }
    var address: [UInt8] = []
    for part in parts {
      guard part.utf8.count <= 3, part.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }), let value = UInt8(part),
        part == "0" || !part.hasPrefix("0")
      else { return nil }
      address.append(value)
    }
    return address
  }

  /// The eight groups of an IPv6 address without brackets; a zone (`%eth0`) is ignored.
  static func ipv6(_ host: String) -> [UInt16]? {
    guard host.contains(":"), host.utf8.count <= 64 else { return nil }
    let plain = host.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)[0]
    func groups(_ text: Substring) -> [UInt16]? {
      if text.isEmpty { return [] }
      var groups: [UInt16] = []
      let parts = text.split(separator: ":", omittingEmptySubsequences: false)
      for (index, part) in parts.enumerated() {
        if index == parts.count - 1, let v4 = ipv4(String(part)) {
          groups += [UInt16(v4[0]) << 8 | UInt16(v4[1]), UInt16(v4[2]) << 8 | UInt16(v4[3])]
        } else {
          guard (1...4).contains(part.utf8.count), let value = UInt16(part, radix: 16) else { return nil }
          groups.append(value)
        }
      }
      return groups
    }
    guard let gap = firstGap(plain) else {
      guard let all = groups(plain), all.count == 8 else { return nil }
      return all
    }
    guard let head = groups(plain[..<gap]), let tail = groups(plain[plain.index(gap, offsetBy: 2)...]),
      head.count + tail.count < 8
    else { return nil }
    return head + [UInt16](repeating: 0, count: 8 - head.count - tail.count) + tail
  }

  private static func firstGap(_ text: Substring) -> Substring.Index? {
    var index = text.startIndex
    while index < text.endIndex {
      let next = text.index(after: index)
      if text[index] == ":" && next < text.endIndex && text[next] == ":" { return index }
      index = next
    }
    return nil
  }
}
