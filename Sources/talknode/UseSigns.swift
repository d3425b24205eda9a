import Configuration
import NodeKit
import System

/// Tells a person at this machine that something of theirs is used, in the way they chose.
final class UseSigns: Sendable {
  private let settings: Lock<SignSettings>
  private let notifier: Notifier
  private let environment: Environment
  private let loop: EventLoop

  /// How long a sign's command may run before it is ended.
  private static let patience: Duration = .seconds(10)

  init(_ settings: SignSettings, notifier: Notifier, environment: Environment, loop: EventLoop) {
    self.settings = Lock(settings)
    self.notifier = notifier
    self.environment = environment
    self.loop = loop
  }

  func choose(_ new: SignSettings) { settings.withLock { $0 = new } }

  /// Gives the sign. One that can't be given is said in the log once, and once more when it can again.
  func show(_ notice: UseNotice) async {
    let chosen = settings.withLock { $0 }
    let failure: String?
    switch chosen.useOrDefault {
    case .none: return
    case .notification: failure = await notify(notice)
    case .command: failure = await run(chosen.commandOrDefault, notice)
    }
    if let failure {
      Log.once(
        "signs", .warning,
        "The sign that \(notice.consent.name) is used can't be given: \(failure). Choose another in [signs] of the settings."
      )
    } else {
      Log.clear("signs", "Signs of use are given again.")
    }
  }

  static func asker(_ origin: Invocation.Origin) -> String {
    switch origin {
    case .gateway(let id): id
    case .local: "this machine"
    }
  }

  private func notify(_ notice: UseNotice) async -> String? {
    let note = Notifier.Note(
      title: "\(notice.consent.name) is used", body: "\(notice.command), asked for by \(Self.asker(notice.origin))",
      isSilent: true, icon: "dialog-information", category: "device", lasts: .seconds(5))
    do throws(DBusError) {
      try await notifier.show(note)
      return nil
    } catch {
      return error.message
    }
  }

  private func run(_ command: [String], _ notice: UseNotice) async -> String? {
    guard let program = command.first else { return "signs.command is not set" }
    var variables = environment.variables
    variables["TALKNODE_COMMAND"] = notice.command
    variables["TALKNODE_ORIGIN"] = Self.asker(notice.origin)
    let process: Subprocess
    do throws(SystemError) {
      process = try await Subprocess.start(
        Subprocess.Command(program, Array(command.dropFirst()), environment: variables), loop: loop)
    } catch {
      return "\(program): \(error.reason)"
    }
    let exit = try? await withDeadline(Self.patience) { await process.waitForExit() }
    guard let exit else {
      await process.end()
      return "\(program) ran for over \(Int(Self.patience.inSeconds)) s"
    }
    return exit.isSuccess ? nil : "\(program) ended with \(exit)"
  }
}
