import COpenSSL
import Crypto
import Glibc
import System

extension WebSocket {
  /// Opens a WebSocket to `endpoint`, all of it within `options.timeout`. The certificate is judged before a byte of HTTP is sent.
  /// Redirects are not followed: the error names the status.
  public static func connect(
    to endpoint: Endpoint, options: ConnectOptions, loop: EventLoop
  ) async throws(TransportError) -> WebSocket {
    let key = Base64.encode(Random.bytes(16))
    let request = try upgradeRequest(for: endpoint, key: key, headers: options.headers)
    return try await Opening.run(loop: loop, limit: options.timeout) { opening throws(TransportError) in
      let channel = try await opening.dial(endpoint, proxy: options.proxy)
      var fingerprint: [UInt8]?
      if endpoint.isTLS {
        let certificate = try await opening.secure(channel, host: endpoint.host, judges: options.trust == .system)
        try opening.judge(certificate, options.trust, host: endpoint.host)
        fingerprint = certificate.fingerprint
      }
      let early = try await opening.upgrade(channel, request, key: key, peer: endpoint.authority)
      let socket = WebSocket(
        channel, loop: loop, isClient: true, maxMessage: options.maxMessage, fingerprint: fingerprint)
      await socket.start(early: early)
      return socket
    }
  }

  /// Answers a client's upgrade on an accepted channel. Nil when it was refused or is not to be had.
  static func accept(
    _ channel: Channel, from address: String, identity: ServerIdentity?, loop: EventLoop, maxMessage: Int,
    opening: isolated Opening, accept: (UpgradeRequest) -> Int?
  ) async throws(TransportError) -> WebSocket {
    if let identity {
      channel.secure(try identity.session())
      try await opening.shakeHands(channel, with: address)
    }
    let (request, early) = try await opening.answerUpgrade(channel, from: address, accept: accept)
    let socket = WebSocket(channel, loop: loop, isClient: false, maxMessage: maxMessage, request: request)
    await socket.start(early: early)
    return socket
  }

  /// What `Sec-WebSocket-Accept` must say for `key` (RFC 6455 §4.2.2).
  static func acceptance(of key: String) -> String {
    let text = Array((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8)
    var digest = [UInt8](repeating: 0, count: 20)
    SHA1(text, text.count, &digest)
    return Base64.encode(digest)
  }

  // No Origin: its presence makes a gateway take us for a browser (protocol §1.1). No extensions, so no compression.
  private static func upgradeRequest(
    for endpoint: Endpoint, key: String, headers: [(name: String, value: String)]
  ) throws(TransportError) -> [UInt8] {
    guard Endpoint.isPath(endpoint.path) else {
      throw TransportError(.address, "The path of \(endpoint.authority) can't stand in a request.")
    }
    let isDefaultPort = endpoint.port == (endpoint.isTLS ? 443 : 80)
    let host = isDefaultPort ? String(endpoint.authority.dropLast("\(endpoint.port)".count + 1)) : endpoint.authority
    var head = "GET \(endpoint.path) HTTP/1.1\r\nHost: \(host)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \(key)\r\n"
    for (name, value) in endpoint.isTLS ? headers : [] {
      let isOurs =
        ["host", "upgrade", "connection", "origin", "content-length", "transfer-encoding"].contains(name.lowercased())
        || name.lowercased().hasPrefix("sec-websocket-")
      guard !isOurs, !name.isEmpty, name.utf8.allSatisfy(HTTPHead.isToken),
        value.utf8.allSatisfy({ $0 >= 32 && $0 != 127 || $0 == 9 })
      else { throw TransportError(.address, "The header “\(name)” can't be added to the request.") }
      head += "\(name): \(value)\r\n"
    }
    return Array((head + "\r\n").utf8)
  }
}

extension Opening {
  /// The client's side of the upgrade. Returns what came with the answer.
  fileprivate func upgrade(
    _ channel: Channel, _ request: [UInt8], key: String, peer: String
  ) async throws(TransportError) -> [UInt8] {
    let step = "the upgrade by \(peer)"
    try await write(request, to: channel, step)
    let head: HTTPHead
    let rest: [UInt8]
    switch try await readHead(.response, from: channel, step) {
    case .success(let found): (head, rest) = found
    case .failure(let error): throw TransportError(.notUpgraded(0), "\(peer) does not speak WebSocket: \(error.what).")
    }
    if head.status != 101 {
      let target = (300..<400).contains(head.status) ? head.headers["location"].map { " to \($0.prefix(200))" } : nil
      throw TransportError(
        .notUpgraded(head.status), "\(peer) does not open a WebSocket: HTTP \(head.statusText)\(target ?? "").")
    }
    guard head.headers["upgrade"]?.lowercased() == "websocket", head.lists("upgrade", in: "connection"),
      head.headers["sec-websocket-accept"] == WebSocket.acceptance(of: key)
    else { throw TransportError(.notUpgraded(101), "\(peer) upgrades to something that was not asked for.") }
    if head.headers["sec-websocket-extensions"] != nil || head.headers["sec-websocket-protocol"] != nil {
      throw TransportError(.notUpgraded(101), "\(peer) uses an extension or a subprotocol that was not offered.")
    }
    return rest
  }

