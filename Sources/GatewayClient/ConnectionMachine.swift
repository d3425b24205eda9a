import System

/// One socket's life, over all its connections: when to open, when to give up on a dead one, when to ask again. Pure: the time and the
/// jitter come in with the event, what to do comes out; `GatewaySocket` does it.
public struct ConnectionMachine: Sendable {
  public enum Phase: Sendable, Equatable {
    case idle
    /// Dialling, upgrading, or waiting for hello-ok. `deadline` by the monotonic clock; nil while the transport keeps its own.
    case connecting(deadline: Duration?)
    case connected(since: Moment)
    /// Nothing is open; the next connect is due at `until` by the monotonic clock.
    case resting(until: Duration)
    case stopped
  }

  public enum Event: Sendable, Equatable {
    /// Begin, or begin again after a stop.
    case start
    case stop
    /// The upgrade is done; hello-ok is still to come.
    case opened
    case welcomed(tick: Duration)
    /// A connect that failed, or a session that ended.
    case ended(ConnectVerdict.Course)
    /// A message came.
    case received
    /// A pong came.
    case ponged
    /// The timer has fired. `lastActivity` is when the socket's last byte came.
    case timer(lastActivity: Duration)
    /// Close and come back at once: what the node declares has changed.
    case reopen
    /// Stop and tell, from whatever it is doing: the other socket has learnt that asking is of no use.
    case halt
    /// The wall clock was set, or the machine has woken up.
    case clockSet
  }

  public enum Action: Sendable, Equatable {
    /// `attempt` counts from 1 since the last stable session.
    case open(attempt: Int)
    /// Close with a goodbye; no event is to follow.
    case close(code: UInt16, reason: String)
    /// End at once, without a goodbye; no event is to follow.
    case drop(String)
    /// Ask for a sign of life within `deadline`.
    case ping(deadline: Duration)
    /// Replace the one timer; nil ends it.
    case arm(Duration?)
  }

  public private(set) var phase: Phase = .idle
  /// The number of the connect that was last asked for, from 1 since the last stable session.
  public private(set) var attempt = 0
  private let timings: LinkTimings
  /// Connects and sessions that failed since the last stable session.
  private var failures = 0
  private var approvalAsks = 0
  /// Set by an immediate reconnect, cleared by a stable session: the next one waits.
  private var cameBackAtOnce = false
  private var tick: Duration = .seconds(30)
  private var lastMessage: Duration = .zero
  private var lastPong: Duration = .zero
  private var isPinging = false
  /// Boot time less monotonic time when it was last looked at: it grows by what the machine slept.
  private var sleepSeen: Duration = .zero

  public init(timings: LinkTimings = LinkTimings()) { self.timings = timings }

  /// `jitter` is from 0 to 1.
  public mutating func on(_ event: Event, at moment: Moment, jitter: Double) -> [Action] {
    switch event {
    case .start:
      guard phase == .idle || phase == .stopped else { return [] }
      failures = 0
      approvalAsks = 0
      attempt = 0
      cameBackAtOnce = false
      return open(moment)
    case .stop:
      let wasOpen = isOpen
      phase = .idle
      return (wasOpen ? [.close(code: 1000, reason: "")] : []) + [.arm(nil)]
    case .halt:
      let wasOpen = isOpen
      phase = .stopped
      return (wasOpen ? [.close(code: 1000, reason: "")] : []) + [.arm(nil)]
    case .reopen:
      guard isOpen else { return [] }
      return [.close(code: 1000, reason: "surface changed")] + open(moment)
    case .opened:
      guard case .connecting = phase else { return [] }
      phase = .connecting(deadline: moment.monotonic + timings.helloDeadline)
      return [.arm(timings.helloDeadline)]
    case .welcomed(let interval): return welcome(interval, moment)
    case .ended(let course):
      switch phase {
      case .connecting: return rest(course, session: nil, moment, jitter)
      case .connected(let since): return rest(course, session: moment.monotonic - since.monotonic, moment, jitter)
      case .idle, .resting, .stopped: return []
      }
    case .received:
      lastMessage = moment.monotonic
      return []
    case .ponged:
      lastPong = moment.monotonic
      isPinging = false
      return []
    case .timer(let lastActivity): return look(moment, lastActivity: lastActivity, clockWasSet: false, jitter)
    case .clockSet: return look(moment, lastActivity: nil, clockWasSet: true, jitter)
    }
  }

  private var isOpen: Bool {
    switch phase {
    case .connecting, .connected: true
    case .idle, .resting, .stopped: false
    }
  }

  private mutating func open(_ moment: Moment) -> [Action] {
    attempt += 1
    phase = .connecting(deadline: nil)
    sleepSeen = moment.sinceBoot - moment.monotonic
    return [.arm(nil), .open(attempt: attempt)]
  }

  private mutating func welcome(_ interval: Duration, _ moment: Moment) -> [Action] {
    guard case .connecting = phase else { return [] }
    phase = .connected(since: moment)
    approvalAsks = 0
    tick = max(interval, timings.shortestTick)
    lastMessage = moment.monotonic
    lastPong = moment.monotonic
    isPinging = false
    return [.arm(min(timings.pingAfter, tick * 2))]
  }

