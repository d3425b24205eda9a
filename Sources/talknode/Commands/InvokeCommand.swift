import Configuration
import GatewayProtocol
import System

enum InvokeCommand {
  private static let params = Option("params", value: "JSON", "what the command is given (- is standard input)")
  private static let timeout = Option(
    "timeout", value: "SECONDS", "how long it may take (default: 30; 0: its own limit)")

  static let verb = Verb(
    "invoke", "run one of this node's commands, as an agent would",
    operands: [Operand("COMMAND", "for example device.info; `talknode capabilities` lists them")],
    options: [params, timeout, .json, .config],
    notes: [
      """
      Asks the running talknode, or, when none runs, does it itself. It goes the way of an agent's request: the same switches, \
      limits and audit log. The payload is printed as JSON; --json wraps it: {"ok":true,"payload":…}.
      """
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let command = arguments[0]!
    let json = try parsed(arguments[params])
    let timeoutMs = try milliseconds(arguments[timeout])
    let loop = context.loop()
    defer { loop.stop() }
    let outcome: InvokeOutcome
    if let client = try await context.daemon(loop) {
      let limit = timeoutMs == 0 ? 605 : (timeoutMs ?? 30_000) / 1000 + 5
      let text = try await client.callRaw(
        .invoke(command: command, params: json, timeoutMs: timeoutMs), timeout: .seconds(limit))
      outcome = .success(text == Array("null".utf8) ? nil : text)
    } else {
      let settings = try context.settings()
      let node = try Node(context.instance, settings: settings, environment: context.environment, loop: loop)
      outcome = await node.invoke(command, params: json, timeoutMs: timeoutMs)
      await node.stop()
    }
    switch outcome {
    case .success(let payload):
      if context.wantsJSON {
        terminal.print(
          bytes: Array(#"{"ok":true,"payload":"#.utf8) + (payload ?? Array("null".utf8)) + Array("}\n".utf8))
      } else if let payload {
        terminal.print(bytes: payload + [0x0A])
      }
      return .ok
    case .failure(let error): throw Failure(command: command, error: error)
    }
  }

  private static func parsed(_ text: String?) throws(Failure) -> JSON? {
    guard var text else { return nil }
    if text == "-" {
      let bytes: [UInt8]
      do { bytes = try Files.read("/dev/stdin", limit: ControlProtocol.paramsLimit) } catch {
        throw Failure("INPUT", "The params can't be read from standard input.", cause: "\(error)", exit: .noInput)
      }
      text = String(decoding: bytes, as: UTF8.self)
    }
    do { return try JSON(parsing: text) } catch {
      throw Failure(
        "PARAMS", "The params are no JSON.", cause: "\(error)", remedy: #"--params '{"key":"value"}'"#, exit: .data)
    }
  }

  private static func milliseconds(_ text: String?) throws(Failure) -> Int64? {
    guard let text else { return nil }
    guard let seconds = Double(text), seconds >= 0, seconds <= 600 else {
      throw .usage("--timeout takes 0 to 600 seconds.", remedy: "--timeout 30")
    }
    return Int64((seconds * 1000).rounded(.up))
  }
}

extension Failure {
  /// What a command answered, its `SYMBOL: sentence` taken apart again.
  init(command: String, error: JSON) {
    let code = error["code"]?.string ?? "UNAVAILABLE"
    var message = error["message"]?.string ?? "\(command) did not succeed."
    if message.hasPrefix(code + ": ") { message.removeFirst(code.count + 2) }
    let exit: ExitStatus = code == "INVALID_REQUEST" ? .data : .unavailable
    self.init(code, "\(command): \(message)", cause: code, exit: exit)
  }
}
