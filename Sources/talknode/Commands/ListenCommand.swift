import GatewayProtocol
import System

enum ListenCommand {
  private static let last = Option("last", "the agent's newest answer")
  private static let message = Option("message", value: "ID", "a message of the session that is talked in")

  static let verb = Verb(
    "listen", "have a text read aloud",
    operands: [Operand("TEXT", "what is read (- is standard input)", isOptional: true)],
    options: [last, message, .json],
    notes: ["The gateway's voice reads it where it can, else this machine's. `talknode hush` ends it."], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    var text = arguments[0]
    if text == nil && !arguments.has(last) && !arguments.has(message) {
      throw .usage("There is nothing to read.", remedy: "talknode listen TEXT, or talknode listen --last")
    }
    if text == "-" {
      do {
        text = String(decoding: try Files.read("/dev/stdin", limit: 256 << 10), as: UTF8.self)
      } catch {
        throw Failure("INPUT", "The text can't be read from standard input.", cause: "\(error)", exit: .noInput)
      }
    }
    let loop = context.loop()
    defer { loop.stop() }
    let client = try await ControlClient.require(context.instance, loop: loop)
    let request = arguments[message].map(TalkRequest.listenMessage) ?? .listen(text)
    let answer = try await client.call(.talk(request), timeout: .seconds(600))
    if context.wantsJSON {
      terminal.print(answer)
    } else if let because = answer["because"]?.string {
      terminal.note("This machine's own voice spoke: \(because)")
    }
    return .ok
  }
}
