import Glibc
import System
import TestSupport
import Testing

@testable import Transport

@Suite("The way to a server")
struct DialTests {
  func address(_ text: String) -> Address {
    guard case .success(let addresses) = Address.lookUp(text, 1, isNumeric: true) else { fatalError("\(text) is none") }
    return addresses[0]
  }

  @Test("families take turns, the preferred one first, each in its own order")
  func interleaving() {
    let list = ["::1", "::2", "::3", "127.0.0.1", "127.0.0.2"].map(address)
    #expect(Resolver.interleaved(list).map(\.text) == ["::1", "127.0.0.1", "::2", "127.0.0.2", "::3"])
    #expect(Resolver.interleaved([]).isEmpty)
    #expect(Resolver.interleaved([list[3], list[0]]).map(\.text) == ["127.0.0.1", "::1"])
  }

  @Test("an address shows its host, IPv4 also when it comes inside IPv6")
  func texts() {
    #expect(address("::ffff:10.1.2.3").text == "10.1.2.3")
    #expect(address("fd00::0:1").text == "fd00::1" && address("fd00::1").port == 1)
  }

  @Test("IPv6 loopback works, in the server's Host header in brackets")
  func ipv6() async throws {
    let seen = Seen<String>()
    let server = try WebSocketServer(
      host: "::1", loop: loop, maxMessage: 100,
      accept: { request in
        seen.add((request.headers["host"] ?? "") + " " + request.remoteAddress)
        return nil
      }, handler: { _ in })
    await server.start()
    let endpoint = try #require(Endpoint(url: "ws://[::1]:\(server.port)/"))
    _ = try await WebSocket.connect(to: endpoint, options: ConnectOptions(), loop: loop)
    #expect(seen.all == ["[::1]:\(server.port) ::1"])
    await server.stop()
  }

  @Test("of several addresses that refuse and one that listens, the one is reached", arguments: ["127.0.0.1", "::1"])
  func fallsBack(host: String) async throws {
    let server = try await echoServer(host: host)
    let hosts = ["127.0.0.9", "::1", "127.0.0.1", "127.0.0.8"]
    let targets = hosts.flatMap { (try? Address.lookUp($0, server.port, isNumeric: true).get()) ?? [] }
    let channel = try await Opening.run(loop: loop, limit: .seconds(15)) { opening throws(TransportError) in
      try await opening.connect(toOneOf: targets, name: "test")
    }
    #expect(Address.peer(of: channel.descriptor)?.text == host)
    await server.stop()
  }

  @Test("an address that does not answer costs 250 ms, not the whole time", arguments: [1, 3])
  func stagger(silent: Int) async throws {
    let server = try await echoServer()
    let full = (0..<silent).map { _ in FullServer() }
    let targets = full.map(\.address) + [Address.local(server.port)]
    let channel = try await Opening.run(loop: loop, limit: .seconds(15)) { opening throws(TransportError) in
      try await opening.connect(toOneOf: targets, name: "test")
    }
    #expect(Address.peer(of: channel.descriptor)?.port == server.port)
    await server.stop()
  }

  @Test("a port where nobody listens is refused, a name that does not exist is not found")
  func unreachable() async throws {
    let server = try await echoServer()
    await server.stop()
    let options = ConnectOptions()
    let refused = await failure { () async throws(TransportError) in
      try await WebSocket.connect(to: .local(server.port), options: options, loop: loop)
    }
    #expect(refused?.kind == .refused)
    let unknown = await failure { () async throws(TransportError) in
      try await WebSocket.connect(to: .local(1, host: "nowhere.invalid"), options: options, loop: loop)
    }
    #expect(unknown?.kind == .nameNotFound)
    #expect(await isReachable(.local(server.port), timeout: .seconds(2), loop: loop) == false)
  }

