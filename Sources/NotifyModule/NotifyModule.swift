/// NotifyModule: `system.notify`, a notification on this machine's desktop (node-commands §10.1).
import GatewayProtocol
import NodeKit
import System

public struct NotifyModule: CapabilityModule {
  public static let consent = Consent(
    name: "notify", allows: "Agents may show notifications on this machine's desktop.",
    refusalCode: "NOTIFICATIONS_DISABLED", isOnByDefault: true)

  public let capability: Capability = "system"
  public let commands = [
    Command(
      "system.notify", summary: "Shows a notification on the desktop.", gatewayDefault: .allowed, consent: Self.consent,
      limit: .seconds(10))
  ]
  private let notifier: Notifier
  /// A server that has to be started first may take some seconds; one that is stuck must not take the caller's whole time.
  private static let patience: Duration = .seconds(8)

  public init(notifier: Notifier) { self.notifier = notifier }

  public func availability() async -> Availability {
    do throws(DBusError) {
      try await notifier.check()
      return .ready
    } catch {
      let absence = Self.failure(error)
      return .absent(reason: absence.summary, remedy: absence.remedy)
    }
  }

  public func handle(_ invocation: Invocation) async throws(CommandError) -> Payload {
    let note = try Self.note(invocation.requiredParams())
    let timeout = min(Self.patience, max(invocation.deadline - Monotonic.now(), .milliseconds(100)))
    do throws(DBusError) {
      try await notifier.show(note, timeout: timeout)
      return .json(["ok": true])
    } catch {
      throw Self.failure(error)
    }
  }

  static func note(_ params: JSON) throws(CommandError) -> Notifier.Note {
    let title = try text("title", of: params)
    let body = try text("body", of: params)
    if title.isEmpty && body.isEmpty { throw .invalidRequest("empty notification") }
    // A word that is not known counts as the default, as a field that is not known is ignored.
    let urgency: Notifier.Note.Urgency =
      switch params["priority"]?.string {
      case "passive": .low
      case "timeSensitive": .critical
      default: .normal
      }
    let silence: Set<String> = ["none", "silent", "off", "false", "0"]
    let sound = params["sound"]?.string?.trimmed.lowercased()
    return Notifier.Note(
      title: title.isEmpty ? Notifier.applicationName : title, body: body, urgency: urgency,
      isSilent: sound.map(silence.contains) ?? false, icon: "dialog-information")
  }

  private static func text(_ key: String, of params: JSON) throws(CommandError) -> String {
    guard let value = params[key] else { return "" }
    guard let text = value.string else { throw .invalidRequest("\(key) must be a string") }
    return text.trimmed
  }

  /// A bus or a server that is not there is `NOTIFICATIONS_UNAVAILABLE`; one that is there and does not do it is `NOTIFICATION_FAILED`.
  static func failure(_ error: DBusError) -> CommandError {
    if error.isServiceMissing {
      return CommandError(
        "NOTIFICATIONS_UNAVAILABLE", "no notification server runs in this session.",
        remedy: "Install and start one, for example: sudo apt install dunst")
    }
    if error.isNoReply {
      return CommandError("NOTIFICATION_FAILED", "the notification server does not answer.", remedy: "Restart it.")
    }
    if error.isConnectionFailure {
      return CommandError(
        "NOTIFICATIONS_UNAVAILABLE",
        "there is no session bus to reach a notification server through (\(error.message)).",
        remedy: "Run talknode in the desktop session or as its user unit: systemctl --user start talknode")
    }
    return CommandError("NOTIFICATION_FAILED", "the notification server refused: \(error.message)")
  }
}
