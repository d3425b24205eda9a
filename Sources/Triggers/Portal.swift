import System

/// The desktop's portal (xdg-desktop-portal) on one connection to the session's bus: its requests, whose answers come as a signal, and
/// the shortcuts.
struct Portal: Sendable {
  static let name = "org.freedesktop.portal.Desktop"
  static let path = "/org/freedesktop/portal/desktop"
  static let shortcuts = "org.freedesktop.portal.GlobalShortcuts"
  static let session = "org.freedesktop.portal.Session"
  private static let request = "org.freedesktop.portal.Request"
  private static let registry = "org.freedesktop.host.portal.Registry"

  let bus: Bus

  /// Why a portal did not do it.
  struct Refusal: Error, Sendable {
    let error: TriggerError
    /// Asking again would change nothing.
    let isFinal: Bool
  }

  /// Tells the portal which application this connection belongs to, so that the desktop can name it and remember what was chosen. It has
  /// to be the connection's first word. Portals before 1.19 can't be told, and know it where the service manager started us.
  func register(_ application: String) async {
    do throws(DBusError) {
      _ = try await bus.call(Self.name, Self.path, Self.registry, "Register", [.string(application), .options()])
    } catch {
      Log.debug("The portal was not told who this is: \(error)")
    }
  }

  /// Opens a session and binds one shortcut to it. `limit` is how long a person may take to answer the desktop's question.
  /// Returns the session's handle and how the desktop describes the keys.
  func bind(
    _ id: String, _ description: String, preferring keys: String?, limit: Duration
  ) async throws(Refusal) -> (session: String, trigger: String?) {
    let made = try await ask(
      "CreateSession", [], options: ["session_handle_token": .string(Self.token())], limit: .seconds(15))
    guard let session = made["session_handle"]?.text else {
      throw Refusal(
        error: TriggerError(.unavailable, "The desktop's portal opened a session without a name."), isFinal: false)
    }
    let shortcut = DBusValue.structure([
      .string(id),
      .options(["description": .string(description), "preferred_trigger": keys.map(DBusValue.string)]),
    ])
    do throws(Refusal) {
      let bound = try await ask(
        "BindShortcuts", [.objectPath(session), .array([shortcut], of: "(sa{sv})"), .string("")], limit: limit)
      return (session, Self.trigger(of: id, in: bound["shortcuts"]))
    } catch {
      await close(session)
      throw error
    }
  }

  /// Ends a session. One that is gone is no error.
  func close(_ session: String) async {
    _ = try? await bus.call(Self.name, session, Self.session, "Close", timeout: .seconds(2), starts: false)
  }

  /// The desktop's description of the keys of one shortcut, in an `a(sa{sv})`.
  static func trigger(of id: String, in shortcuts: DBusValue?) -> String? {
    let fields = shortcuts?.array?.lazy.compactMap(\.fields).first { $0.first?.text == id }
    guard let text = fields?.dropFirst().first?.members?["trigger_description"]?.text, !text.isEmpty else { return nil }
    return text
  }

  /// A word that no other request or session of this connection has.
  private static func token() -> String { "talknode\(UInt32.random(in: 0 ... .max))" }

  /// Calls a method of the shortcuts that answers by a request's Response signal, and returns the answer.
  private func ask(
    _ member: String, _ arguments: [DBusValue], options: KeyValuePairs<String, DBusValue?> = [:], limit: Duration
  ) async throws(Refusal) -> [String: DBusValue] {
    let token = Self.token()
    do {
      // The path is known before the call, so that no answer can come before somebody listens.
      let sender = try await bus.uniqueName().dropFirst().replacing(".", with: "_")
      let expected = "\(Self.path)/request/\(sender)/\(token)"
      let answers = try await bus.signals(
        DBusMatch(sender: Self.name, path: expected, interface: Self.request, member: "Response"))
      var members = DBusValue.options(options)
      if case .dictionary(let entries, let key, let value) = members {
        let handle = DBusValue.Entry(.string("handle_token"), .variant(.string(token)))
        members = .dictionary(entries + [handle], key: key, value: value)
      }
      // A portal that has just been started looks for its back ends first.
      let reply = try await bus.call(
        Self.name, Self.path, Self.shortcuts, member, arguments + [members], timeout: .seconds(30))
      guard reply.first?.text == expected else { throw DBusError("System.Error.EBADMSG", "a request of another name") }
      let answer: DBusSignal?
      do {
        answer = try await withDeadline(limit) {
          for await answer in answers { return answer }
          return nil
        }
      } catch {
        _ = try? await bus.call(Self.name, expected, Self.request, "Close", timeout: .seconds(2), starts: false)
        throw error
      }
      return try Self.results(of: answer)
    } catch let refusal as Refusal {
      throw refusal
    } catch let error as DBusError {
      throw Self.refusal(error)
    } catch {
      throw Refusal(
        error: TriggerError(
          .unavailable, "The desktop did not answer whether the shortcut may be used.",
          remedy: "Look for a question of your desktop about shortcuts."), isFinal: false)
    }
  }

  private static func results(of answer: DBusSignal?) throws -> [String: DBusValue] {
    guard let answer else { throw DBusError("org.freedesktop.DBus.Error.NoReply", "the portal went away") }
    guard answer.arguments.count == 2, let code = answer.arguments[0].int, let results = answer.arguments[1].members
    else { throw DBusError("System.Error.EBADMSG", "an answer that is none") }
    switch code {
    case 0: return results
    case 1:
      throw Refusal(
        error: TriggerError(
          .notPermitted, "The shortcut was declined in the desktop's question.",
          remedy: "It is asked again when talknode starts: systemctl --user restart talknode"), isFinal: true)
    default:
      throw Refusal(
        error: TriggerError(.unavailable, "The desktop did not give the shortcut.", remedy: otherWay), isFinal: false)
    }
  }

  private static func refusal(_ error: DBusError) -> Refusal {
    let unknown = ["UnknownMethod", "UnknownInterface", "UnknownObject"].map { "org.freedesktop.DBus.Error." + $0 }
    if error.isServiceMissing {
      return Refusal(
        error: TriggerError(
          .unavailable, "This session has no desktop portal.",
          remedy: "sudo apt install xdg-desktop-portal, with the part for your desktop. \(otherWay)"), isFinal: true)
    }
    if unknown.contains(error.name) {
      return Refusal(
        error: TriggerError(
          .unavailable, "The portal of this desktop offers no global shortcuts.", remedy: otherWay), isFinal: true)
    }
    return Refusal(
      error: TriggerError(.unavailable, "The desktop's portal can't be asked: \(error.message)"), isFinal: false)
  }

  private static let otherWay = "Bind a key by hand: talknode ptt bind"
}
