/// Makes one day of all that the files told: a value, without IO and without a clock.
///
/// - Steps: records of one source add, those of several sources over the same time are told by the one that is believed most.
/// - Sleep: all stretches asleep, counted once, as far as they lie in the day.
/// - Resting heart rate: the mean.
/// - Workouts: those that begin in the day, with all of their minutes.
///
/// Neither the order of files and records nor how they are spread over files changes a day.
public struct DayReckoning: Sendable {
  public let window: DayWindow
  public private(set) var summary = DaySummary()
  /// How it came about, a sentence each, for the person at the machine only.
  public private(set) var explanation: [String] = []

  private let priority: SourcePriority
  private var sources: [HealthSource] = []
  private var records: [HealthRecord] = []

  /// - Parameter estimatesResting: whether a day without a resting heart rate gets one from the heart rates of its calmest half hour.
  public init(
    _ window: DayWindow, _ evidence: [FileEvidence], priority: SourcePriority = SourcePriority(),
    estimatesResting: Bool = true
  ) {
    self.window = window
    self.priority = priority
    collect(evidence)
    steps()
    sleep()
    restingHeartRate(estimates: estimatesResting)
    workouts()
  }

  private func source(_ record: HealthRecord) -> HealthSource { sources[Int(record.source)] }

  // MARK: All that matters, once

  /// The records around the day, under one numbering of sources that is in order of priority. The same record in two files is one record
  /// (last month's export beside this month's); twice in one file it is two.
  private mutating func collect(_ evidence: [FileEvidence]) {
    sources = Set(evidence.flatMap(\.sources)).sorted { priority.precedes($0, $1) }
    let numbers = Dictionary(uniqueKeysWithValues: zip(sources, 0..<sources.count))
    let around = (window.start - Gathering.margin)..<(window.end + Gathering.margin)
    var counts: [HealthRecord: Int] = [:]
    var repeated = 0
    for file in evidence {
      let renumbered = file.sources.map { UInt16(clamping: numbers[$0] ?? 0) }
      var here: [HealthRecord: Int] = [:]
      for record in file.records where record.end >= around.lowerBound && record.start < around.upperBound {
        guard Int(record.source) < renumbered.count, isOfUse(record) else { continue }
        let same = HealthRecord(
          record.kind, source: renumbered[Int(record.source)], start: record.start, end: record.end,
          value: record.value,
          lane: record.lane)
        here[same, default: 0] += 1
      }
      for (record, count) in here {
        let before = counts[record] ?? 0
        if before > 0 { repeated += min(before, count) }
        counts[record] = max(before, count)
      }
    }
    records = counts.flatMap { Array(repeating: $0.key, count: $0.value) }.sorted(by: DayReckoning.isBefore)
    if repeated > 0 { explain("\(repeated) record\(repeated == 1 ? "" : "s") found in several files counted once.") }
  }

  private func isOfUse(_ record: HealthRecord) -> Bool {
    // The steps between two readings need both of them, and a device's midnight may not be ours.
    if record.isSleep || record.kind == .counter { return true }
    if record.start >= window.end { return false }
    return record.kind == .resting || record.kind == .heartRate || record.kind == .workout
      ? record.start >= window.start : record.end > window.start || record.start >= window.start
  }

  /// One order for every way in which the files may lie.
  private static func isBefore(_ left: HealthRecord, _ right: HealthRecord) -> Bool {
    if left.start != right.start { return left.start < right.start }
    if left.end != right.end { return left.end < right.end }
    if left.source != right.source { return left.source < right.source }
    if left.kind != right.kind { return left.kind.rawValue < right.kind.rawValue }
    if left.lane != right.lane { return left.lane < right.lane }
    return left.value < right.value
  }

  private mutating func explain(_ sentence: String) { explanation.append(sentence) }

  // MARK: Steps

  /// Steps over an interval of one source.
  private struct Stretch {
    let range: Range<Int64>
    let steps: Double
  }

  private mutating func steps() {
    var bySource: [UInt16: [Stretch]] = [:]
    for record in records where record.kind == .steps {
      bySource[record.source, default: []].append(Stretch(range: range(record), steps: record.value))
    }
    for (source, stretches) in counted() { bySource[source, default: []] += stretches }
    bySource = bySource.filter {
      $0.value.contains { $0.range.overlaps(window.start..<max(window.start + 1, window.end)) }
    }
    let workout = records.filter { $0.kind == .workoutSteps }
    if bySource.isEmpty {
      for record in workout {
        bySource[record.source, default: []].append(Stretch(range: range(record), steps: record.value))
      }
      if !workout.isEmpty { explain("Steps: nobody counted all day, so those of workouts are told.") }
    } else if !workout.isEmpty {
      let total = workout.reduce(0) { $0 + $1.value }
      explain("Steps: \(Int(total.rounded())) inside workout files are left out, for the day has an all-day source.")
    }
    leaveOutOfFamilies(&bySource)
    if bySource.isEmpty { return }
    add(bySource)
  }

