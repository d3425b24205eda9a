import System
import TestSupport
import Testing

@testable import Health

@Suite("a day's figures") struct DayReckoningTests {
  @Test("nobody recorded anything: everything is absent, nothing is 0")
  func nothing() { #expect(reckon("2026-05-02") { _ in }.summary.isEmpty) }

  @Test("steps of several devices over the same time are told by one; of one device they add")
  func stepsMerge() {
    let day = reckon("2026-05-02") { told in
      told.add(.steps, by: phone, "2026-05-02 07:00", "2026-05-02 08:00", 1000)
      told.add(.steps, by: watch, "2026-05-02 07:30", "2026-05-02 08:30", 1200)
      told.add(.steps, by: watch, "2026-05-02 08:00", "2026-05-02 08:10", 30)
    }
    // All of the watch, and the half of the phone's hour that the watch does not cover.
    #expect(day.summary.stepCount == 1730)
    #expect(day.explanation.contains("Steps: 500 by Phone; 500 more at times that others cover."))
  }

  @Test("a person's own order of devices counts before what is worn and what is carried")
  func priority() {
    func steps(_ priority: [String]) -> Int? {
      reckon("2026-05-02", priority: priority) { told in
        told.add(.steps, by: phone, "2026-05-02 07:00", "2026-05-02 08:00", 1000)
        told.add(.steps, by: watch, "2026-05-02 07:00", "2026-05-02 08:00", 1200)
        told.add(.steps, by: ring, "2026-05-02 07:00", "2026-05-02 08:00", 1100)
      }.summary.stepCount
    }
    // Both are worn: by name.
    #expect(steps([]) == 1100 && steps(["pho"]) == 1000 && steps(["wat", "phone"]) == 1200)
  }

  @Test("a record over midnight gives each day its share; one that ends at midnight is of the day before")
  func midnight() {
    let tell: (inout Told) -> Void = { told in
      told.add(.steps, by: watch, "2026-05-01 23:45", "2026-05-02 00:15", 300)
      told.add(.steps, by: watch, "2026-05-01 23:00", "2026-05-02 00:00", 40)
      told.add(.workout, by: watch, "2026-05-01 23:30", "2026-05-02 01:00", 90)
      told.add(.workout, by: watch, "2026-05-02 00:00", "2026-05-02 00:20", 20)
      told.add(.resting, by: watch, "2026-05-01 23:59", "2026-05-02 23:00", 70)
    }
    let first = reckon("2026-05-01", tell).summary
    let second = reckon("2026-05-02", tell).summary
    #expect(first.stepCount == 190 && second.stepCount == 150)
    // A workout and a heart rate are of the day in which they begin, a workout with all of its minutes.
    #expect(first.workoutCount == 1 && first.workoutMinutes == 90 && first.restingHeartRate == 70)
    #expect(second.workoutCount == 1 && second.workoutMinutes == 20 && second.restingHeartRate == nil)
    // Only what ends at midnight: the next day has nothing of it.
    #expect(
      reckon("2026-05-02") { $0.add(.steps, by: watch, "2026-05-01 23:00", "2026-05-02 00:00", 40) }.summary.isEmpty)
  }

  @Test("today ends now: what a record tells beyond it has not happened yet, what it counts has")
  func today() {
    let now = at("2026-05-02 12:00")
    let tell: (inout Told) -> Void = { told in
      told.add(.steps, by: watch, "2026-05-02 00:00", "2026-05-03 00:00", 4000)
      told.add(.steps, by: phone, "2026-05-02 13:00", "2026-05-02 14:00", 500)
      told.add(.asleep, by: watch, "2026-05-02 11:00", "2026-05-02 13:00")
    }
    let today = reckon("2026-05-02", now: now, tell)
    #expect(today.window.end == now && today.window.endISO == "2026-05-02T10:00:00Z")
    #expect(today.window.startISO == "2026-05-01T22:00:00Z")
    #expect(today.summary.stepCount == 4000 && today.summary.sleepMinutes == 60)
  }

