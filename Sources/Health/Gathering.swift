import System

/// Where a reader puts what it finds in one file. Keeps what touches a span of time, throws away what can't be true, and counts both.
///
/// Used by one thread at a time. Bounded: beyond what its budget has room for, the rest is left out and told to be.
public final class Gathering {
  /// In milliseconds since 1970.
  public let span: Range<Int64>
  /// Nothing can have happened after it.
  public let now: Int64
  /// For times that a file writes without one.
  public let zone: ZoneRules
  /// A folder in which what must lie on disk to be read is unpacked, without a name.
  public let scratch: String
  private let isCancelled: () -> Bool

  public private(set) var sources: [HealthSource] = []
  private var indices: [HealthSource: UInt16] = [:]
  public private(set) var records: [HealthRecord] = []
  private var remarks: [Remark] = []
  private var leftOut: [Reason: Int] = [:]
  private let budget: RecordBudget
  private static let remarkLimit = 24
  /// No device that counts steps is older.
  static let earliest: Int64 = 946_684_800_000
  /// In milliseconds.
  static let longestWorkout: Int64 = 14 * 86_400_000
  /// A night that touches a day may begin or end this long beside it.
  static let margin: Int64 = 36 * 3_600_000

  enum Reason: String, Sendable {
    case absurdTime = "with times that can't be"
    case backward = "with an end before the beginning"
    case absurdValue = "with values that can't be"
    case sentinel = "without a heart rate (0, 255)"
    case tooLong = "lasting too long"
    case nested = "inside others, which repeat what stands on its own"
    case overflow = "beyond what is kept of all files together"
  }

  /// - Parameter span: what is asked about; records some time beside it are kept too, as far as days need them.
  public convenience init(
    span: Range<Int64>, now: Int64, zone: ZoneRules, scratch: String = "/var/tmp",
    isCancelled: @escaping () -> Bool = { false }
  ) {
    self.init(
      span: span, now: now, zone: zone, scratch: scratch, budget: RecordBudget(), isCancelled: isCancelled)
  }

  /// - Parameter budget: shared by all files of one reading.
  init(
    span: Range<Int64>, now: Int64, zone: ZoneRules, scratch: String, budget: RecordBudget,
    isCancelled: @escaping () -> Bool
  ) {
    self.budget = budget
    self.scratch = scratch
    self.span = span
    self.now = now
    self.zone = zone
    self.isCancelled = isCancelled
    kept = (span.lowerBound - Gathering.margin)..<(span.upperBound + Gathering.margin)
  }

  /// `span` with its margins.
  let kept: Range<Int64>

  func check() throws(HealthError) { if isCancelled() { throw .cancelled } }

  /// The index of a source, which is new or known.
  func index(of source: HealthSource) -> UInt16 {
    if let index = indices[source] { return index }
    // More sources than that are no person's: the last place stands for all the others.
    if sources.count >= 1000 { return UInt16(sources.count - 1) }
    let index = UInt16(sources.count)
    sources.append(source)
    indices[source] = index
    return index
  }

  /// Takes a record; times in milliseconds since 1970.
  @inline(__always)
  func add(
    _ kind: HealthRecord.Kind, _ source: UInt16, _ start: Int64, _ end: Int64, value: Double = 0, lane: UInt8 = 0
  ) {
    if isNear(start, end) {
      keep(HealthRecord(kind, source: source, start: start, end: end, value: value, lane: lane))
    }
  }

  /// Whether something of then is of use for what is asked about. What is of no time at all is counted.
  @inline(__always)
  private func isNear(_ start: Int64, _ end: Int64) -> Bool {
    if end >= kept.lowerBound && start < kept.upperBound { return true }
    if start < Gathering.earliest || start > now + 86_400_000 { leaveOut(.absurdTime) }
    return false
  }

  /// For readers that have to hold something of a time themselves until a record can be made of it: whether it may become one, with
  /// `held` others that they hold.
  func hasRoom(at time: Int64, beside held: Int) -> Bool {
    if !isNear(time, time) { return false }
    if held < budget.left { return true }
    leaveOut(.overflow)
    return false
  }

  private func keep(_ record: HealthRecord) {
    if record.end < record.start { return leaveOut(.backward) }
    if record.start < Gathering.earliest || record.start > now + 86_400_000 { return leaveOut(.absurdTime) }
    let length = record.end - record.start
    guard record.value.isFinite else { return leaveOut(.absurdValue) }
    switch record.kind {
    case .steps, .workoutSteps, .counter:
      if record.value < 0 || record.value > 500_000 { return leaveOut(.absurdValue) }
      // A device that was worn and still says nothing about steps that a phone has counted.
      if record.value == 0 && record.kind != .counter { return }
      if length > 8 * 86_400_000 { return leaveOut(.tooLong) }
    case .asleep, .awake, .night: if length > 36 * 3_600_000 { return leaveOut(.tooLong) }
    case .resting, .heartRate:
      if length > 8 * 86_400_000 { return leaveOut(.tooLong) }
      if record.value == 0 || record.value == 255 || record.value == -1 { return leaveOut(.sentinel) }
      if record.value < 20 || record.value > 250 { return leaveOut(.absurdValue) }
    case .workout:
      if record.value < 0 { return leaveOut(.absurdValue) }
      if length > Gathering.longestWorkout || record.value > 20_160 { return leaveOut(.tooLong) }
    }
    if !budget.take() { return leaveOut(.overflow) }
    records.append(record)
  }

  func leaveOut(_ reason: Reason, _ count: Int = 1) { leftOut[reason, default: 0] += count }

  /// Whether records were left out that another time there may be room for.
  var hasOverflowed: Bool { leftOut[.overflow] != nil }

  func remark(_ kind: Remark.Kind, _ sentence: String) {
    // What a file holds may be quoted in it: on one line.
    let line = String(sentence.map { $0.isNewline || $0 < " " ? " " : $0 })
    let remark = Remark(kind, line)
    if remarks.count < Gathering.remarkLimit, !remarks.contains(remark) { remarks.append(remark) }
  }

  /// What there is to be told, damage first.
  public func evidence(file: String, format: String) -> FileEvidence {
    let counts = leftOut.sorted { $0.key.rawValue < $1.key.rawValue }.map {
      Remark(.leftOut, "Left out: \($0.value) record\($0.value == 1 ? "" : "s") \($0.key.rawValue).")
    }
    return FileEvidence(
      file: file, format: format, sources: sources, records: records,
      remarks: remarks.sorted { $0.kind.rawValue < $1.kind.rawValue } + counts)
  }
}
