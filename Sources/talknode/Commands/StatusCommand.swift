import GatewayClient
import GatewayProtocol
import System

enum StatusCommand {
  private static let follow = Option("follow", "go on with a line at each change")

  static let verb = Verb(
    "status", "what the running talknode is doing, and what it waits for", options: [.json, follow],
    notes: [
      """
      Without --json and with --follow each change is one short line. With --json each is one object: link.missing lists the \
      approvals that are awaited, with the command for the gateway host; link.withheld the commands that the gateway keeps back, \
      and why; text and class are for a bar (waybar: "return-type": "json").
      """
    ], run: run)

  static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let loop = context.loop()
    defer { loop.stop() }
    let client = try await ControlClient.require(context.instance, loop: loop)
    if !arguments.has(follow) {
      show(try await client.call(.status), context)
      return .ok
    }
    var last = ""
    try await client.follow { json throws(Failure) in
      if context.wantsJSON {
        terminal.print(json)
      } else if let status = NodeStatus(json: json), status.sentence != last {
        last = status.sentence
        terminal.print(last)
      }
      return true
    }
    return .ok
  }

  private static func show(_ json: JSON, _ context: Context) {
    guard !context.wantsJSON, let status = NodeStatus(json: json) else { return context.terminal.print(json) }
    for line in lines(status, nowMs: WallClock.milliseconds(), context.terminal) { context.terminal.print(line) }
  }

  /// The status for a person.
  static func lines(_ status: NodeStatus, nowMs: Int64, _ terminal: Terminal) -> [String] {
    var lines: [String] = []
    func add(_ label: String, _ text: String) {
      lines.append(terminal.styled(label, .faint) + String(repeating: " ", count: max(11 - label.count, 1)) + text)
    }
    add("talknode", "\(status.version), pid \(status.pid), up \(span(nowMs - status.startedAtMs))")
    add("device", "\(status.displayName)  \(status.deviceID)")
    guard let link = status.link else {
      add("gateway", terminal.styled("none yet", .warning) + "; introduce one: talknode pair CODE")
      return lines
    }
    add("gateway", "\(link.url)" + (link.serverVersion.map { "  (OpenClaw \($0))" } ?? ""))
    add("node", socket(link.node, nowMs, terminal))
    add("operator", socket(link.operator, nowMs, terminal))
    switch status.talkPath {
    case .full: break
    case .reduced:
      let missing = link.missing.first { $0.kind == .operator }.map { "; it lacks \($0.what)" } ?? ""
      add("talking", "by the node connection alone: this machine recognises and speaks" + missing)
    case .none: add("talking", "what is said is kept until a gateway is connected (talknode ptt last)")
    }
    for approval in link.missing {
      add("missing", "\(terminal.styled(approval.what, .warning)), for \(span(nowMs - approval.sinceMs))")
      add("", "on the gateway host: \(approval.command)")
    }
    if link.node.isConnected && !link.effectiveCommands.isEmpty {
      add("usable", link.effectiveCommands.joined(separator: ", "))
    }
    for command in link.withheld { add("withheld", "\(command.command): \(command.remedy)") }
    let off = status.capabilities.filter { !$0.isEnabled }.map(\.name)
    if !off.isEmpty { add("off", off.joined(separator: ", ") + "  (talknode capabilities)") }
    return lines
  }

  private static func socket(_ status: SocketStatus, _ nowMs: Int64, _ terminal: Terminal) -> String {
    switch status {
    case .idle: "not started"
    case .connecting(let attempt): "connecting" + (attempt > 1 ? ", attempt \(attempt)" : "")
    case .waitingForApproval: terminal.styled("waiting for approval", .warning)
    case .backingOff(let untilMs, let reason): "\(reason); again in \(span(untilMs - nowMs))"
    case .connected(let sinceMs): terminal.styled("connected", .good) + " for \(span(nowMs - sinceMs))"
    case .stopped(_, let summary, let remedy): terminal.styled("stopped", .bad) + ": \(summary) \(remedy)"
    }
  }

  /// `12 s`, `3 min`, `5 h`, `2 d`.
  static func span(_ milliseconds: Int64) -> String {
    let seconds = max(milliseconds, 0) / 1000
    return switch seconds {
    case ..<120: "\(seconds) s"
    case ..<7200: "\(seconds / 60) min"
    case ..<172_800: "\(seconds / 3600) h"
    default: "\(seconds / 86400) d"
    }
  }
}