  @Test("days on which the clocks change have what happened in their 23 or 25 hours")
  func clockChange() {
    let tell: (inout Told) -> Void = { told in
      // From 01:00 to 05:00 by the clocks is three hours in spring and five in autumn.
      told.add(.asleep, by: watch, "2026-03-29 01:00", "2026-03-29 05:00")
      told.add(.asleep, by: watch, "2026-10-25 01:00", "2026-10-25 05:00")
    }
    #expect(reckon("2026-03-29", tell).summary.sleepMinutes == 180)
    #expect(reckon("2026-10-25", tell).summary.sleepMinutes == 300)
    let around = reckon("2026-03-29") { $0.add(.steps, by: watch, "2026-03-28 12:00", "2026-03-30 12:00", 47 * 100) }
    // 47 hours from noon to noon, 23 of them on the day.
    #expect(around.summary.stepCount == 2300)
  }

  @Test("sleep is what somebody says is asleep, once; a night without stages counts, one with stages does not")
  func sleep() {
    let day = reckon("2026-05-02") { told in
      told.add(.night, by: watch, "2026-05-01 22:00", "2026-05-02 07:00")
      told.add(.asleep, by: watch, "2026-05-01 23:00", "2026-05-02 03:00")
      told.add(.awake, by: watch, "2026-05-02 03:00", "2026-05-02 04:00")
      told.add(.asleep, by: watch, "2026-05-02 04:00", "2026-05-02 06:00")
      told.add(.asleep, by: phone, "2026-05-02 05:00", "2026-05-02 06:30")
      told.add(.night, by: ring, "2026-05-02 13:00", "2026-05-02 13:30")
    }
    #expect(day.summary.sleepMinutes == 180 + 120 + 30 + 30)
    #expect(day.explanation.contains("Sleep: 60 min told twice counted once."))
    #expect(day.explanation.contains("Sleep: 1 night without stages counted as asleep."))
    // Stages that all lie in the day before are stages of the night nevertheless.
    let early = reckon("2026-05-02") { told in
      told.add(.night, by: watch, "2026-05-01 21:00", "2026-05-02 00:30")
      told.add(.asleep, by: watch, "2026-05-01 21:00", "2026-05-01 23:30")
    }
    #expect(early.summary.sleepMinutes == nil)
  }

  @Test("a night of which only some time awake is known counts as asleep but for that")
  func nightWithoutStages() {
    let day = reckon("2026-05-02") { told in
      told.add(.night, by: watch, "2026-05-01 22:00", "2026-05-02 07:00")
      told.add(.awake, by: watch, "2026-05-01 23:50", "2026-05-02 00:30")
      told.add(.awake, by: watch, "2026-05-02 03:00", "2026-05-02 03:20")
      told.add(.awake, by: watch, "2026-05-02 06:50", "2026-05-02 07:30")
      // What others say of it is their night.
      told.add(.awake, by: phone, "2026-05-02 04:00", "2026-05-02 05:00")
    }
    #expect(day.summary.sleepMinutes == 420 - 30 - 20 - 10)
    #expect(day.explanation.contains("Sleep: 1 night without stages counted as asleep."))
    // Awake from end to end is no sleep.
    let restless = reckon("2026-05-02") { told in
      told.add(.night, by: watch, "2026-05-02 01:00", "2026-05-02 02:00")
      told.add(.awake, by: watch, "2026-05-02 00:00", "2026-05-02 03:00")
    }
    #expect(restless.summary.sleepMinutes == nil)
  }

