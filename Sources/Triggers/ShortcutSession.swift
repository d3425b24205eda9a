/// The talk shortcut at the desktop's portal, as a value: what the portal does in, what to ask of it out.
///
/// A session is opened and the shortcut bound to it, for which the desktop may ask the person; then presses and releases come. The portal
/// may end and come back at any time, and then it knows nothing of us.
public struct ShortcutSession: Sendable, Equatable {
  public enum Phase: Sendable, Equatable {
    /// Nobody has been asked yet, or nobody is there.
    case absent
    case opening
    /// `trigger` is the desktop's own description of the keys; nil when it gave none.
    case bound(session: String, trigger: String?)
    /// Why there is no shortcut. `isFinal`: the person said no, or the desktop can't; it is asked again only when the portal comes anew.
    case refused(TriggerError, isFinal: Bool)
    case stopped
  }
  public enum Event: Sendable, Equatable {
    /// There is a bus to ask on.
    case begin
    /// Who owns the portal's name on the bus; nil when nobody does.
    case owner(String?)
    case opened(attempt: Int, session: String, trigger: String?)
    case refused(attempt: Int, TriggerError, isFinal: Bool)
    case pressed(session: String)
    case released(session: String)
    /// The person chose other keys.
    case changed(session: String, trigger: String?)
    /// The portal has ended the session.
    case closed(session: String)
    /// The time of `.retry` is over.
    case retry(attempt: Int)
    case stop
  }
  public enum Action: Sendable, Equatable {
    /// Opens a session and binds the shortcut, and tells `.opened` or `.refused`. An opening under way is given up.
    case open(attempt: Int)
    case giveUp
    case close(session: String)
    case retry(attempt: Int, after: Duration)
    case press
    case release
    /// The key can't be let go any more: what it began ends.
    case lose
  }

  public private(set) var phase: Phase = .absent
  private var attempt = 0
  /// How often it was refused since it last worked.
  private var refusals = 0

  public init() {}

  public mutating func on(_ event: Event) -> [Action] {
    switch (phase, event) {
    case (.stopped, _): return []
    case (_, .stop):
      defer { phase = .stopped }
      switch phase {
      case .bound(let session, _): return [.lose, .close(session: session)]
      case .opening: return [.giveUp]
      default: return []
      }

    case (_, .owner(nil)):
      let actions = leave()
      phase = .absent
      return actions
    // A new portal. The first news may also be of the one that an opening has just started, which answers then.
    case (.opening, .owner): return []
    case (_, .begin), (_, .owner): return leave() + open()

    case (.opening, .opened(let asked, let session, let trigger)) where asked == attempt:
      phase = .bound(session: session, trigger: trigger)
      refusals = 0
      return []
    case (.opening, .refused(let asked, let error, let isFinal)) where asked == attempt:
      phase = .refused(error, isFinal: isFinal)
      return isFinal ? [] : [again()]
    case (.refused(_, isFinal: false), .retry(let asked)) where asked == attempt: return open()

    case (.bound(let session, _), .pressed(let pressed)) where pressed == session: return [.press]
    case (.bound(let session, _), .released(let released)) where released == session: return [.release]
    case (.bound(let session, _), .changed(let changed, let trigger)) where changed == session:
      phase = .bound(session: session, trigger: trigger)
      return []
    case (.bound(let session, _), .closed(let closed)) where closed == session:
      phase = .refused(TriggerError(.unavailable, "The desktop has ended the shortcut's session."), isFinal: false)
      return [.lose, again()]
    default: return []
    }
  }

  private mutating func open() -> [Action] {
    attempt += 1
    phase = .opening
    return [.open(attempt: attempt)]
  }

  /// What ends with the portal.
  private func leave() -> [Action] {
    switch phase {
    case .bound: [.lose]
    case .opening: [.giveUp]
    default: []
    }
  }

  /// 5 s, doubling, at most 5 min.
  private mutating func again() -> Action {
    refusals += 1
    return .retry(attempt: attempt, after: .seconds(min(300, 5 << min(refusals - 1, 6))))
  }
}