  /// The server's side. Throws after a refusal has been answered.
  fileprivate func answerUpgrade(
    _ channel: Channel, from address: String, accept: (UpgradeRequest) -> Int?
  ) async throws(TransportError) -> (UpgradeRequest, early: [UInt8]) {
    let head: HTTPHead
    let rest: [UInt8]
    switch try await readHead(.request, from: channel, "a request from \(address)") {
    case .success(let found): (head, rest) = found
    case .failure(let error): throw refuse(channel, error.isTooLong ? 431 : 400, error.what)
    }
    guard case .request(let method, let target) = head.start, method == "GET", target.hasPrefix("/"),
      let host = head.headers["host"], !host.contains(","), head.headers["transfer-encoding"] == nil,
      head.headers["content-length"] ?? "0" == "0"
    else { throw refuse(channel, 400, "it is no GET of a path on one host") }
    guard head.lists("websocket", in: "upgrade"), head.lists("upgrade", in: "connection"),
      head.headers["sec-websocket-version"] == "13"
    else { throw refuse(channel, 426, "it asks for no WebSocket of version 13") }
    guard let key = head.headers["sec-websocket-key"], key.utf8.count == 24, Base64.decode(key)?.count == 16 else {
      throw refuse(channel, 400, "its key is none")
    }
    let request = UpgradeRequest(path: target, headers: head.headers, remoteAddress: address)
    if let status = accept(request) { throw refuse(channel, status, "it is not wanted") }
    let answer =
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      + "Sec-WebSocket-Accept: \(WebSocket.acceptance(of: key))\r\n\r\n"
    try await write(Array(answer.utf8), to: channel, "a client")
    return (request, rest)
  }

  /// Answers with `status` and hangs up.
  private func refuse(_ channel: Channel, _ status: Int, _ why: String) -> TransportError {
    var answer = "HTTP/1.1 \(status) \(phrase(status))\r\nConnection: close\r\nContent-Length: 0\r\n"
    if status == 426 { answer += "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" }
    let stream = ByteStream(channel, loop: loop)
    stream.end(within: .seconds(2)) { $0 += Array((answer + "\r\n").utf8) }
    return TransportError(.notUpgraded(status), "The request was refused: \(why).")
  }

  private func phrase(_ status: Int) -> String {
    switch status {
    case 400: "Bad Request"
    case 401: "Unauthorized"
    case 403: "Forbidden"
    case 404: "Not Found"
    case 426: "Upgrade Required"
    case 429: "Too Many Requests"
    case 431: "Request Header Fields Too Large"
    case 500: "Internal Server Error"
    case 502: "Bad Gateway"
    case 503: "Service Unavailable"
    default: "Refused"
    }
  }
}
