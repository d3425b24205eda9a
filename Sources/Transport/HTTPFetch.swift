import System

/// Gets a small document by HTTP(S): one GET, no redirects, at most `limit` bytes of answer, all within `timeout`. Asked as HTTP/1.0,
/// so that the answer comes in one piece and ends with the connection.
public func fetch(
  _ endpoint: Endpoint, trust: Trust = .system, limit: Int, timeout: Duration, loop: EventLoop, proxy: Proxy? = nil
) async throws(TransportError) -> [UInt8] {
  guard Endpoint.isPath(endpoint.path) else {
    throw TransportError(.address, "The path of \(endpoint.authority) can't stand in a request.")
  }
  let request = Array(
    "GET \(endpoint.path) HTTP/1.0\r\nHost: \(endpoint.authority)\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
      .utf8)
  return try await Opening.run(loop: loop, limit: timeout) { opening throws(TransportError) in
    let channel = try await opening.dial(endpoint, proxy: proxy)
    if endpoint.isTLS {
      let certificate = try await opening.secure(channel, host: endpoint.host, judges: trust == .system)
      try opening.judge(certificate, trust, host: endpoint.host)
    }
    return try await opening.get(channel, request, limit: limit, peer: endpoint.authority)
  }
}

extension Opening {
  fileprivate func get(
    _ channel: Channel, _ request: [UInt8], limit: Int, peer: String
  ) async throws(TransportError) -> [UInt8] {
    let step = "the answer of \(peer)"
    try await write(request, to: channel, step)
    let head: HTTPHead
    var body: [UInt8]
    switch try await readHead(.response, from: channel, step) {
    case .success((head: let found, rest: let rest)): (head, body) = (found, rest)
    case .failure(let error): throw TransportError(.notUpgraded(0), "\(peer) does not speak HTTP: \(error.what).")
    }
    if head.status != 200 {
      throw TransportError(.notUpgraded(head.status), "\(peer) answers HTTP \(head.statusText).")
    }
    if let coding = head.headers["transfer-encoding"], coding.lowercased() != "identity" {
      throw TransportError(.notUpgraded(200), "\(peer) answers in pieces, which was not asked for.")
    }
    var length: Int?
    if let text = head.headers["content-length"] {
      guard let value = Int(text), value >= 0 else { throw TransportError(.lost, "\(peer) gives no right length.") }
      length = value
    }
    let tooLong = TransportError(.lost, "\(peer) answers with more than \(limit) bytes.")
    if let length, length > limit { throw tooLong }
    while body.count < length ?? .max {
      if body.count > limit { throw tooLong }
      switch channel.read(loop.scratch) {
      case .done(let count): body += loop.scratch[0..<count]
      case .wantsRead: try await wait(channel, .readable, step)
      case .wantsWrite: try await wait(channel, .writable, step)
      case .ended:
        if let length, body.count < length { throw TransportError(.lost, "\(peer) ended before its answer did.") }
        return body
      case .failed(let reason): throw TransportError(.lost, "\(peer) failed in its answer: \(reason).")
      }
    }
    if let length { body.removeLast(body.count - length) }
    return body
  }
}
