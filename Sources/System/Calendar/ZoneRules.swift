/// A time zone: how far its clocks are from UTC, at every instant there is. From the system's TZif files (RFC 8536), whose last rule
/// goes on for ever.
///
/// Foundation's own would bring ICU along, and FoundationEssentials knows no zone but GMT.
public struct ZoneRules: Sendable, Equatable {
  /// The IANA name, for example `Europe/Berlin`.
  public let identifier: String
  /// Seconds since 1970 at which the offset changes, ascending; `offsets` holds what it changes to, in seconds east of UTC.
  let transitions: [Int64]
  let offsets: [Int32]
  /// Before the first change.
  let firstOffset: Int32
  /// After the last one.
  let rule: ZoneRule?

  public static let utc = ZoneRules(identifier: "UTC", transitions: [], offsets: [], firstOffset: 0, rule: nil)

  /// Why bytes are no zone.
  public struct Damage: Error, Sendable, Equatable {
    /// A sentence fragment: `it ends in its header`.
    public let reason: String
  }

  init(identifier: String, transitions: [Int64], offsets: [Int32], firstOffset: Int32, rule: ZoneRule?) {
    self.identifier = identifier
    self.transitions = transitions
    self.offsets = offsets
    self.firstOffset = firstOffset
    self.rule = rule
  }

  /// Clocks that are always this many seconds ahead of UTC.
  public init(identifier: String, fixed seconds: Int32) {
    self.init(identifier: identifier, transitions: [], offsets: [], firstOffset: seconds, rule: nil)
  }

  /// A POSIX text as in the TZ variable: `CET-1CEST,M3.5.0,M10.5.0/3`. nil when it is none.
  public init?(posix text: String, identifier: String) {
    guard let rule = ZoneRule(text) else { return nil }
    self.init(identifier: identifier, transitions: [], offsets: [], firstOffset: rule.standard, rule: rule)
  }

  // MARK: Asking

  /// Seconds east of UTC at an instant, in seconds since 1970.
  public func offset(at instant: Int64) -> Int64 {
    guard let last = transitions.last else { return Int64(rule?.offset(at: instant) ?? firstOffset) }
    if instant >= last { return Int64(rule?.offset(at: instant) ?? offsets[offsets.count - 1]) }
    var low = 0
    var high = transitions.count
    while low < high {
      let middle = (low + high) / 2
      if transitions[middle] <= instant { low = middle + 1 } else { high = middle }
    }
    return Int64(low == 0 ? firstOffset : offsets[low - 1])
  }

  /// What the calendar on the wall shows.
  public func date(at instant: Int64) -> CivilDate {
    CivilDate(number: Int((instant + offset(at: instant)).floorDivided(by: 86_400)))
  }

  /// The day's first instant: midnight, or what the clocks jump to when they skip it. Days have 23 to 25 hours where the clocks are put
  /// forward or back in them.
  public func start(of date: CivilDate) -> Int64 {
    let midnight = Int64(date.number) * 86_400
    for stretch in stretches(around: midnight) where midnight - stretch.offset < stretch.end {
      return max(stretch.start, midnight - stretch.offset)
    }
    return midnight - offset(at: midnight)
  }

  /// The instant at which the clocks show a time, given as if they ran on UTC. The first of two when they are put back; one that is
  /// skipped is counted on from before the jump.
  public func instant(local: Int64) -> Int64 {
    let stretches = stretches(around: local)
    for (index, stretch) in stretches.enumerated() {
      let instant = local - stretch.offset
      if instant >= stretch.end { continue }
      return instant >= stretch.start || index == 0 ? instant : local - stretches[index - 1].offset
    }
    return local - offset(at: local)
  }

  /// What lies between two changes: from `start` up to `end`, which is left out.
  private struct Stretch {
    var start: Int64
    var end: Int64
    let offset: Int64
  }

  /// The stretches that may hold an instant at which the clocks show `local`: no zone is more than 26 hours from UTC.
  private func stretches(around local: Int64) -> [Stretch] {
    let from = local - 26 * 3600
    let to = local + 26 * 3600
    var stretches = [Stretch(start: .min, end: .max, offset: offset(at: from))]
    for (instant, offset) in changes(from, to) {
      stretches[stretches.count - 1].end = instant
      stretches.append(Stretch(start: instant, end: .max, offset: Int64(offset)))
    }
    return stretches
  }

  /// The changes after `from`, up to `to`.
  private func changes(_ from: Int64, _ to: Int64) -> [(Int64, Int32)] {
    var found: [(Int64, Int32)] = []
    var low = transitions.partitionIndex { $0 > from }
    while low < transitions.count, transitions[low] <= to {
      found.append((transitions[low], offsets[low]))
      low += 1
    }
    guard let rule else { return found }
    let last = transitions.last ?? .min
    return found + rule.changes(around: from).filter { $0.0 > max(from, last) && $0.0 <= to }
  }
}

extension Array where Element == Int64 {
  /// The first index whose element fulfils a condition that all later ones fulfil too.
  fileprivate func partitionIndex(_ condition: (Int64) -> Bool) -> Int {
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if condition(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
