/// System: what every room stands on and no room owns: the event loop, locks, clocks, deadlines, files, paths, logging,
/// processes and D-Bus. Nothing here knows what a gateway or a node is.
///
/// No Foundation: the standard library and glibc are enough, which keeps the program small and its start short.
import Glibc

/// A failure of the operating system, with the call that failed.
public struct SystemError: Error, Sendable, Equatable, CustomStringConvertible {
  /// What was being done, for example `open /dev/video0`.
  public let operation: String
  /// The `errno` value.
  public let code: Int32

  public init(_ operation: String, code: Int32) {
    self.operation = operation
    self.code = code
  }

  /// The reason in the system's words.
  public var reason: String { String(cString: strerror(code)) }
  public var description: String { "\(operation): \(reason)" }
}