  /// The part of a record that can have happened: nothing of it later than now, all that it counts before. A moment lasts a millisecond.
  private func range(_ record: HealthRecord) -> Range<Int64> {
    let end = max(record.end, record.start + 1)
    return record.start..<max(record.start + 1, min(end, window.now))
  }

  /// Counters since midnight as steps between two readings.
  private func counted() -> [UInt16: [Stretch]] {
    struct Counter: Hashable {
      let source: UInt16
      let lane: UInt8
    }
    var readings: [Counter: [HealthRecord]] = [:]
    for record in records where record.kind == .counter {
      readings[Counter(source: record.source, lane: record.lane), default: []].append(record)
    }
    var found: [UInt16: [Stretch]] = [:]
    for (counter, list) in readings {
      var midnight = Int64.min / 2
      var (time, value) = (midnight, 0.0)
      for reading in list.sorted(by: { ($0.end, $0.start, $0.value) < ($1.end, $1.start, $1.value) }) {
        // A device's day is one, though its midnight is told otherwise after its clocks were changed or it travelled.
        if abs(reading.start - midnight) >= DayReckoning.counterDay {
          midnight = reading.start
          (time, value) = (max(midnight, time), 0)
        }
        if reading.end <= time { continue }
        // A counter that falls has begun again.
        let steps = reading.value >= value ? reading.value - value : reading.value
        if steps > 0, time < window.end {
          found[counter.source, default: []].append(
            Stretch(range: time..<max(time + 1, min(reading.end, window.now)), steps: steps))
        }
        time = reading.end
        value = reading.value
      }
    }
    return found
  }

  /// Midnights that lie less than this apart are one device's same midnight: the next one is at least this far, also where it went east.
  private static let counterDay: Int64 = 12 * 3_600_000

  private mutating func leaveOutOfFamilies(_ bySource: inout [UInt16: [Stretch]]) {
    let families = Dictionary(grouping: bySource.keys.filter { !sources[Int($0)].family.isEmpty }) {
      sources[Int($0)].family
    }
    for members in families.values.sorted(by: { $0.min()! < $1.min()! }) where members.count > 1 {
      let best = members.min { left, right in
        let preferences = (sources[Int(left)].preference, sources[Int(right)].preference)
        return preferences.0 == preferences.1 ? left < right : preferences.0 < preferences.1
      }!
      for member in members.sorted() where member != best {
        bySource[member] = nil
        explain("Steps: \(sources[Int(member)].name) tells the same as \(sources[Int(best)].name) and is left out.")
      }
    }
  }

  private mutating func add(_ bySource: [UInt16: [Stretch]]) {
    let day = window.start..<max(window.start, window.end)
    var covered = Intervals()
    var total = 0.0
    for source in bySource.keys.sorted() {
      let name = sources[Int(source)].name
      let stretches = bySource[source]!.sorted {
        ($0.range.lowerBound, $0.range.upperBound, $0.steps) < ($1.range.lowerBound, $1.range.upperBound, $1.steps)
      }
      var own = 0.0
      var hidden = 0.0
      for stretch in stretches {
        let inDay = stretch.range.clamped(to: day)
        if inDay.isEmpty { continue }
        let whole = Double(stretch.range.upperBound - stretch.range.lowerBound)
        let free = inDay.upperBound - inDay.lowerBound
        let taken = covered.overlap(inDay)
        own += stretch.steps * Double(free - taken) / whole
        hidden += stretch.steps * Double(taken) / whole
      }
      total += own
      covered = covered.union(Intervals(stretches.map { $0.range.clamped(to: day) }))
      let counted = "Steps: \(whole(own)) by \(name)"
      explain(hidden < 0.5 ? counted + "." : counted + "; \(whole(hidden)) more at times that others cover.")
    }
    // Shares of records that cross midnight are fractions: what they lack for a half is no reason to round down.
    summary.stepCount = Int(((total * 1e6).rounded() / 1e6).rounded())
  }

  private func whole(_ value: Double) -> Int { Int(value.rounded()) }

  // MARK: Sleep

