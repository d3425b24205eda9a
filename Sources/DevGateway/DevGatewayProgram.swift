import Crypto
import GatewayProtocol
import System
import Transport

/// `talknode dev-gateway`: a gateway alone, until it is stopped, for any program that wants to be driven against one.
public struct DevGatewayProgram: Sendable {
  public var port: UInt16 = 0
  /// nil for a random one.
  public var token: String?
  /// Serves `wss` with a certificate made for this run.
  public var usesTLS = false
  public var allow: [String] = []
  public var deny: [String] = []
  public var autoApprove = true
  public var protocol3 = false
  /// Prints JSON, one object a line, in place of text.
  public var printsJSON = false
  public var talk = TalkOffer()
  public init() {}

  /// Setup codes of this program outlast a working day: nobody is to make a new one in the middle of it.
  private static let codeLife = Duration.seconds(24 * 3600)

  /// Prints the URL, the token, the fingerprint and setup codes, then what waits for approval, by `print` (a line each), and ends when
  /// `stopped` returns.
  public func run(
    on loop: EventLoop, print: @escaping @Sendable (String) -> Void, until stopped: @Sendable () async -> Void
  ) async throws(DevGatewayError) {
    var options = DevGateway.Options(token: token ?? Random.token())
    options.port = port
    options.allow = allow
    options.deny = deny
    options.autoApprove = autoApprove
    options.protocol3 = protocol3
    options.talk = talk
    if usesTLS {
      do { options.tls = try ServerIdentity.selfSigned(names: ["localhost", "127.0.0.1"]) } catch {
        throw DevGatewayError(.certificate, "There is no certificate for TLS: \(error)")
      }
    }
    let gateway = DevGateway(options: options, loop: loop)
    try await gateway.start()
    let greeting = await greeting(of: gateway)
    for line in greeting { print(line) }
    let notices = await gateway.notices()
    let printsJSON = printsJSON
    let reporter = Task {
      for await notice in notices { if let line = Self.line(for: notice, asJSON: printsJSON) { print(line) } }
    }
    await stopped()
    reporter.cancel()
    await gateway.stop()
  }

  private func greeting(of gateway: DevGateway) async -> [String] {
    let url = await gateway.url
    let fingerprint = await gateway.fingerprint.map(hexadecimal)
    let full = await gateway.makeSetupCode(profile: .full, life: Self.codeLife)
    let node = await gateway.makeSetupCode(profile: .node, life: Self.codeLife)
    if printsJSON {
      let json = JSON.object(present: [
        "url": .string(url), "port": .int(Int64(gateway.port)), "token": .string(gateway.token),
        "fingerprint": fingerprint.map(JSON.string), "setupCode": .string(full.text),
        "nodeSetupCode": .string(node.text), "allow": .strings(allow), "autoApprove": .bool(autoApprove),
      ])
      return [json.text]
    }
    return [
      "url           \(url)", "token         \(gateway.token)", fingerprint.map { "fingerprint   \($0)" },
      "setup code    \(full.text)", "node only     \(node.text)",
      "A gateway for tests, on this machine only. Ctrl-C ends it.",
    ].compactMap(\.self)
  }

  private static func line(for notice: Notice, asJSON: Bool) -> String? {
    if asJSON { return JSON.object(["event": .string(notice.event), "payload": notice.payload]).text }
    let name = notice.payload["displayName"]?.string ?? notice.payload["deviceId"]?.string ?? "a device"
    let id = notice.payload["requestId"]?.string ?? ""
    switch notice.event {
    case "device.pair.requested":
      return "\(name) asks to be paired as \(notice.payload["role"]?.string ?? "a client"); request \(id)"
    case "node.pair.requested": return "\(name) asks for its commands to be approved; request \(id)"
    case "device.pair.resolved", "node.pair.resolved":
      return "request \(id) is \(notice.payload["decision"]?.string ?? "decided")"
    default: return nil
    }
  }
}
