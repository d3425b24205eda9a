import System

/// What is known from each receiver of one source: its newest fix, how often it gives one, whether it has lost it since.
struct Receivers: Sendable {
  fileprivate struct Receiver {
    var fix: Fix?
    /// It has said since that it has none.
    var hasLost = false
    /// Between one fix and the next; the newest last.
    var gaps: [Duration] = []
    var satellites: Fix.Satellites?
    var heardAt: Duration
  }

  private var known: [String: Receiver] = [:]
  /// gpsd takes four; one that comes when all places are taken gets that of the one that is silent longest.
  static let limit = 16
  /// The longest that a fix counts as the present one.
  static let longestFresh: Duration = .seconds(2)
  /// Times of fixes are whole seconds with many receivers and services (node-commands §5).
  static let slack: Duration = .seconds(1)

  // MARK: What comes in

  mutating func took(_ fix: Fix, from name: String) {
    var receiver = receiver(name, at: fix.receivedAt)
    if let last = receiver.fix, !receiver.hasLost {
      receiver.gaps.append(max(.zero, fix.receivedAt - last.receivedAt))
      if receiver.gaps.count > 4 { receiver.gaps.removeFirst() }
    }
    receiver.fix = fix
    receiver.fix?.satellites = fix.satellites ?? receiver.satellites
    receiver.hasLost = false
    known[name] = receiver
  }

  mutating func lost(_ name: String, at now: Duration) {
    var receiver = receiver(name, at: now)
    receiver.hasLost = true
    receiver.gaps = []
    known[name] = receiver
  }

  /// The source is gone, and with it all that was the present.
  mutating func lostAll() {
    for name in known.keys {
      known[name]?.hasLost = true
      known[name]?.gaps = []
    }
  }

  mutating func saw(_ satellites: Fix.Satellites, from name: String, at now: Duration) {
    var receiver = receiver(name, at: now)
    receiver.satellites = satellites
    known[name] = receiver
  }

  private mutating func receiver(_ name: String, at now: Duration) -> Receiver {
    if var receiver = known[name] {
      receiver.heardAt = now
      return receiver
    }
    if known.count >= Self.limit, let oldest = known.min(by: { $0.value.heardAt < $1.value.heardAt })?.key {
      known[oldest] = nil
    }
    return Receiver(heardAt: now)
  }

  // MARK: What it is good for

  /// The best fix that answers a question asked at `askedAt`, of any age up to `maxAge`, or a present one when that is not given.
  func answer(askedAt: Duration, maxAge: Duration?) -> Fix? {
    known.values.lazy.filter { $0.answers(askedAt: askedAt, maxAge: maxAge) }.compactMap(\.fix)
      .max { left, right in Self.isWorse(left, than: right) }
  }

  /// What the receivers see of the sky, the best of them.
  var satellites: Fix.Satellites? {
    known.values.compactMap(\.satellites).max { ($0.used, $0.visible) < ($1.used, $1.visible) }
  }

  private static func isWorse(_ left: Fix, than right: Fix) -> Bool {
    if left.isAccuracyStated != right.isAccuracyStated { return right.isAccuracyStated }
    if left.accuracyMeters != right.accuracyMeters { return left.accuracyMeters > right.accuracyMeters }
    return left.measuredAt < right.measuredAt
  }
}

extension Receivers.Receiver {
  /// How long its newest fix counts as the present one: 1.5 times its own interval. The longest of the last gaps, because some receivers
  /// report twice a second and then pause.
  fileprivate var fresh: Duration {
    gaps.max().map { min($0 * 3 / 2, Receivers.longestFresh) } ?? Receivers.longestFresh
  }

  fileprivate func answers(askedAt: Duration, maxAge: Duration?) -> Bool {
    guard let fix else { return false }
    if let maxAge { return fix.measuredAt >= askedAt - maxAge - Receivers.slack }
    if hasLost { return false }
    return fix.measuredAt >= askedAt - (fix.receivedAt >= askedAt ? Receivers.slack : fresh)
  }
}