  private mutating func sleep() {
    let sleep = records.filter(\.isSleep)
    func stretches(_ kind: HealthRecord.Kind) -> [UInt16: Intervals] {
      Dictionary(grouping: sleep.filter { $0.kind == kind }, by: \.source)
        .mapValues { Intervals($0.map { $0.start..<$0.end }) }
    }
    // Being awake for a while says nothing about what the rest of a night was.
    let stages = stretches(.asleep)
    let awake = stretches(.awake)
    var nights: [UInt16: [Range<Int64>]] = [:]
    var asleep: [(source: UInt16, range: Range<Int64>)] = []
    var withoutStages = 0
    let day = window.start..<max(window.start, window.end)
    for record in sleep where record.kind != .awake {
      let range = record.start..<record.end
      if record.kind == .night {
        if stages[record.source]?.touches(range) ?? false { continue }
        if !range.clamped(to: day).isEmpty { withoutStages += 1 }
        nights[record.source, default: []].append(range)
      } else {
        asleep.append((record.source, range.clamped(to: day)))
      }
    }
    for (source, ranges) in nights {
      for night in Intervals(ranges).ranges {
        for range in awake[source, default: Intervals()].gaps(in: night) {
          asleep.append((source, range.clamped(to: day)))
        }
      }
    }
    let union = Intervals(asleep.map(\.range))
    if union.isEmpty { return }
    let minutes = rounded(minutes: union.length)
    summary.sleepMinutes = minutes
    for (source, list) in Dictionary(grouping: asleep, by: \.source).sorted(by: { $0.key < $1.key }) {
      let own = Intervals(list.map(\.range)).length
      if own > 0 { explain("Sleep: \(rounded(minutes: own)) min by \(sources[Int(source)].name).") }
    }
    let sum = asleep.reduce(0) { $0 + $1.range.upperBound - $1.range.lowerBound }
    if sum > union.length { explain("Sleep: \(rounded(minutes: sum - union.length)) min told twice counted once.") }
    if withoutStages > 0 {
      explain("Sleep: \(withoutStages) night\(withoutStages == 1 ? "" : "s") without stages counted as asleep.")
    }
  }

  private func rounded(minutes milliseconds: Int64) -> Int { Int((milliseconds + 30_000) / 60_000) }

  // MARK: Heart

  private mutating func restingHeartRate(estimates: Bool) {
    let resting = records.filter { $0.kind == .resting }
    if !resting.isEmpty {
      let mean = resting.reduce(0) { $0 + $1.value } / Double(resting.count)
      summary.restingHeartRate = (mean * 10).rounded() / 10
      let names = Set(resting.map { source($0).name }).sorted().joined(separator: ", ")
      explain("Resting heart rate: the mean of \(resting.count) by \(names).")
      return
    }
    guard estimates else { return }
    var minutes: [Int64: (sum: Double, count: Double)] = [:]
    for record in records where record.kind == .heartRate {
      let minute = record.start.floorDivided(by: 60_000)
      let before = minutes[minute] ?? (0, 0)
      minutes[minute] = (before.sum + record.value, before.count + 1)
    }
    guard let lowest = DayReckoning.calmest(minutes.mapValues { $0.sum / $0.count }) else { return }
    summary.restingHeartRate = (lowest * 10).rounded() / 10
    explain("Resting heart rate: nobody measured it, so it is the mean of the calmest half hour.")
  }

  /// The lowest mean of any 30 minutes of which at least 15 have a heart rate.
  private static func calmest(_ minutes: [Int64: Double]) -> Double? {
    let ordered = minutes.sorted { $0.key < $1.key }
    var lowest: Double?
    var first = 0
    for last in ordered.indices {
      while ordered[last].key - ordered[first].key >= 30 { first += 1 }
      if last - first + 1 < 15 { continue }
      // Summed anew each time: a running sum would depend on what went before.
      let mean = ordered[first...last].reduce(0) { $0 + $1.value } / Double(last - first + 1)
      lowest = min(lowest ?? mean, mean)
    }
    return lowest
  }

  // MARK: Workouts

  /// A workout that two sources have recorded is one: the one of the source that is believed more.
  private mutating func workouts() {
    let all = records.filter { $0.kind == .workout }
    if all.isEmpty { return }
    var taken: [HealthRecord] = []
    for record in all.sorted(by: { $0.source == $1.source ? DayReckoning.isBefore($0, $1) : $0.source < $1.source }) {
      // So many are no person's, and looking for twins among them would take long.
      let twin =
        all.count > 1000
        ? nil
        : taken.first { other in
          let common = min(record.end, other.end) - max(record.start, other.start)
          return other.source != record.source && common * 2 > min(record.end - record.start, other.end - other.start)
        }
      if let twin {
        explain("Workouts: one by \(source(record).name) is the same as one by \(source(twin).name).")
      } else {
        taken.append(record)
      }
    }
    let minutes = taken.sorted(by: DayReckoning.isBefore).reduce(0) { $0 + $1.value }
    summary.workoutCount = taken.count
    summary.workoutMinutes = Int(((minutes * 1e6).rounded() / 1e6).rounded())
    for (source, list) in Dictionary(grouping: taken, by: \.source).sorted(by: { $0.key < $1.key }) {
      explain("Workouts: \(list.count) by \(sources[Int(source)].name).")
    }
  }
}
