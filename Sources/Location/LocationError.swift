/// Why no position could be had, and what a person can do about it.
public struct LocationError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Stable words for programs, which are also those of the wire (node-commands §5). An open set.
  public struct Code: RawRepresentable, Sendable, Hashable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// Somebody has switched it off: in the desktop's privacy settings, or nobody is there to be asked.
    public static let disabled = Code(rawValue: "LOCATION_DISABLED")
    /// Nobody uses this machine now, and that is asked for.
    public static let inBackground = Code(rawValue: "LOCATION_BACKGROUND_UNAVAILABLE")
    /// There is no receiver, or no service that knows a position.
    public static let unavailable = Code(rawValue: "LOCATION_UNAVAILABLE")
    /// There is one, and it had no fix in time.
    public static let timeout = Code(rawValue: "LOCATION_TIMEOUT")
    /// The asker has gone.
    public static let cancelled = Code(rawValue: "UNAVAILABLE")
  }

  public let code: Code
  /// One sentence for a person. Never a position.
  public let summary: String
  /// What to do next, as a command where there is one.
  public let remedy: String?

  public init(_ code: Code, _ summary: String, remedy: String? = nil) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
  }

  public var description: String { "\(code.rawValue): \(summary)" + (remedy.map { " \($0)" } ?? "") }

  static let cancelled = LocationError(.cancelled, "The question was given up.")
  static let stopped = LocationError(.unavailable, "This program is ending.")
  static let tooMany = LocationError(.unavailable, "Too many wait for a position already.")
}
