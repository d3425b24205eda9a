import Crypto
import DevGateway
import GatewayProtocol
import Glibc
import System
import Transport

enum DevGatewayCommand {
  private static let port = Option("port", value: "N", "the port on loopback (default: a free one)")
  private static let token = Option("token", value: "T", "the shared token (default: a random one)")
  private static let password = Option("password", value: "P", "a password that is accepted too")
  private static let tls = Option("tls", "wss with a certificate made for this run")
  private static let allow = Option("allow", value: "CMD,…", "commands that agents may call, beyond a Linux node's defaults")
  private static let deny = Option("deny", value: "CMD,…", "commands that agents may not call")
  private static let noAutoApprove = Option("no-auto-approve", "ask for approval also from this machine")

  static let verb = Verb(
    "dev-gateway", "a gateway on loopback to try nodes against, until stopped",
    options: [port, token, password, tls, allow, deny, noAutoApprove, .json],
    notes: [
      """
      A test double with the real wire: handshake, device proof, the three approvals, command policy, setup codes, chat. It listens on \
      this machine only, forgets everything when it ends, and is not a product.
      """
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let loop = EventLoop(name: "io")
    defer { loop.stop() }
    let shared = arguments[token] ?? Random.token()
    var options = DevGateway.Options(token: shared)
    if let text = arguments[port] {
      guard let number = UInt16(text) else { throw .usage("--port takes 0 to 65535.") }
      options.port = number
    }
    options.password = arguments[password]
    options.allow = names(arguments[allow])
    options.deny = names(arguments[deny])
    options.autoApprove = !arguments.has(noAutoApprove)
    if arguments.has(tls) {
      do { options.tls = try ServerIdentity.selfSigned(names: ["localhost", "127.0.0.1", "::1"]) } catch {
        throw Failure("CERTIFICATE", "No certificate can be made.", cause: "\(error)", exit: .software)
      }
    }
    let signals: Signals
    do { signals = try Signals([SIGINT, SIGTERM], loop: loop) } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    await signals.start()
    let gateway = DevGateway(options: options, loop: loop)
    do { try await gateway.start() } catch {
      throw Failure(
        "LISTEN", "The gateway can't listen on port \(options.port) of loopback.", cause: "\(error)",
        remedy: "talknode dev-gateway --port 0", exit: .unavailable)
    }
    let code = await gateway.makeSetupCode(profile: .node)
    let fingerprint = gateway.fingerprint.map { hexadecimal($0) }
    if arguments.has(.json) {
      terminal.print(
        .object(present: [
          "url": .string(gateway.url), "port": .int(Int64(gateway.port)), "token": .string(shared),
          "fingerprint": fingerprint.map(JSON.string), "setupCode": .string(code),
        ]))
    } else {
      var rows = [["url", gateway.url], ["token", shared]]
      if let fingerprint { rows.append(["fingerprint", fingerprint]) }
      rows.append(["setup code", code])
      terminal.print(table: rows)
      terminal.note("Loopback only, for tests. Ctrl-C ends it.")
    }
    for await _ in signals.stream { break }
    await gateway.stop()
    await signals.stop()
    return .ok
  }

  private static func names(_ list: String?) -> [String] {
    (list ?? "").split(separator: ",").map { $0.trimmed }.filter { !$0.isEmpty }
  }
}