  @Test("a resting heart rate is the mean to a tenth; without one, the calmest half hour tells, if the person wants it")
  func heart() {
    let measured = reckon("2026-05-02") { told in
      for rate in [55.0, 56, 58] { told.add(.resting, by: watch, "2026-05-02 07:00", nil, rate) }
      told.add(.heartRate, by: watch, "2026-05-02 03:00", nil, 44)
    }
    #expect(measured.summary.restingHeartRate == 56.3)
    var told = Told()
    for minute in 0..<60 {
      told.add(.heartRate, by: watch, "2026-05-02 03:\(minute < 10 ? "0" : "")\(minute)", nil, minute < 30 ? 48.04 : 60)
    }
    #expect(DayReckoning(day("2026-05-02"), [told.evidence]).summary.restingHeartRate == 48)
    #expect(DayReckoning(day("2026-05-02"), [told.evidence], estimatesResting: false).summary.restingHeartRate == nil)
    // A few beats here and there are no half hour.
    told.evidence.records = told.evidence.records.filter { $0.start % 300_000 == 0 }
    #expect(DayReckoning(day("2026-05-02"), [told.evidence]).summary.restingHeartRate == nil)
  }

  @Test("a workout that two devices recorded is one; two that one device recorded are two")
  func workouts() {
    let day = reckon("2026-05-02") { told in
      told.add(.workout, by: watch, "2026-05-02 17:00", "2026-05-02 18:00", 55)
      told.add(.workout, by: phone, "2026-05-02 17:02", "2026-05-02 18:05", 63)
      told.add(.workout, by: watch, "2026-05-02 17:30", "2026-05-02 17:50", 20)
      told.add(.workout, by: phone, "2026-05-02 20:00", "2026-05-02 20:10", 10)
    }
    #expect(day.summary.workoutCount == 3 && day.summary.workoutMinutes == 85)
  }

  @Test("counters tell what came between two readings, in whatever file they stand, and begin again when they fall")
  func counters() {
    let midnight = "2026-05-02 00:00"
    let day = reckon("2026-05-02") { told in
      told.add(.counter, by: watch, midnight, "2026-05-02 20:00", 3000, lane: 6)
      told.add(.counter, by: watch, midnight, "2026-05-02 08:00", 1000, lane: 6)
      told.add(.counter, by: watch, midnight, "2026-05-02 12:00", 1500, lane: 6)
      told.add(.counter, by: watch, midnight, "2026-05-02 13:00", 200, lane: 6)
      told.add(.counter, by: watch, midnight, "2026-05-02 13:00", 70, lane: 1)
      told.add(.counter, by: watch, "2026-05-01 00:00", midnight, 9000, lane: 6)
      // Steps inside a workout's file are part of these.
      told.add(.workoutSteps, by: ring, "2026-05-02 08:00", "2026-05-02 09:00", 4000)
    }
    // 1000, 500, then a restart at 200, up to 3000; and 70 of the other lane at times that the first covers adds, for it is one source.
    #expect(day.summary.stepCount == 4570)
    #expect(day.explanation.contains { $0.contains("4000 inside workout files are left out") })
    let alone = reckon("2026-05-02") { $0.add(.workoutSteps, by: ring, "2026-05-02 08:00", "2026-05-02 09:00", 4000) }
    #expect(alone.summary.stepCount == 4000)
  }

  @Test(
    "a device's day is one counter, though its midnight is told otherwise after its clocks were changed or it travelled"
  )
  func countersOfOneDay() {
    func steps(_ date: String, _ starts: [String], _ values: [Double]) -> Int? {
      reckon(date) { told in
        for ((start, value), hour) in zip(zip(starts, values), ["03:30", "10:00", "20:00"]) {
          told.add(.counter, by: watch, start, "\(date) \(hour)", value, lane: 6)
        }
      }.summary.stepCount
    }
    let counts = [1500.0, 6000, 10_000]
    #expect(steps("2026-10-25", ["2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 01:00"], counts) == 10_000)
    #expect(steps("2026-03-29", ["2026-03-29 00:00", "2026-03-28 23:00", "2026-03-28 23:00"], counts) == 10_000)
    #expect(steps("2026-05-02", ["2026-05-02 00:00", "2026-05-01 18:00", "2026-05-01 18:00"], counts) == 10_000)
    // Six hours to the east the next midnight is 18 hours after the last: another day, and its count begins at 0.
    let east = reckon("2026-05-02") { told in
      told.add(.counter, by: watch, "2026-05-01 06:00", "2026-05-01 20:00", 9000)
      told.add(.counter, by: watch, "2026-05-02 00:00", "2026-05-02 12:00", 9500)
    }
    #expect(east.summary.stepCount == 9500)
  }

