import System

/// FIT files, as watches and bicycle computers write them: workouts, days ("monitoring"), nights.
struct FITReader: HealthReader {
  let format = "FIT"

  func recognizes(_ name: String, head: [UInt8]) -> Bool {
    if head.count >= 12, Array(head[8..<12]) == Array(".FIT".utf8) { return true }
    return name.lowercased().hasSuffix(".fit")
  }

  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError) {
    let buffered = BufferedInput(try input.open(), check: gathering.check)
    var decoder = FITDecoder(buffered) { gathering.remark($0, $1) }
    var file = FITFile(gathering)
    do throws(HealthError) {
      try decoder.run({ file.take($0) }, ended: { file.end() })
    } catch {
      file.end()
      throw error
    }
  }
}

/// What the messages of one FIT file come to.
private struct FITFile {
  private struct Session {
    let start: Int64
    let end: Int64
    let minutes: Double
    let steps: Double
  }

  private let gathering: Gathering
  private var type: Int64 = 0
  private var name: String?
  private var maker: Int64 = 0
  private var serial: Int64 = 0
  private var sessions: [Session] = []
  private var recordTimes: Range<Int64>?
  /// How far the device's clocks are from UTC, in milliseconds.
  private var offset: Int64?
  private var counters: [(time: Int64, lane: UInt8, steps: Double)] = []
  private var heartRates: [(time: Int64, rate: Double)] = []
  private var resting: [(time: Int64, rate: Double)] = []
  private var stages: [(time: Int64, level: Int64)] = []
  private var sleepEnd: Int64?
  /// In the lists above, which wait for the file's end: which device it is may stand there.
  private var held = 0
  /// Parts of one workout; no sport has more.
  private static let sessionLimit = 1000

  init(_ gathering: Gathering) { self.gathering = gathering }

  mutating func take(_ message: FITDecoder.Message) {
    switch message.kind {
    case 0:
      type = message[0] ?? 0
      maker = message[1] ?? 0
      serial = message[3] ?? 0
      name = message.text(8) ?? name
    case 23: if message[0] ?? 0 == 0 { name = name ?? message.text(27) }
    case 18: session(message)
    case 20:
      guard let time = message.time else { return }
      recordTimes = min(recordTimes?.lowerBound ?? time, time)..<max(recordTimes?.upperBound ?? time, time)
    case 21: if message[0] == 74, message[1] == 1 || message[1] == 4 { sleepEnd = message.time }
    case 103:
      if let local = message.time(0), let time = message.time { offset = rounded(local - time) }
    case 34:
      if let local = message.time(5), let time = message.time { offset = rounded(local - time) }
    case 55: monitoring(message)
    case 211:
      if let time = message.time, let rate = message[1] ?? message[0], holds(time) {
        resting.append((time, Double(rate)))
      }
    case 275:
      if let time = message.time, let level = message[0], holds(time) { stages.append((time, level)) }
    default: break
    }
  }

  /// Whether something of then is to be kept until the end.
  private mutating func holds(_ time: Int64) -> Bool {
    guard gathering.hasRoom(at: time, beside: held) else { return false }
    held += 1
    return true
  }

  /// Zones lie quarters of an hour apart.
  private func rounded(_ offset: Int64) -> Int64? {
    let quarter = (offset + 450_000).floorDivided(by: 900_000)
    return abs(quarter) <= 104 ? quarter * 900_000 : nil
  }

  private mutating func session(_ message: FITDecoder.Message) {
    guard let end = message.time, let start = message.time(2) else { return }
    // Thousandths of a second; the timer stands still in pauses. The file chooses how wide its numbers are, so these may be any.
    let elapsed = message[7] ?? max(0, end - start)
    let timer = message[8] ?? elapsed
    let possible = 0...Gathering.longestWorkout
    guard possible.contains(elapsed), possible.contains(timer) else { return gathering.leaveOut(.absurdValue) }
    if sessions.count >= FITFile.sessionLimit { return gathering.leaveOut(.overflow) }
    // A cycle of a runner, a walker or a hiker is two steps.
    let isOnFoot = [1, 11, 17].contains(message[5] ?? -1)
    sessions.append(
      Session(
        start: start, end: max(end, start + elapsed), minutes: Double(timer) / 60_000,
        steps: isOnFoot ? Double(message[10] ?? 0) * 2 : 0))
  }

