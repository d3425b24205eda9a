import Foundation
import System
import TestSupport
import Testing

@testable import Health

let berlin = ZoneRules(named: "Europe/Berlin")!

/// Milliseconds since 1970 of what the clocks in Berlin show: `2026-05-02 07:11`.
func at(_ text: String, zone: ZoneRules = berlin) -> Int64 { LocalTime.iso(text, zone: zone)! }

/// The day, seen from long after it.
func day(_ text: String, zone: ZoneRules = berlin, now: Int64? = nil) -> DayWindow {
  DayWindow(CivilDate(text)!, zone: zone, now: now ?? at("2027-01-01 00:00"))
}

/// Evidence of one file, written down record by record.
struct Told {
  var evidence: FileEvidence
  init(_ file: String = "file") { evidence = FileEvidence(file: file, format: "test") }

  mutating func add(
    _ kind: HealthRecord.Kind, by source: HealthSource, _ start: String, _ end: String? = nil, _ value: Double = 0,
    lane: UInt8 = 0
  ) {
    var index = evidence.sources.firstIndex(of: source)
    if index == nil {
      evidence.sources.append(source)
      index = evidence.sources.count - 1
    }
    evidence.records.append(
      HealthRecord(kind, source: UInt16(index!), start: at(start), end: at(end ?? start), value: value, lane: lane))
  }
}

let watch = HealthSource("Watch", .wearable)
let phone = HealthSource("Phone", .phone)
let ring = HealthSource("Ring", .wearable)

/// What `tell` tells about a day of Berlin.
func reckon(
  _ date: String, now: Int64? = nil, priority: [String] = [], _ tell: (inout Told) -> Void
) -> DayReckoning {
  var told = Told()
  tell(&told)
  return DayReckoning(day(date, now: now), [told.evidence], priority: SourcePriority(priority))
}

/// What a reader finds in bytes about all times up to now.
func gather(
  _ reader: some HealthReader, _ name: String, _ bytes: [UInt8], now: String = "2026-05-03 12:00"
) throws -> FileEvidence {
  let gathering = Gathering(span: at("2026-01-01 00:00")..<at(now), now: at(now), zone: berlin)
  do { try reader.read(HealthInput(name: name, bytes: bytes), into: gathering) } catch {
    gathering.remark(.damage, "\(error)")
  }
  return gathering.evidence(file: name, format: reader.format)
}

enum SampleFolder {
  static let path: String = {
    var folder = URL(fileURLWithPath: #filePath)
    for _ in 0..<3 { folder.deleteLastPathComponent() }
    return folder.path + "/samples/health"
  }()
}
