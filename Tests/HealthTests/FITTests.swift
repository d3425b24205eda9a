import System
import TestSupport
import Testing

@testable import Health

/// A FIT file, written message by message.
struct FITText {
  private var body: [UInt8] = []
  private var sizes: [UInt8: [Int]] = [:]

  /// - Parameter type: of the file: 4 a workout, 32 a day.
  init(type: UInt64, serial: UInt64 = 77) {
    define(0, 0, [(0, 1, 0x00), (1, 2, 0x84), (3, 4, 0x8C)])
    message(0, [type, 1, serial])
  }

  mutating func define(_ local: UInt8, _ kind: UInt16, _ fields: [(number: UInt8, size: UInt8, type: UInt8)]) {
    body += [0x40 | local, 0, 0, UInt8(kind & 0xFF), UInt8(kind >> 8), UInt8(fields.count)]
    for field in fields { body += [field.number, field.size, field.type] }
    sizes[local] = fields.map { Int($0.size) }
  }

  mutating func message(_ local: UInt8, _ values: [UInt64]) {
    body.append(local)
    for (value, size) in zip(values, sizes[local]!) {
      for index in 0..<size { body.append(UInt8(truncatingIfNeeded: value >> UInt64(8 * index))) }
    }
  }

  /// Seconds as FIT counts them.
  static func seconds(_ milliseconds: Int64) -> UInt64 { UInt64(milliseconds / 1000 - 631_065_600) }

  var file: [UInt8] {
    let length = (0..<4).map { UInt8(truncatingIfNeeded: body.count >> (8 * $0)) }
    let bytes = [12, 0x10, 0xD0, 0x07] + length + Array(".FIT".utf8) + body
    let sum = bytes.reduce(UInt16(0)) { sum, byte in
      (0..<8).reduce(sum ^ UInt16(byte)) { sum, _ in sum & 1 == 1 ? (sum >> 1) ^ 0xA001 : sum >> 1 }
    }
    return bytes + [UInt8(sum & 0xFF), UInt8(sum >> 8)]
  }
}

@Suite("FIT files") struct FITTests {
  private func workout(elapsed: UInt64, timer: UInt64, type: UInt8) -> [UInt8] {
    var text = FITText(type: 4)
    text.define(1, 18, [(253, 4, 0x86), (2, 4, 0x86), (7, 8, type), (8, 8, type)])
    text.message(
      1, [FITText.seconds(at("2026-05-02 18:00")), FITText.seconds(at("2026-05-02 17:00")), elapsed, timer])
    return text.file
  }

  @Test("a workout's times are believed where a workout can last so long, however wide the file makes its numbers")
  func wideTimes() throws {
    for type in [UInt8(0x8E), 0x8F, 0x90] {
      let good = try gather(FITReader(), "a.fit", workout(elapsed: 4_200_000, timer: 3_000_000, type: type))
      #expect(good.records.map(\.value) == [50] && good.remarks.isEmpty, "\(good)")
      #expect(good.records.first.map { $0.end - $0.start } == 4_200_000)
      let absurd: [UInt64] = [
        .max - 1, UInt64(Int64.max) - 1, UInt64(bitPattern: .min), UInt64(bitPattern: -1) - 1, 14 * 86_400_000 + 1,
        1 << 60, 9_223_372_036_854_775_000,
      ]
      for value in absurd {
        for bytes in [
          workout(elapsed: value, timer: 3_000_000, type: type), workout(elapsed: 4_200_000, timer: value, type: type),
        ] {
          let evidence = try gather(FITReader(), "a.fit", bytes)
          #expect(evidence.records.isEmpty, "\(value) as \(type)")
          #expect(evidence.remarks.contains { $0.sentence.contains("values that can't be") }, "\(value) as \(type)")
        }
      }
    }
  }

  /// A day's count of steps, read at these times.
  private func monitoring(_ readings: [(String, UInt64)], zoneHours: Int64? = nil) -> [UInt8] {
    var text = FITText(type: 32)
    if let zoneHours {
      text.define(2, 103, [(253, 4, 0x86), (0, 4, 0x86)])
      let time = at(readings[0].0)
      text.message(2, [FITText.seconds(time), FITText.seconds(time + zoneHours * 3_600_000)])
    }
    text.define(1, 55, [(253, 4, 0x86), (5, 1, 0x00), (3, 4, 0x86)])
    for (time, count) in readings { text.message(1, [FITText.seconds(at(time)), 6, count]) }
    return text.file
  }

  private func steps(_ date: String, _ files: [UInt8]...) throws -> Int? {
    let evidence = try files.map { try gather(FITReader(), "a.fit", $0, now: "2026-12-01 00:00") }
    return DayReckoning(day(date), evidence).summary.stepCount
  }