  private mutating func monitoring(_ message: FITDecoder.Message) {
    guard let time = message.time else { return }
    if let rate = message[27], holds(time) { heartRates.append((time, Double(rate))) }
    // Walking and running count steps since the device's midnight, each for itself; cycles of others are none.
    let activity = message[5] ?? message[24].map { $0 & 0x1F } ?? 0
    if let cycles = message[3], activity == 6 || activity == 1, holds(time) {
      counters.append((time, UInt8(activity), Double(cycles)))
    }
  }

  // MARK: At the end

  mutating func end() {
    let gathering = gathering
    let source = gathering.index(of: HealthSource(deviceName, .wearable))
    workout(source)
    for (time, lane, steps) in counters {
      gathering.add(.counter, source, midnight(before: time), time, value: steps, lane: lane)
    }
    for (time, rate) in heartRates { gathering.add(.heartRate, source, time, time, value: rate) }
    for (time, rate) in resting { gathering.add(.resting, source, time, time, value: rate) }
    sleep(source)
    self = FITFile(gathering)
  }

  /// The device's last midnight. At midnight itself a count is the last one of the day before.
  private func midnight(before time: Int64) -> Int64 {
    let moment = (time - 1).floorDivided(by: 1000)
    let ours = gathering.zone.offset(at: moment) * 1000
    let offset = offset ?? ours
    // By the zone's clocks they may have been changed since.
    if offset == ours { return gathering.zone.start(of: gathering.zone.date(at: moment)) * 1000 }
    return (time - 1 + offset).floorDivided(by: 86_400_000) * 86_400_000 - offset
  }

  private var deviceName: String {
    let makers: [Int64: String] = [
      1: "Garmin", 23: "Suunto", 32: "Wahoo", 123: "Polar", 260: "Zwift", 294: "Coros", 265: "Strava",
    ]
    let device = name ?? (makers[maker] ?? "FIT device")
    return serial == 0 ? device : "\(device) \(serial)"
  }

  /// All sessions of a file are one workout: the transitions of a triathlon lie inside its minutes.
  private func workout(_ source: UInt16) {
    let ordered = sessions.sorted { $0.start < $1.start }
    guard let first = ordered.first else {
      // A recording that broke off has no session, but a record a second.
      guard type == 4, let times = recordTimes, !times.isEmpty else { return }
      gathering.remark(.damage, "The workout was never ended: its length is that of its records: partial.")
      let minutes = Double(times.upperBound - times.lowerBound) / 60_000
      gathering.add(.workout, source, times.lowerBound, times.upperBound, value: minutes)
      return
    }
    var minutes = 0.0
    var end = first.start
    for session in ordered {
      minutes += session.minutes + Double(max(0, session.start - end)) / 60_000
      end = max(end, session.end)
      gathering.add(.workoutSteps, source, session.start, session.end, value: session.steps)
    }
    gathering.add(.workout, source, first.start, end, value: minutes)
  }

  /// A level holds until the next one.
  private func sleep(_ source: UInt16) {
    let ordered = stages.sorted { $0.time < $1.time }
    for (index, stage) in ordered.enumerated() {
      let next = index + 1 < ordered.count ? ordered[index + 1].time : max(sleepEnd ?? 0, stage.time)
      guard next > stage.time, next - stage.time <= 14 * 3_600_000 else { continue }
      switch stage.level {
      case 2, 3, 4: gathering.add(.asleep, source, stage.time, next)
      case 1: gathering.add(.awake, source, stage.time, next)
      default: break
      }
    }
  }
}
