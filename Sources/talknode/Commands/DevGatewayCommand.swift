import DevGateway
import Glibc
import System

enum DevGatewayCommand {
  private static let port = Option("port", value: "N", "the port on loopback (default: a free one)")
  private static let token = Option("token", value: "T", "the shared token (default: a random one)")
  private static let tls = Option("tls", "wss, with a certificate made for this run")
  private static let allow = Option(
    "allow", value: "CMD,…", "commands that agents may call, beyond a Linux node's defaults")
  private static let deny = Option("deny", value: "CMD,…", "commands that agents may not call")
  private static let noAutoApprove = Option("no-auto-approve", "ask for approval also from this machine")
  private static let talk = Option(
    "talk", "offer transcription, by a recogniser's process on this machine, and a voice")
  private static let sentences = Option(
    "sentences", value: "FILE", "with --talk: what is understood, a sentence a line (without: free dictation)")
  private static let protocol3 = Option("protocol3", "behave as a gateway of before May 2026")

  static let verb = Verb(
    "dev-gateway", "a gateway on loopback to try nodes against, until stopped",
    options: [port, token, tls, allow, deny, noAutoApprove, talk, sentences, protocol3, .json],
    notes: [
      """
      A test double with the real wire: handshake, device proof, the three approvals, command policy, setup codes, chat. It listens on \
      this machine only, forgets everything when it ends, and is not a product. With --json its first line has url, token, \
      fingerprint and setupCode; then a line each time something asks for approval.
      """
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    var program = DevGatewayProgram()
    if let text = arguments[port] {
      guard let number = UInt16(text) else { throw .usage("--port takes 0 to 65535.") }
      program.port = number
    }
    program.token = arguments[token]
    program.usesTLS = arguments.has(tls)
    program.allow = names(arguments[allow])
    program.deny = names(arguments[deny])
    program.autoApprove = !arguments.has(noAutoApprove)
    program.protocol3 = arguments.has(protocol3)
    if arguments.has(talk) {
      program.talk.recogniser = try DevRecognizerCommand.command(sentences: arguments[sentences])
      program.talk.voice = .flite()
    } else if arguments.has(sentences) {
      throw .usage("--sentences belongs to --talk.")
    }
    program.printsJSON = arguments.has(.json)
    let loop = EventLoop(name: "io")
    defer { loop.stop() }
    let signals: Signals
    do { signals = try Signals([SIGINT, SIGTERM], loop: loop) } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    await signals.start()
    do throws(DevGatewayError) {
      try await program.run(
        on: loop, print: { terminal.print($0) }, until: { for await _ in signals.stream { break } })
    } catch {
      throw Failure(error.code.rawValue, error.summary, remedy: error.remedy, exit: .unavailable)
    }
    await signals.stop()
    return .ok
  }

  private static func names(_ list: String?) -> [String] {
    (list ?? "").split(separator: ",").map { $0.trimmed }.filter { !$0.isEmpty }
  }
}
