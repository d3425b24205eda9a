import CLinux
import Glibc

/// The service manager that started this program, if one did and wants to be told (sd_notify(3)).
///
/// The protocol is a datagram of `KEY=value` lines; it is written here rather than by libsystemd, so that nothing but the executable
/// reads the environment.
public struct Supervisor: Sendable {
  private let socketPath: String
  /// How often `alive` must be called; half of what the manager allows. nil when it keeps no watch.
  public let aliveInterval: Duration?

  /// From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of the environment; nil when nobody wants to be told.
  public init?(environment: [String: String]) {
    guard let path = environment["NOTIFY_SOCKET"], path.hasPrefix("/") || path.hasPrefix("@"), path.utf8.count < 108
    else {
      return nil
    }
    socketPath = path
    let isForUs = environment["WATCHDOG_PID"].map { Int32($0) == getpid() } ?? true
    let microseconds = environment["WATCHDOG_USEC"].flatMap(Int64.init) ?? 0
    aliveInterval = isForUs && microseconds > 0 ? .microseconds(max(microseconds / 2, 1)) : nil
  }

  /// The start is over.
  public func ready(status: String) { send(["READY=1", "STATUS=\(Self.line(status))"]) }
  /// One line for `systemctl status`.
  public func status(_ text: String) { send(["STATUS=\(Self.line(text))"]) }
  /// The end has begun.
  public func stopping() { send(["STOPPING=1"]) }
  /// The program works: to be called every `aliveInterval` by the thread whose stop would be the failure.
  public func alive() { send(["WATCHDOG=1"]) }

  private static func line(_ text: String) -> String { String(text.map { $0.isNewline ? " " : $0 }) }

  private func send(_ lines: [String]) {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    if descriptor < 0 { return }
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    var path = Array(socketPath.utf8)
    // An abstract name begins with a zero byte, which the variable writes as `@`.
    if path[0] == UInt8(ascii: "@") { path[0] = 0 }
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
    let length = socklen_t(MemoryLayout<sa_family_t>.size + path.count)
    let message = Array(lines.joined(separator: "\n").utf8)
    // Not waiting: a manager that does not read must not hold the program up.
    let sent = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        sendto(
          descriptor, message, message.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL), $0, length)
      }
    }
    if sent < 0 {
      Log.once("supervisor", .warning, "The service manager can't be told: \(String(cString: strerror(errno)))")
    }
  }
}
