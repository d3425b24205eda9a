/// Health: what a person's devices have recorded, read from the files those devices export: steps, sleep, resting heart rate, workouts,
/// a day at a time.
///
/// A reader a format (`HealthReader`) turns a file into records; `DayReckoning` makes a day of them. Nothing here knows what asks, and
/// nothing leaves the room but a day's figures and, for the person at the machine, how they came about.
import System

/// Why a file could not be read, or not all of it.
public struct HealthError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Open: others may be added.
  public struct Code: RawRepresentable, Hashable, Sendable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The file is not there, or may not be read.
    public static let unreadable = Code(rawValue: "unreadable")
    /// Its bytes are not what its format says. What was read before holds.
    public static let damaged = Code(rawValue: "damaged")
    /// It changed while it was read.
    public static let changed = Code(rawValue: "changed")
    /// A library that reads it is not installed.
    public static let missing = Code(rawValue: "missing")
    /// It is larger than anything of its kind.
    public static let tooLarge = Code(rawValue: "too-large")
    /// The asker has gone.
    public static let cancelled = Code(rawValue: "cancelled")
  }

  public let code: Code
  /// The file, and where it lies in another, that: `export.zip: apple_health_export/export.xml`. Empty until the reader's caller adds it.
  public internal(set) var file: String
  /// Where in it: `at byte 1234`, `in line 7`, `in table STEPS`. nil = the whole.
  public let place: String?
  /// One sentence.
  public let summary: String
  /// A command that can be pasted, or what to do.
  public let remedy: String?

  public init(_ code: Code, file: String = "", place: String? = nil, _ summary: String, remedy: String? = nil) {
    self.code = code
    self.file = file
    self.place = place
    self.summary = summary
    self.remedy = remedy
  }

  static func damaged(at byte: Int64, _ summary: String) -> HealthError {
    HealthError(.damaged, place: "at byte \(byte)", summary)
  }
  static let cancelled = HealthError(.cancelled, "Nobody waits for it any more.")

  public var description: String {
    let origin = [file.isEmpty ? nil : file, place].compactMap { $0 }.joined(separator: " ")
    return (origin.isEmpty ? "" : origin + ": ") + summary + (remedy.map { " \($0)" } ?? "")
  }
}
