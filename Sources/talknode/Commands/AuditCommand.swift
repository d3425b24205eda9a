import GatewayProtocol
import NodeKit
import System

enum AuditCommand {
  private static let last = Option("last", value: "N", "how many of the newest entries (default: 50)")

  static let verb = Verb(
    "audit", "who asked this machine for what, and how it ended", options: [last, .json],
    notes: ["The log keeps time, asker, command, outcome and duration; never what was said, seen or answered."],
    run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    var count = 50
    if let text = arguments[last] {
      guard let number = Int(text), (1...100_000).contains(number) else {
        throw .usage("--last takes a number from 1 up.")
      }
      count = number
    }
    let entries: [AuditEntry]
    do { entries = try await AuditLog(path: context.instance.audit).read(last: count) } catch {
      throw Failure("AUDIT_UNREADABLE", "The audit log can't be read.", cause: "\(error)", exit: .noInput)
    }
    if context.wantsJSON {
      terminal.print(["entries": .array(entries.map(\.json))])
    } else if entries.isEmpty {
      terminal.note("Nobody has asked for anything yet.")
    } else {
      terminal.print(
        table: entries.map { entry in
          let origin = if case .gateway(let id) = entry.origin { id } else { "this machine" }
          return [
            WallClock.iso8601(entry.timeMs), origin, entry.command,
            entry.outcome + (entry.isRepeat ? " (repeated)" : ""),
            "\(milliseconds(entry.milliseconds)) ms",
          ]
        })
    }
    return .ok
  }

  /// Three digits are enough: `0.4`, `12.3`, `1240`.
  static func milliseconds(_ value: Double) -> String {
    value < 100 ? "\((value * 10).rounded() / 10)" : "\(Int(value.rounded()))"
  }
}
