import CSystemd
import Glibc

/// Why a D-Bus call failed: the peer's error, or one of this side in the same form, as libsystemd names them
/// (`System.Error.ENOENT`).
public struct DBusError: Error, Sendable, Equatable, CustomStringConvertible {
  /// For example `org.freedesktop.DBus.Error.ServiceUnknown`.
  public let name: String
  public let message: String

  public init(_ name: String, _ message: String) {
    self.name = name
    self.message = message
  }

  /// The error for a negative errno of sd-bus.
  init(code: Int32, _ operation: String) {
    var error = sd_bus_error()
    _ = systemd.sd_bus_error_set_errno(&error, code)
    defer { systemd.sd_bus_error_free(&error) }
    let name = error.name.map { String(cString: $0) } ?? "System.Error"
    let reason = error.message.map { String(cString: $0) } ?? String(cString: strerror(abs(code)))
    self.init(name, "\(operation): \(reason)")
  }

  static func timedOut(_ member: String, after timeout: Duration) -> DBusError {
    DBusError("org.freedesktop.DBus.Error.NoReply", "no answer to \(member) within \(timeout)")
  }
  static let disconnected = DBusError("org.freedesktop.DBus.Error.Disconnected", "the bus connection is closed")
  static let cancelled = DBusError("System.Error.ECANCELED", "the call was given up")
  static let malformed = DBusError("System.Error.EBADMSG", "a message that is not well formed or too large")
  static let tooMany = DBusError("org.freedesktop.DBus.Error.LimitsExceeded", "too many calls are waiting")

  /// Nobody owns the name, and nothing could be started for it.
  public var isServiceMissing: Bool {
    name == "org.freedesktop.DBus.Error.ServiceUnknown" || name == "org.freedesktop.DBus.Error.NameHasNoOwner"
      || name.hasPrefix("org.freedesktop.DBus.Error.Spawn.")
  }
  /// The peer did not answer in time, or went away before it did.
  public var isNoReply: Bool { name == "org.freedesktop.DBus.Error.NoReply" }

  /// The bus itself can't be reached, or the connection was lost.
  public var isConnectionFailure: Bool {
    self == .disconnected || name == "org.freedesktop.DBus.Error.NoServer"
      || name == "org.freedesktop.DBus.Error.AuthFailed"
      || message.hasPrefix(Self.opening)
  }
  static let opening = "open the bus"

  public var description: String { "\(name): \(message)" }
}