  @Test("reachability is a TCP connection, no more")
  func reachability() async throws {
    let server = RawServer { _ = $0.readToEnd() }
    #expect(await isReachable(.local(server.port, tls: true), timeout: .seconds(15), loop: loop))
    let full = FullServer()
    #expect(await isReachable(.local(full.address.port), timeout: .milliseconds(100), loop: loop) == false)
  }

  @Test(
    "a connection that is not wanted any more ends at once, at every step", arguments: ["connect", "tls", "upgrade"])
  func cancelled(step: String) async throws {
    let full = FullServer()
    let silent = RawServer { _ = $0.readToEnd() }
    let port = step == "connect" ? full.address.port : silent.port
    let connecting = Task {
      await failure { () async throws(TransportError) in
        try await WebSocket.connect(
          to: .local(port, tls: step == "tls"), options: ConnectOptions(timeout: .seconds(600)), loop: loop)
      }
    }
    if step != "connect" { try await eventually("it is under way") { silent.connections == 1 } }
    connecting.cancel()
    #expect(await connecting.value?.kind == .cancelled)
  }

  @Test(
    "a path that would break the request is refused before anything is sent",
    arguments: ["", "a", "/a b", "/\r\nX: y", "/?q", "/ä"])
  func badPath(path: String) async {
    let error = await failure { () async throws(TransportError) in
      try await WebSocket.connect(to: .local(1, path: path), options: ConnectOptions(), loop: loop)
    }
    #expect(error?.kind == .address)
  }

  // MARK: Proxies

  /// A proxy that does what it is asked, and takes down the requests.
  func tunnels(requests: Seen<String>, identity: ServerIdentity? = nil) -> RawServer {
    RawServer { peer in
      if let identity {
        guard let session = try? identity.session(), peer.secure(session) else { return }
      }
      let request = peer.read(until: "\r\n\r\n")
      requests.add(request)
      guard let target = request.split(separator: " ").dropFirst().first, let (_, port) = Endpoint.authority(target),
        let port
      else { return }
      peer.write("HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
      let far = RawPeer(port: port)
      peer.relay(with: far)
    }
  }

  @Test("a proxy is asked for a tunnel, also for ws, and TLS goes through it", arguments: [false, true])
  func proxy(isTLS: Bool) async throws {
    let identity = isTLS ? try ServerIdentity.selfSigned(names: ["localhost"]) : nil
    let server = try await echoServer(identity: identity)
    let requests = Seen<String>()
    let proxy = tunnels(requests: requests)
    let trust = identity.map { Trust.pinned($0.fingerprint) } ?? .system
    let client = try await WebSocket.connect(
      to: .local(server.port, tls: isTLS, host: "gw.example.com"),
      options: ConnectOptions(trust, proxy: Proxy(endpoint: .local(proxy.port), credentials: "user:word")), loop: loop)
    #expect(
      requests.all == [
        "CONNECT gw.example.com:\(server.port) HTTP/1.1\r\nHost: gw.example.com:\(server.port)\r\n"
          + "Proxy-Authorization: Basic dXNlcjp3b3Jk\r\n\r\n"
      ])
    let bytes = [UInt8](repeating: 5, count: 1 << 20)
    async let answer = client.receive()
    try await client.send(bytes, text: false)
    #expect(try await answer.bytes == bytes)
    await client.close()
    await server.stop()
  }