  // MARK: Between two connections

  private mutating func rest(
    _ course: ConnectVerdict.Course, session: Duration?, _ moment: Moment, _ jitter: Double
  ) -> [Action] {
    if let session, session >= timings.stableSession {
      failures = 0
      attempt = 0
      cameBackAtOnce = false
    }
    switch course {
    case .stop:
      phase = .stopped
      return [.arm(nil)]
    case .wait(let wait):
      // The gateway is well: it answers.
      failures = 0
      approvalAsks += 1
      return rest(for: wait.isPaused ? timings.longestApprovalPoll * 0.95 : approvalDelay(jitter), moment)
    case .retry(.now, _) where !cameBackAtOnce:
      cameBackAtOnce = true
      return open(moment)
    case .retry(.now, _), .retry(.backOff, _):
      let delay = backOff(jitter)
      failures += 1
      return rest(for: delay, moment)
    case .retry(.slow, _):
      return rest(for: timings.longestBackOff * (0.8 + 0.2 * jitter), moment)
    case .retry(.after(let delay), _):
      return rest(for: delay, moment)
    }
  }

  private mutating func rest(for delay: Duration, _ moment: Moment) -> [Action] {
    phase = .resting(until: moment.monotonic + delay)
    sleepSeen = moment.sinceBoot - moment.monotonic
    return [.arm(delay)]
  }

  /// Half a second, doubled by each failure, up to 30 s; a fifth more or less, so that a gateway's clients don't come back in step.
  private func backOff(_ jitter: Double) -> Duration {
    let doubled = timings.backOff * (1 << min(failures, 20))
    return min(min(doubled, timings.longestBackOff) * (0.8 + 0.4 * jitter), timings.longestBackOff)
  }

  /// Every 2 s for the first minute, then ever less often, but never slower than 15 s: a person may approve at any time, and a node
  /// that does not notice is the complaint most often heard.
  private func approvalDelay(_ jitter: Double) -> Duration {
    var delay = timings.approvalPoll
    for _ in 0..<max(0, min(approvalAsks - 30, 30)) where delay < timings.longestApprovalPoll { delay *= 1.25 }
    return min(delay, timings.longestApprovalPoll) * (0.9 + 0.1 * jitter)
  }

  // MARK: Looking after what is open

  private mutating func look(
    _ moment: Moment, lastActivity: Duration?, clockWasSet: Bool, _ jitter: Double
  ) -> [Action] {
    let sleep = moment.sinceBoot - moment.monotonic - sleepSeen
    sleepSeen += sleep
    let now = moment.monotonic
    let hasSleptLong = sleep > timings.longestSleep
    switch phase {
    case .idle, .stopped: return []
    case .resting(let until):
      if hasSleptLong {
        failures = 0
        return open(moment)
      }
      return now >= until ? open(moment) : [.arm(until - now)]
    case .connecting(let deadline):
      if hasSleptLong { return [.drop("the machine slept")] + open(moment) }
      guard let deadline else { return [] }
      if now < deadline { return [.arm(deadline - now)] }
      let reason = "the gateway did not answer connect"
      return [.drop(reason)] + rest(.retry(.backOff, reason: reason), session: nil, moment, jitter)
    case .connected(let since):
      if hasSleptLong { return [.drop("the machine slept")] + open(moment) }
      if clockWasSet {
        if isPinging { return [] }
        isPinging = true
        return [.ping(deadline: timings.probeDeadline)]
      }
      return lookAtSession(since, moment, lastActivity ?? lastMessage, jitter)
    }
  }

  private mutating func lookAtSession(
    _ since: Moment, _ moment: Moment, _ lastActivity: Duration, _ jitter: Double
  ) -> [Action] {
    let now = moment.monotonic
    // Bytes that are no pong show a long message on its way; pongs alone don't stand in for the tick, since a gateway whose own
    // loop hangs may still answer pings.
    let lastSign = max(lastMessage, lastActivity > lastPong ? lastActivity : lastMessage)
    let silenceEnds = lastSign + tick * 2
    if now >= silenceEnds {
      let course = ConnectVerdict.Course.retry(.backOff, reason: "the gateway's tick is missing")
      return [.close(code: 4000, reason: "tick timeout")]
        + rest(course, session: now - since.monotonic, moment, jitter)
    }
    let pingDue = max(lastActivity, lastMessage, lastPong) + timings.pingAfter
    if isPinging { return [.arm(silenceEnds - now)] }
    if now < pingDue { return [.arm(min(pingDue, silenceEnds) - now)] }
    isPinging = true
    return [.ping(deadline: timings.pongDeadline), .arm(min(timings.pingAfter, silenceEnds - now))]
  }
}

extension Duration {
  static func * (duration: Duration, factor: Double) -> Duration {
    .nanoseconds(Int64(duration.inSeconds * factor * 1e9))
  }
  static func *= (duration: inout Duration, factor: Double) { duration = duration * factor }
}
