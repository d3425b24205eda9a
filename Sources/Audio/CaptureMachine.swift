/// A capture from the first opening to its end: retries, digital silence, a microphone that goes and comes back.
///
/// Pure: time comes in with the events, what to do comes out. Every opening has a number; events of an earlier one are ignored.
struct CaptureMachine: Sendable {
  enum Phase: Sendable, Equatable {
    /// Before `begin`.
    case new
    /// The first opening; `tries` have failed because the device was busy, and the next one is `waiting` for its time.
    case opening(tries: Int, waiting: Bool)
    case running
    /// Opening once more because nothing but zeros came.
    case reopening
    /// The microphone is away since then; `opening` while an attempt is under way. It is back when it is heard, not when it has been
    /// opened: a suspended or stuck device opens and stays silent.
    case away(since: Duration, reason: AudioError, opening: Bool)
    case ended
  }

  enum Event: Sendable, Equatable {
    case begin
    case opened(Int, device: String)
    case openFailed(Int, AudioError)
    /// The first samples of this opening, zeros or not.
    case samples(Int)
    case lost(Int, AudioError)
    /// A whole second of zeros and nothing else since the first sample.
    case onlyZeros(Int)
    /// The first sample that is not zero.
    case sound(Int)
    /// The time asked for by `.wake` has come.
    case woke
    case stop
  }

  enum Action: Sendable, Equatable {
    /// Open the microphone: the named one, or the one in the settings.
    case open(Int, device: String?)
    case close
    case wake(after: Duration)
    case notice(Capture.Notice)
    /// The last action of all. An error when the capture did not end by `stop`.
    case end(AudioError?)
  }

  /// What a capture waits and tries.
  struct Rules: Sendable {
    var busyTries = 3
    var busyPause: Duration = .milliseconds(250)
    var returnPause: Duration = .milliseconds(250)
    var returnGrace: Duration = .seconds(5)
  }

  private(set) var phase: Phase = .new
  private let rules: Rules
  private var opening = 0
  private var device: String?
  private var hasReopened = false
  private var hasHeardSound = false
  private var isSaidSilent = false

  init(rules: Rules = Rules()) { self.rules = rules }

  mutating func on(_ event: Event, at now: Duration) -> [Action] {
    if let number = event.opening, number != opening { return [] }
    switch (phase, event) {
    case (.ended, _): return []

    case (.new, .begin):
      phase = .opening(tries: 0, waiting: false)
      return [open(nil)]

    case (_, .stop):
      phase = .ended
      return [.close, .end(nil)]

    case (.opening(_, false), .opened(_, let name)):
      device = name
      phase = .running
      return []

    case (.opening(let tries, false), .openFailed(_, let error)):
      if error.code == .deviceBusy && tries + 1 < rules.busyTries {
        phase = .opening(tries: tries + 1, waiting: true)
        return [.wake(after: rules.busyPause)]
      }
      return end(error)

    case (.opening(let tries, true), .woke):
      phase = .opening(tries: tries, waiting: false)
      return [open(nil)]

    case (.reopening, .opened):
      phase = .running
      return [.notice(.reopenedBecauseSilent)]

    case (.away(let since, _, true), .samples):
      phase = .running
      return [.notice(.resumed(after: now - since))]

    case (.running, .lost(_, let error)), (.opening(_, false), .lost(_, let error)),
      (.reopening, .openFailed(_, let error)),
      (.reopening, .lost(_, let error)):
      phase = .away(since: now, reason: error, opening: false)
      return [.close, .notice(.interrupted(error)), .wake(after: rules.returnPause)]

    case (.away(let since, let reason, false), .woke):
      phase = .away(since: since, reason: reason, opening: true)
      return [open(device)]

    case (.away(let since, let reason, true), .openFailed), (.away(let since, let reason, true), .lost):
      if now - since >= rules.returnGrace {
        return end(
          AudioError(.deviceLost, "\(reason.summary) It did not come back; what was heard until then is kept."))
      }
      phase = .away(since: since, reason: reason, opening: false)
      return [.close, .wake(after: rules.returnPause)]

    case (.running, .onlyZeros):
      if hasHeardSound || isSaidSilent { return [] }
      if hasReopened {
        isSaidSilent = true
        return [.notice(.silent)]
      }
      hasReopened = true
      phase = .reopening
      return [.close, open(device)]

    case (.running, .sound):
      hasHeardSound = true
      if !isSaidSilent { return [] }
      isSaidSilent = false
      return [.notice(.soundReturned)]

    default: return []
    }
  }

  private mutating func open(_ device: String?) -> Action {
    opening += 1
    return .open(opening, device: device)
  }

  private mutating func end(_ error: AudioError) -> [Action] {
    phase = .ended
    return [.close, .end(error)]
  }
}

extension CaptureMachine.Event {
  /// The opening that an event belongs to; nil for those that belong to none.
  fileprivate var opening: Int? {
    switch self {
    case .opened(let number, _), .openFailed(let number, _), .samples(let number), .lost(let number, _),
      .onlyZeros(let number), .sound(let number):
      number
    case .begin, .woke, .stop: nil
    }
  }
}
