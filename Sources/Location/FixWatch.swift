import System

/// How fine a position is asked for. A receiver gives what it has; a service is told (GeoClue2's accuracy levels).
public enum Detail: Int, Sendable, Comparable {
  case coarse = 4
  case balanced = 6
  case precise = 8
  public static func < (left: Detail, right: Detail) -> Bool { left.rawValue < right.rawValue }
}

/// What a feed tells: a connection to gpsd, or to GeoClue.
package enum FeedEvent: Sendable, Equatable {
  /// It is up; reports may follow.
  case opened
  /// It could not be opened, or was lost. Nothing follows.
  case failed(LocationError)
  /// How many receivers it has.
  case receivers(Int)
  case fix(Fix, receiver: String)
  /// A receiver says that it has no fix.
  case noFix(receiver: String)
  case satellites(Fix.Satellites, receiver: String)
}

/// Who waits for a fix of one source, what is known, when its feed is opened and closed, and what is an answer: all decisions of a source,
/// without its sockets and without a clock.
///
/// The feed is open only while somebody asks or follows, and for `linger` after that. Who asks while it is closed is refused as soon as
/// it can't be opened; who has waited on an open one that is lost is kept until his deadline, while it is opened again.
package struct FixWatch: Sendable {
  package struct Want: Sendable, Equatable {
    package let id: UInt64
    package let askedAt: Duration
    /// When it is refused at the latest.
    package let deadline: Duration
    /// How old an answer may be; nil = present.
    package let maxAge: Duration?
    package let detail: Detail
    /// It has waited on a feed that was lost.
    var isSurvivor = false

    package init(
      id: UInt64, askedAt: Duration, deadline: Duration, maxAge: Duration? = nil, detail: Detail = .balanced
    ) {
      self.id = id
      self.askedAt = askedAt
      self.deadline = deadline
      self.maxAge = maxAge
      self.detail = detail
    }
  }

  package enum Phase: Sendable, Equatable {
    case idle
    case opening
    case open
    /// It is opened again then.
    case resting(until: Duration)
  }

  package enum Event: Sendable, Equatable {
    case asked(Want)
    /// The asker has gone.
    case withdrawn(UInt64)
    /// Somebody wants every fix.
    case followed(UInt64, detail: Detail)
    case unfollowed(UInt64)
    case feed(FeedEvent)
    /// Time has passed.
    case tick
    case stopped
  }

  package enum Action: Sendable, Equatable {
    case open(Detail)
    case close
    case answer(UInt64, Fix)
    case refuse(UInt64, LocationError)
    /// To all followers.
    case tell(FixNews)
  }

  package private(set) var phase = Phase.idle
  package private(set) var wants: [Want] = []
  private var followers: [UInt64: Detail] = [:]
  private var receivers = Receivers()
  /// nil until the feed has told.
  private var receiverCount: Int?
  private var openDetail = Detail.coarse
  private var failures = 0
  private var lastUse = Duration.zero
  private var isStopped = false

  /// As it stands in messages: `gpsd at localhost:2947`.
  let name: String
  let linger: Duration
  /// Whether it can be asked for a finer position: a receiver always gives what it has.
  let hasDetail: Bool
  /// What to do when `name` has no receiver.
  let receiverRemedy: String?

  static let limit = 64

  package init(name: String, linger: Duration, hasDetail: Bool = true, receiverRemedy: String? = nil) {
    self.name = name
    self.hasDetail = hasDetail
    self.linger = linger
    self.receiverRemedy = receiverRemedy
  }

  /// When `tick` is due; nil when nothing waits for time.
  package var nextWake: Duration? {
    var wake = wants.map(\.deadline).min()
    func also(_ moment: Duration) { wake = wake.map { min($0, moment) } ?? moment }
    if case .resting(let until) = phase { also(until) }
    if phase == .open && isUnused { also(lastUse + linger) }
    return wake
  }

  private var isUnused: Bool { wants.isEmpty && followers.isEmpty }
  /// The finest that anybody wants.
  private var detail: Detail { max(wants.map(\.detail).max() ?? .coarse, followers.values.max() ?? .coarse) }

  package mutating func on(_ event: Event, at now: Duration) -> [Action] {
    var actions: [Action] = []
    switch event {
    case .asked(let want): asked(want, now, &actions)
    case .withdrawn(let id):
      wants.removeAll { $0.id == id }
      lastUse = now
    case .followed(let id, let detail):
      if isStopped {
        actions.append(.tell(.trouble(.stopped)))
      } else {
        followers[id] = detail
        ensureOpen(now, &actions)
      }
    case .unfollowed(let id):
      followers[id] = nil
      lastUse = now
    case .feed(let event): if !isStopped { took(event, now, &actions) }
    case .tick: break
    case .stopped:
      isStopped = true
      refuse(.stopped, &actions) { _ in true }
      followers = [:]
      close(&actions)
    }
    if !isStopped { passTime(now, &actions) }
    return actions
  }

  // MARK: Who asks

  private mutating func asked(_ want: Want, _ now: Duration, _ actions: inout [Action]) {
    lastUse = now
    // A feed that is closed tells nothing of the present, only what was kept.
    if phase == .open || want.maxAge != nil, let fix = receivers.answer(askedAt: want.askedAt, maxAge: want.maxAge) {
      actions.append(.answer(want.id, fix))
    } else if isStopped {
      actions.append(.refuse(want.id, .stopped))
    } else if wants.count >= Self.limit {
      actions.append(.refuse(want.id, .tooMany))
    } else if phase == .open, receiverCount == 0 {
      actions.append(.refuse(want.id, noReceiver))
    } else {
      wants.append(want)
      ensureOpen(now, &actions)
    }
  }

  private mutating func ensureOpen(_ now: Duration, _ actions: inout [Action]) {
    switch phase {
    case .idle, .resting: open(&actions)
    case .opening, .open:
      guard hasDetail, detail > openDetail else { return }
      actions.append(.close)
      open(&actions)
    }
  }

  private mutating func open(_ actions: inout [Action]) {
    phase = .opening
    receiverCount = nil
    openDetail = detail
    actions.append(.open(openDetail))
  }

  private mutating func close(_ actions: inout [Action]) {
    if phase == .open || phase == .opening { actions.append(.close) }
    phase = .idle
    receivers.lostAll()
  }

  private var noReceiver: LocationError {
    LocationError(.unavailable, "\(name) has no receiver.", remedy: receiverRemedy)
  }

  // MARK: What the feed tells

  private mutating func took(_ event: FeedEvent, _ now: Duration, _ actions: inout [Action]) {
    switch event {
    case .opened:
      guard phase == .opening else { return }
      phase = .open
      failures = 0
    case .failed(let error): failed(error, now, &actions)
    case .receivers(let count):
      guard phase == .open else { return }
      if count == 0 && receiverCount != 0 {
        receivers.lostAll()
        actions.append(.tell(.trouble(noReceiver)))
      }
      receiverCount = count
      // One that was just started again may find its receivers in a moment; who asks only now is told at once.
      if count == 0 { refuse(noReceiver, &actions) { !$0.isSurvivor } }
    case .fix(let fix, let receiver):
      guard phase == .open else { return }
      receivers.took(fix, from: receiver)
      receiverCount = max(receiverCount ?? 1, 1)
      serve(&actions)
      actions.append(.tell(.fix(fix, receiver: receiver)))
    case .noFix(let receiver):
      guard phase == .open else { return }
      receivers.lost(receiver, at: now)
      actions.append(.tell(.noFix(receiver: receiver, receivers.satellites)))
    case .satellites(let satellites, let receiver): receivers.saw(satellites, from: receiver, at: now)
    }
  }

  private mutating func serve(_ actions: inout [Action]) {
    wants.removeAll { want in
      guard let fix = receivers.answer(askedAt: want.askedAt, maxAge: want.maxAge) else { return false }
      actions.append(.answer(want.id, fix))
      return true
    }
  }

  private mutating func failed(_ error: LocationError, _ now: Duration, _ actions: inout [Action]) {
    let wasOpen = phase == .open
    guard wasOpen || phase == .opening else { return }
    receivers.lostAll()
    if wasOpen {
      for index in wants.indices { wants[index].isSurvivor = true }
    } else {
      refuse(error, &actions) { !$0.isSurvivor }
    }
    if !followers.isEmpty { actions.append(.tell(.trouble(error))) }
    if isUnused {
      phase = .idle
      failures = 0
    } else {
      // 0.1 s, 0.2 s, … 2 s: a service that is started again is back within a second.
      phase = .resting(until: now + min(.milliseconds(100 << min(failures, 5)), .seconds(2)))
      failures += 1
    }
  }

  private mutating func refuse(_ error: LocationError, _ actions: inout [Action], _ isMeant: (Want) -> Bool) {
    wants.removeAll { want in
      guard isMeant(want) else { return false }
      actions.append(.refuse(want.id, error))
      return true
    }
  }

  // MARK: Time

  private mutating func passTime(_ now: Duration, _ actions: inout [Action]) {
    for want in wants where want.deadline <= now { actions.append(.refuse(want.id, late(want))) }
    wants.removeAll { $0.deadline <= now }
    switch phase {
    case .resting(let until):
      if isUnused {
        phase = .idle
        failures = 0
      } else if until <= now {
        open(&actions)
      }
    case .open: if isUnused && lastUse + linger <= now { close(&actions) }
    case .idle, .opening: break
    }
  }

  private func late(_ want: Want) -> LocationError {
    let seconds = Int((want.deadline - want.askedAt).inSeconds.rounded(.up))
    switch phase {
    case .open:
      let sky = receivers.satellites.map { " It uses \($0.used) of the \($0.visible) satellites it sees." } ?? ""
      return LocationError(
        .timeout, "\(name) had no fix within \(seconds) s.\(sky)",
        remedy: "See what it receives: talknode location --watch")
    case .resting:
      return LocationError(.timeout, "\(name) went away and did not come back within \(seconds) s.")
    case .idle, .opening:
      return LocationError(.timeout, "\(name) did not answer within \(seconds) s.")
    }
  }
}

/// What one source tells those who follow it.
public enum FixNews: Sendable, Equatable {
  case fix(Fix, receiver: String)
  /// A receiver has no fix; what is seen of the sky, where that is known.
  case noFix(receiver: String, Fix.Satellites?)
  case trouble(LocationError)
}
