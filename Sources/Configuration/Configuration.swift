/// Configuration: the settings a person can make, declared once each; the files they come from, in layers; and where each value came
/// from.
///
/// Built-in defaults, then `/etc/talknode/talknode.toml` and its `conf.d/*.toml`, then the user's `config.toml` and `conf.d/*.toml`: a
/// later layer's setting replaces an earlier one's. Which folders those are is told by the caller: nothing here looks at the environment.

/// Something about a configuration file that a person should know.
public struct ConfigurationProblem: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Severity: String, Sendable {
    /// The file or the value can't be used.
    case error
    /// The program runs as if it were not there.
    case warning
  }
  public let severity: Severity
  public let file: String
  /// From 1; nil when the whole file is meant.
  public let line: Int?
  /// In characters, from 1.
  public let column: Int?
  /// One sentence.
  public let summary: String
  /// What to write in its place, where that is known.
  public let remedy: String?

  public init(
    _ severity: Severity, file: String, line: Int? = nil, column: Int? = nil, _ summary: String, remedy: String? = nil
  ) {
    self.severity = severity
    self.file = file
    self.line = line
    self.column = column
    self.summary = summary
    self.remedy = remedy
  }

  /// `FILE:LINE:COLUMN`, as compilers write it and editors open it.
  public var place: String {
    ([file] + [line, column].compactMap { $0.map(String.init) }).joined(separator: ":")
  }
  public var description: String { "\(place): \(summary)" + (remedy.map { " \($0)" } ?? "") }
}