  @Test("where a device's midnight is not the zone's, the day has what came after the last reading before it")
  func countersAcrossMidnight() {
    let tell: (inout Told) -> Void = { told in
      let midnight = "2026-05-01 06:00"
      told.add(.counter, by: watch, midnight, "2026-05-01 14:00", 3000)
      told.add(.counter, by: watch, midnight, "2026-05-01 23:50", 9000)
      told.add(.counter, by: watch, midnight, "2026-05-02 00:10", 9010)
      told.add(.counter, by: watch, midnight, "2026-05-02 06:00", 9500)
      told.add(.counter, by: watch, "2026-05-02 06:00", "2026-05-02 12:00", 2000)
    }
    #expect(reckon("2026-05-01", tell).summary.stepCount == 9005)
    #expect(reckon("2026-05-02", tell).summary.stepCount == 5 + 490 + 2000)
  }

  @Test("of a family's tellings only the best counts on a day")
  func families() {
    let estimate = HealthSource("estimate", .phone, family: "fit", preference: 0)
    let raw = HealthSource("raw", .phone, family: "fit", preference: 2)
    let both = reckon("2026-05-02") { told in
      told.add(.steps, by: raw, "2026-05-02 07:00", "2026-05-02 09:00", 900)
      told.add(.steps, by: estimate, "2026-05-02 07:10", "2026-05-02 07:20", 400)
      told.add(.steps, by: raw, "2026-05-03 07:00", "2026-05-03 09:00", 900)
    }
    #expect(both.summary.stepCount == 400)
    #expect(
      reckon("2026-05-03") { $0.add(.steps, by: raw, "2026-05-03 07:00", "2026-05-03 09:00", 900) }.summary.stepCount
        == 900)
  }

  @Test("the same record in two files is one, twice in one file it is two")
  func repeats() {
    var one = Told("april.zip")
    one.add(.steps, by: watch, "2026-05-02 07:00", "2026-05-02 07:10", 100)
    var two = one
    two.evidence.file = "may.zip"
    two.add(.steps, by: watch, "2026-05-02 07:00", "2026-05-02 07:10", 100)
    let day = DayReckoning(day("2026-05-02"), [one.evidence, two.evidence])
    #expect(day.summary.stepCount == 200)
    #expect(day.explanation.contains("1 record found in several files counted once."))
  }

  @Test("the same day in any split into sources, files and orders comes to the same")
  func anySplit() {
    var random = SeededRandom()
    for round in 0..<300 {
      let whole = Scene(&random)
      let summary = DayReckoning(day("2026-05-02"), [whole.evidence([whole.records], &random)]).summary
      #expect(summary == whole.expected, "seed \(random.seed), round \(round)")
      for _ in 0..<4 {
        let files = whole.split(&random)
        let evidence = files.map { whole.evidence([$0], &random) }.shuffled(using: &random)
        let again = DayReckoning(day("2026-05-02"), evidence)
        #expect(again.summary == summary, "seed \(random.seed), round \(round): \(again.explanation)")
      }
    }
  }
}

/// A day of a person at random, whose figures are known from how it was made: pieces of time in a row, each with what happened in it.
private struct Scene {
  struct Piece {
    var kind: HealthRecord.Kind
    var start: Int64
    var end: Int64
    var value: Double
    /// nil = any.
    var source: Int?
  }
  var records: [Piece] = []
  var expected = DaySummary()
  let sources = [watch, ring, phone, HealthSource("App", .other), HealthSource("Other app", .other)]

