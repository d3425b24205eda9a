import GatewayProtocol
import Glibc
import System

/// The user's switches: which consents are given. A small file in the state folder, 0600, replaced atomically.
///
/// Copies share one state. Switches turned by another process are seen after `reload()`.
public struct SwitchStore: Sendable {
  /// Why a switch could not be kept.
  public struct Failure: Error, Sendable, Equatable {
    public let summary: String
    public let remedy: String?
  }

  private struct State {
    var settings: [String: Bool] = [:]
  }

  /// The file: a JSON object of booleans.
  public let path: String
  private let state = Lock(State())

  /// Reads the file at `path`. None there means that nothing was ever turned. A damaged one is set aside beside itself and said in
  /// the log: then everything has its default, which is off for whatever reveals a person.
  public init(path: String) {
    self.path = path
    reload()
  }

  /// Whether the switch is on.
  public func isEnabled(_ consent: Consent) -> Bool { isEnabled(consent.name, default: consent.isOnByDefault) }

  /// Whether the switch of that name is on; `default` when nobody has turned it.
  public func isEnabled(_ name: String, default: Bool = false) -> Bool {
    state.withLock { $0.settings[name] } ?? `default`
  }

  /// Turns a switch and keeps it. When it can't be kept it isn't turned either.
  public func set(_ name: String, enabled: Bool) throws(Failure) {
    var settings = state.withLock { $0.settings }
    settings[name] = enabled
    do {
      try Files.writeAtomically(JSON.object(settings.mapValues(JSON.bool)).encoded() + [0x0A], to: path)
    } catch {
      throw Failure(
        summary: "The switch could not be kept: \(error)", remedy: "Check the state folder's rights and space: \(path)")
    }
    state.withLock { $0.settings[name] = enabled }
  }

  /// Reads the file again.
  public func reload() {
    guard Files.exists(path) else { return state.withLock { $0.settings = [:] } }
    do {
      guard let members = try JSON(parsing: Files.read(path, limit: 65536)).object else {
        return setAside("it is no object")
      }
      var settings: [String: Bool] = [:]
      for (name, value) in members {
        guard let enabled = value.bool else { return setAside("'\(name)' is neither true nor false") }
        settings[name] = enabled
      }
      state.withLock { [settings] in $0.settings = settings }
    } catch let error as JSONError {
      setAside("\(error)")
    } catch {
      // Not readable is not damaged: leave the file alone, and everything that reveals a person off.
      Log.error("The switches can't be read, so only what reveals nobody is on: \(error)")
      state.withLock { $0.settings = [:] }
    }
  }

  private func setAside(_ problem: String) {
    let aside = Files.setAside(path)
    Log.error(
      "The switches' file is damaged (\(problem)), so every switch has its default."
        + (aside.map { " It was set aside as \($0)." } ?? " It could not be set aside."))
    state.withLock { $0.settings = [:] }
  }
}
