/// Who recorded something: a device or an app, as its export names it.
public struct HealthSource: Hashable, Sendable {
  /// What it is worn or carried as, from the most to the least believed about steps.
  public enum Kind: UInt8, Sendable, Comparable {
    case wearable = 0
    case phone = 1
    case other = 2
    public static func < (left: Kind, right: Kind) -> Bool { left.rawValue < right.rawValue }
  }

  public let name: String
  public let kind: Kind
  /// Sources of one family tell the same steps in different words, so that only one of them counts on a day. Empty = none.
  public let family: String
  /// Within the family: the smallest counts.
  public let preference: UInt8

  public init(_ name: String, _ kind: Kind, family: String = "", preference: UInt8 = 0) {
    // Blanks of every kind are one: Apple writes "Anna’s Apple\u{A0}Watch".
    let words = name.split { $0.isWhitespace }
    let text = words.joined(separator: " ")
    self.name = text.isEmpty ? "unnamed" : String(text.prefix(80))
    self.kind = kind
    self.family = family
    self.preference = preference
  }

  /// A source that is known by its name alone.
  public init(named name: String) { self.init(name, HealthSource.kind(of: name)) }

  /// What a name suggests.
  public static func kind(of name: String) -> Kind {
    let lower = name.lowercased()
    let worn = [
      "watch", "band", "ring", "fitbit", "garmin", "amazfit", "oura", "whoop", "polar", "suunto", "withings", "coros",
      "bangle", "pinetime", "pebble", "versa", "fenix", "forerunner", "vivo", "zepp", "gear", "charge",
    ]
    if worn.contains(where: lower.contains) { return .wearable }
    let carried = ["phone", "pixel", "galaxy", "oneplus", "xperia", "android", "ipod"]
    return carried.contains(where: lower.contains) ? .phone : .other
  }
}

/// One thing that was recorded. Times are milliseconds since 1970, `end` is left out of the interval.
public struct HealthRecord: Hashable, Sendable {
  public enum Kind: UInt8, Sendable, CaseIterable {
    /// `value` steps, evenly over the interval.
    case steps
    /// The same from a workout's own file: only told when nobody counted all day.
    case workoutSteps
    /// `value` steps since `start`, which is the device's midnight, as counted at `end`.
    case counter
    case asleep
    /// Awake or out of bed in the middle of a night.
    case awake
    /// A night as a whole. Counts as asleep when its source has no stages in it.
    case night
    /// Resting heart rate, in beats a minute.
    case resting
    /// Heart rate at some moment.
    case heartRate
    /// `value` minutes.
    case workout
  }

  public let kind: Kind
  /// Tells counters of one source apart: a device counts walking and running each.
  public let lane: UInt8
  /// Index of the source in its evidence.
  public let source: UInt16
  public let start: Int64
  public let end: Int64
  public let value: Double

  public init(_ kind: Kind, source: UInt16, start: Int64, end: Int64, value: Double = 0, lane: UInt8 = 0) {
    self.kind = kind
    self.source = source
    self.start = start
    self.end = end
    self.value = value
    self.lane = lane
  }

  var isSleep: Bool { kind == .asleep || kind == .awake || kind == .night }
}

/// What one file told about a span of time.
public struct FileEvidence: Sendable, Equatable {
  /// The file, and where it lies in an archive, that.
  public var file: String
  /// For example `Apple Health`.
  public var format: String
  public var sources: [HealthSource]
  public var records: [HealthRecord]
  /// What a person should know: what is damaged, what was left out.
  public var remarks: [Remark]
  /// Whether the index told it, and the file was not read.
  public var isFromIndex = false

  public init(
    file: String, format: String, sources: [HealthSource] = [], records: [HealthRecord] = [], remarks: [Remark] = []
  ) {
    self.file = file
    self.format = format
    self.sources = sources
    self.records = records
    self.remarks = remarks
  }
}

/// Something about a file that a person should know.
public struct Remark: Sendable, Hashable {
  public enum Kind: UInt8, Sendable {
    /// Something could not be read; the rest was.
    case damage
    /// Something was left out on purpose.
    case leftOut
    /// How something was understood.
    case note
  }
  public let kind: Kind
  public let sentence: String
  public init(_ kind: Kind, _ sentence: String) {
    self.kind = kind
    self.sentence = sentence
  }
}