  @Test(
    "a count of steps is a day's on days on which the clocks change, in one file or in several, with their zone or without"
  )
  func clockChanges() throws {
    for (date, before, after) in [("2026-10-25", 2, 1), ("2026-03-29", 1, 2)] as [(String, Int64, Int64)] {
      let first: [(String, UInt64)] = [("\(date) 01:00", 400), ("\(date) 01:50", 1500)]
      let second: [(String, UInt64)] = [("\(date) 07:00", 3000), ("\(date) 12:00", 6000), ("\(date) 22:00", 10_000)]
      #expect(try steps(date, monitoring(first + second)) == 10_000)
      #expect(try steps(date, monitoring(first), monitoring(second)) == 10_000)
      #expect(
        try steps(date, monitoring(first, zoneHours: before), monitoring(second, zoneHours: after)) == 10_000)
      #expect(try steps(date, monitoring(second, zoneHours: after)) == 10_000)
      #expect(try steps(CivilDate(date)!.adding(days: -1).description, monitoring(second, zoneHours: after)) == nil)
    }
  }

  @Test("a count at midnight itself is the last one of the day before")
  func countAtMidnight() throws {
    let file = monitoring([("2026-05-01 20:00", 5000), ("2026-05-02 00:00", 6000), ("2026-05-02 08:00", 700)])
    #expect(try steps("2026-05-01", file) == 6000 && steps("2026-05-02", file) == 700)
  }

  @Test("a device of another zone: the day's first reading is not all that it counted since its own midnight")
  func traveller() throws {
    let file = monitoring(
      [("2026-05-01 14:00", 3000), ("2026-05-01 23:50", 9000), ("2026-05-02 00:10", 9010)], zoneHours: -4)
    #expect(try steps("2026-05-01", file) == 9005 && steps("2026-05-02", file) == 5)
  }

  @Test("a small file of very many messages is held as far as there is room, and what is of other days not at all")
  func manyMessages() throws {
    func read(_ rate: UInt64, from date: String, limit: Int) throws -> FileEvidence {
      var text = FITText(type: 32)
      text.define(1, 55, [(253, 4, 0x86), (27, 1, 0x02), (5, 1, 0x00), (3, 4, 0x86)])
      text.define(2, 211, [(253, 4, 0x86), (1, 1, 0x02)])
      text.define(3, 275, [(253, 4, 0x86), (0, 1, 0x00)])
      let start = FITText.seconds(at(date + " 10:00"))
      for number in 0..<5000 as Range<UInt64> {
        text.message(1, [start + number, rate, 6, number])
        text.message(2, [start + number, rate])
        text.message(3, [start + number, 2])
      }
      let last = FITText.seconds(at("2026-05-02 11:59"))
      text.message(1, [last, rate, 6, 5000])
      let budget = RecordBudget(limit)
      let gathering = Gathering(
        span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"), zone: berlin,
        scratch: "/nowhere", budget: budget, isCancelled: { false })
      try FITReader().read(HealthInput(name: "a.fit", bytes: text.file), into: gathering)
      #expect(budget.left == limit - gathering.records.count)
      return gathering.evidence(file: "a.fit", format: "FIT")
    }
    let full = try read(60, from: "2026-05-02", limit: 1000)
    // The last level of sleep has no end.
    #expect(full.records.count == 999)
    #expect(full.remarks.contains { $0.sentence.hasSuffix("beyond what is kept of all files together.") })
    let other = try read(60, from: "2025-05-02", limit: 1000)
    #expect(other.records.count == 2 && other.remarks.isEmpty, "\(other.records.count) \(other.remarks)")
  }

  @Test("all numbers of all messages may be of 64 bits and any value")
  func anyNumbers() throws {
    var random = SeededRandom()
    let edges: [UInt64] = [0, 1, .max, .max - 1, 1 << 63, (1 << 63) - 2, 0xFFFF_FFFE, 0x1000_0000]
    for _ in 0..<60 {
      var text = FITText(type: random.below(2) == 0 ? 4 : 32)
      for kind in [18, 20, 21, 23, 34, 55, 103, 211, 275] as [UInt16] {
        text.define(
          1, kind, [253, 0, 1, 2, 3, 5, 7, 8, 10, 24, 26, 27].map { ($0, 8, [0x8E, 0x8F, 0x90][random.below(3)]) })
        for _ in 0..<3 {
          let now = FITText.seconds(at("2026-05-02 12:00"))
          text.message(
            1,
            (0..<12).map { index in
              if index == 0 || random.below(3) == 0 { return now + UInt64(random.below(86_400)) - 43_200 }
              return random.below(2) == 0 ? edges[random.below(edges.count)] : random.next()
            })
        }
      }
      let evidence = try gather(FITReader(), "a.fit", text.file)
      for record in evidence.records { #expect(record.end >= record.start, "seed \(random.seed)") }
      _ = DayReckoning(day("2026-05-02"), [evidence])
    }
  }
}