  init(_ random: inout SeededRandom) {
    let (start, end) = (at("2026-05-02 00:00"), at("2026-05-03 00:00"))
    var time = at("2026-05-01 20:00")
    var steps = 0
    var asleep: Int64 = 0
    var rates: [Double] = []
    var minutes = 0
    while time < at("2026-05-03 04:00") {
      // Whole minutes that end at the midnights, so that shares are whole numbers too.
      var length = Int64(1 + random.below(90)) * 60_000
      for midnight in [start, end] where time < midnight && time + length > midnight { length = midnight - time }
      let isInDay = time >= start && time < end
      switch random.below(6) {
      case 0, 1:
        let count = 1 + random.below(3000)
        records.append(Piece(kind: .steps, start: time, end: time + length, value: Double(count), source: nil))
        if isInDay { steps += count }
      case 2:
        records.append(Piece(kind: .asleep, start: time, end: time + length, value: 0, source: nil))
        if isInDay { asleep += length }
      case 3:
        let rate = Double(45 + random.below(30))
        records.append(Piece(kind: .resting, start: time, end: time, value: rate, source: nil))
        if isInDay { rates.append(rate) }
      case 4:
        records.append(
          Piece(kind: .workout, start: time, end: time + length, value: Double(length / 60_000), source: nil))
        if isInDay {
          expected.workoutCount = (expected.workoutCount ?? 0) + 1
          minutes += Int(length / 60_000)
        }
      default: break
      }
      time += length
    }
    if steps > 0 { expected.stepCount = steps }
    if asleep > 0 { expected.sleepMinutes = Int(asleep / 60_000) }
    if !rates.isEmpty {
      expected.restingHeartRate = (rates.reduce(0, +) / Double(rates.count) * 10).rounded() / 10
    }
    if expected.workoutCount != nil { expected.workoutMinutes = minutes }
  }

  /// The same day in pieces: records of steps and sleep cut anywhere, sleep told by several, everything spread over sources and files, some of
  /// it in several files.
  func split(_ random: inout SeededRandom) -> [[Piece]] {
    var files = Array(repeating: [Piece](), count: 1 + random.below(5))
    for record in records {
      for piece in cut(record, &random) {
        var piece = piece
        piece.source = random.below(sources.count)
        files[random.below(files.count)].append(piece)
        // Another export holds the same record again.
        if random.below(3) == 0 {
          let other = random.below(files.count)
          if !files[other].contains(where: { $0.start == piece.start && $0.kind == piece.kind }) {
            files[other].append(piece)
          }
        }
        // What is asleep for one may be asleep for another too.
        if piece.kind == .asleep, random.below(3) == 0 {
          piece.source = random.below(sources.count)
          files[random.below(files.count)].append(piece)
        }
      }
    }
    return files
  }

  private func cut(_ piece: Piece, _ random: inout SeededRandom) -> [Piece] {
    let minutes = (piece.end - piece.start) / 60_000
    guard piece.kind == .steps || piece.kind == .asleep, minutes > 1, random.below(2) == 0 else { return [piece] }
    let place = piece.start + Int64(1 + random.below(Int(minutes) - 1)) * 60_000
    let count = Double(random.below(Int(piece.value) + 1))
    let left = Piece(kind: piece.kind, start: piece.start, end: place, value: count, source: nil)
    let right = Piece(kind: piece.kind, start: place, end: piece.end, value: piece.value - count, source: nil)
    return [left, right]
  }

  func evidence(_ lists: [[Piece]], _ random: inout SeededRandom) -> FileEvidence {
    let order = sources.shuffled(using: &random)
    let records = lists.joined().map { piece in
      HealthRecord(
        piece.kind, source: UInt16(order.firstIndex(of: sources[piece.source ?? 0])!), start: piece.start,
        end: piece.end,
        value: piece.value)
    }
    return FileEvidence(file: "f", format: "test", sources: order, records: records.shuffled(using: &random))
  }
}
