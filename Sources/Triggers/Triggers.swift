/// Triggers: what starts and ends a capture by hand: keys read from evdev, and a shortcut of the desktop. They say "start" and "stop"; what
/// that means is the conversation's business.
import System

/// Why a trigger can't work, and what to do.
public struct TriggerError: Error, Sendable, Equatable, CustomStringConvertible {
  public enum Code: String, Sendable {
    case setting = "TRIGGER_SETTING_INVALID"
    case notFound = "TRIGGER_DEVICE_NOT_FOUND"
    case notPermitted = "TRIGGER_NOT_PERMITTED"
    case unavailable = "TRIGGER_UNAVAILABLE"
  }
  public let code: Code
  public let summary: String
  public let remedy: String?
  public init(_ code: Code, _ summary: String, remedy: String? = nil) {
    self.code = code
    self.summary = summary
    self.remedy = remedy
  }
  public var description: String { remedy.map { "\(summary) \($0)" } ?? summary }
}

/// What a trigger tells: a person wants to talk, or has ended.
/// How a trigger stands, for a person.
public struct TriggerState: Sendable, Equatable {
  /// `talk key` or `talk shortcut`.
  public let name: String
  /// Whether it works now.
  public let isReady: Bool
  /// One sentence.
  public let detail: String
  /// What to do when it does not work.
  public let remedy: String?

  public init(name: String, isReady: Bool, detail: String, remedy: String?) {
    self.name = name
    self.isReady = isReady
    self.detail = detail
    self.remedy = remedy
  }
}

public enum TriggerSignal: Sendable, Equatable {
  case start
  case stop
}
