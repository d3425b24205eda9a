/// One key that is held or tapped to talk, as a value: presses in, start and stop out.
///
/// Held longer than the threshold it talks while it is down; tapped, it latches: the next press ends it. A release that never comes (an
/// unplugged keyboard, events the kernel dropped) does not leave the microphone open.
public struct TalkKey: Sendable, Equatable {
  public enum Event: Sendable, Equatable {
    /// Pressed, `at` by the monotonic clock. The kernel's repeats (value 2) are not events.
    case down(at: Duration)
    case up(at: Duration)
    /// The keyboard is gone.
    case lost
    /// What the kernel says of the key after events were dropped, or when `stuckLimit` is over.
    case state(isDown: Bool)
  }
  public enum Action: Sendable, Equatable {
    case start
    case stop
    /// Ask the kernel for the key's state when this time is over, and tell it as `.state`.
    case startStuckTimer(Duration)
    case stopStuckTimer
  }
  public enum Phase: Sendable, Equatable {
    case up
    case held(since: Duration)
    /// Tapped: talking without a finger on the key.
    case latched
    /// Ended while still down; waits for the release.
    case spent
  }

  /// A key that has been down for this long is taken for stuck.
  public static let stuckLimit: Duration = .seconds(300)

  public private(set) var phase: Phase = .up
  /// Shorter is a tap; zero: every press is a hold.
  private let tapThreshold: Duration

  public init(tapThreshold: Duration = .milliseconds(200)) { self.tapThreshold = tapThreshold }

  public mutating func on(_ event: Event) -> [Action] {
    switch (phase, event) {
    case (.up, .down(let at)):
      phase = .held(since: at)
      return [.start, .startStuckTimer(Self.stuckLimit)]
    case (.held(let since), .up(let at)):
      if at - since < tapThreshold {
        phase = .latched
        return [.stopStuckTimer]
      }
      return end(.up)
    case (.held, .lost):
      return end(.up)
    case (.held, .state(let isDown)):
      // Either the release was missed, or the key has been down for the limit: both end it.
      return end(isDown ? .spent : .up)
    case (.latched, .down):
      phase = .spent
      return [.stop]
    case (.latched, .lost):
      phase = .up
      return [.stop]
    case (.spent, .up), (.spent, .lost), (.spent, .state(isDown: false)):
      phase = .up
      return []
    default:
      return []
    }
  }

  private mutating func end(_ next: Phase) -> [Action] {
    phase = next
    return [.stopStuckTimer, .stop]
  }
}
