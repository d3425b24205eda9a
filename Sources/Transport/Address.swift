import Glibc

/// A socket address, IPv4 or IPv6.
struct Address: Sendable, Equatable {
  /// The C structure's bytes.
  let raw: [UInt8]
  let family: Int32

  init(raw: [UInt8], family: Int32) {
    self.raw = raw
    self.family = family
  }

  /// Calls `body` with the structure as the socket calls take it.
  func with<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    raw.withUnsafeBytes { bytes in
      body(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
    }
  }

  /// The address without port. IPv4 inside IPv6 is shown as the IPv4 it is.
  var text: String {
    var text = [CChar](repeating: 0, count: 64)
    let code = with { getnameinfo($0, $1, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST) }
    if code != 0 { return "?" }
    let host = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return host.hasPrefix("::ffff:") && host.contains(".") ? String(host.dropFirst(7)) : host
  }

  var port: UInt16 {
    // In both structures the port is the second 16 bits, in network order.
    raw.count >= 4 ? UInt16(raw[2]) << 8 | UInt16(raw[3]) : 0
  }

  /// What `call` (getsockname, getpeername, accept) writes; nil when it fails.
  static func filled(by call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32) -> Address? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let code = withUnsafeMutablePointer(to: &storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { call($0, &length) }
    }
    if code < 0 { return nil }
    let raw = withUnsafeBytes(of: storage) { Array($0.prefix(Int(length))) }
    return Address(raw: raw, family: Int32(storage.ss_family))
  }

  static func peer(of descriptor: Int32) -> Address? { filled { getpeername(descriptor, $0, $1) } }
  static func local(of descriptor: Int32) -> Address? { filled { getsockname(descriptor, $0, $1) } }

  /// The 4 or 16 bytes of an address in text, an IPv6 zone left out; nil when it is a name.
  static func bytes(of host: String) -> [UInt8]? {
    // C would read up to a zero byte and overlook the rest.
    if host.utf8.contains(0) { return nil }
    var four = in_addr()
    if inet_pton(AF_INET, host, &four) == 1 { return withUnsafeBytes(of: four) { Array($0) } }
    var six = in6_addr()
    let bare = host.prefix { $0 != "%" }
    if bare.contains(":"), inet_pton(AF_INET6, String(bare), &six) == 1 {
      return withUnsafeBytes(of: six) { Array($0) }
    }
    return nil
  }

  /// Addresses of a host by getaddrinfo(3), in its order (RFC 6724). It may block for long unless `isNumeric`.
  static func lookUp(_ host: String, _ port: UInt16, isNumeric: Bool) -> Result<[Address], LookUpFailure> {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_NUMERICSERV | (isNumeric ? AI_NUMERICHOST : 0)
    var list: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, String(port), &hints, &list)
    guard code == 0 else { return .failure(LookUpFailure(reason: String(cString: gai_strerror(code)))) }
    defer { freeaddrinfo(list) }
    var addresses: [Address] = []
    var next = list
    while let entry = next {
      let info = entry.pointee
      if let address = info.ai_addr, info.ai_family == AF_INET || info.ai_family == AF_INET6 {
        let raw = Array(UnsafeRawBufferPointer(start: address, count: Int(info.ai_addrlen)))
        let found = Address(raw: raw, family: info.ai_family)
        if !addresses.contains(found) { addresses.append(found) }
      }
      next = info.ai_next
    }
    return .success(addresses)
  }
}

/// Why a name has no address, in the resolver's words.
struct LookUpFailure: Error { let reason: String }