  @Test("the pin is checked through a proxy too, and a probe sees the gateway's certificate, not the proxy's")
  func pinThroughProxy() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["localhost"])
    let server = try await echoServer(identity: identity)
    let proxy = tunnels(requests: Seen())
    let endpoint = Endpoint.local(server.port, tls: true)
    let error = await failure { () async throws(TransportError) in
      try await WebSocket.connect(
        to: endpoint,
        options: ConnectOptions(.pinned([1]), proxy: Proxy(endpoint: .local(proxy.port))), loop: loop)
    }
    #expect(error?.kind == .pinMismatch(identity.fingerprint))
    let sighting = try await probeCertificate(
      of: endpoint, timeout: .seconds(15), loop: loop, proxy: Proxy(endpoint: .local(proxy.port)))
    #expect(sighting.fingerprint == identity.fingerprint)
    await server.stop()
  }

  @Test("a proxy over TLS that the system does not trust is not told a thing")
  func untrustedProxy() async throws {
    let requests = Seen<String>()
    let proxy = tunnels(requests: requests, identity: try ServerIdentity.selfSigned(names: ["localhost"]))
    let error = await failure { () async throws(TransportError) in
      try await WebSocket.connect(
        to: .local(1), options: ConnectOptions(proxy: Proxy(endpoint: .local(proxy.port, tls: true))), loop: loop)
    }
    #expect(error?.kind == .proxy && error?.description.contains("trust") == true)
    #expect(requests.all.joined() == "")
  }

  @Test("TLS goes inside a proxy's TLS")
  func tlsInTLS() async throws {
    let identity = try ServerIdentity.selfSigned(names: ["localhost"])
    let server = try await echoServer(identity: identity)
    let proxyIdentity = try ServerIdentity.selfSigned(names: ["127.0.0.1"])
    let requests = Seen<String>()
    let proxy = tunnels(requests: requests, identity: proxyIdentity)
    try TrustStore.shared.add(proxyIdentity)
    let client = try await WebSocket.connect(
      to: .local(server.port, tls: true),
      options: ConnectOptions(
        .pinned(identity.fingerprint), proxy: Proxy(endpoint: .local(proxy.port, tls: true))), loop: loop)
    let bytes = [UInt8](repeating: 5, count: 1 << 20)
    async let answer = client.receive()
    try await client.send(bytes, text: false)
    #expect(try await answer.bytes == bytes)
    await client.close(code: 4000)
    #expect(requests.all.count == 1)
    await server.stop()
  }

  @Test(
    "a proxy that refuses, or is none, is an error of the proxy",
    arguments: [
      "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "HTTP/1.1 502 Bad Gateway\r\n\r\n", "SSH-2.0-x\r\n", "",
      "HTTP/1.1 200 OK\r\n\r\nunasked",
    ])
  func refusingProxy(answer: String) async {
    let proxy = RawServer {
      $0.read(until: "\r\n\r\n")
      $0.write(answer)
    }
    let error = await failure { () async throws(TransportError) in
      try await WebSocket.connect(
        to: .local(1), options: ConnectOptions(proxy: Proxy(endpoint: .local(proxy.port))), loop: loop)
    }
    #expect(error?.kind == .proxy, "\(String(describing: error))")
    #expect(error.map { !$0.description.contains("407") || answer.contains("407") } == true)
  }
}

extension Address {
  fileprivate static func local(_ port: UInt16) -> Address {
    guard case .success(let addresses) = lookUp("127.0.0.1", port, isNumeric: true) else { fatalError("no address") }
    return addresses[0]
  }
}

/// A port whose queue of connections is full, so that connecting to it neither succeeds nor fails.
private final class FullServer {
  let address: Address
  private let descriptor: Int32
  private var fillers: [Int32] = []

  init() {
    let descriptor = streamSocket(AF_INET)
    precondition(Address.local(0).with { bind(descriptor, $0, $1) } == 0 && listen(descriptor, 0) == 0)
    self.descriptor = descriptor
    address = .local(Address.local(of: descriptor)!.port)
    for _ in 0..<4 {
      let filler = streamSocket(AF_INET)
      _ = address.with { connect(filler, $0, $1) }
      fillers.append(filler)
    }
    usleep(20_000)
  }

  deinit { for descriptor in fillers + [descriptor] { close(descriptor) } }
}

extension Collection where Element: Equatable {
  /// Whether `other` stands somewhere in it.
  func contains(_ other: [Element]) -> Bool { !other.isEmpty && firstRange(of: other) != nil }
}
