// covers, as health-apple: Sources/Health/Formats/AppleHealthReader.swift Sources/Health/Files/XMLScanner.swift Sources/Health/Gathering.swift
// covers, as health-fit: Sources/Health/Formats/FITReader.swift Sources/Health/Formats/FITDecoder.swift
// covers, as health-json: Sources/Health/Files/JSONElements.swift Sources/Health/Formats/FitbitReader.swift Sources/Health/Formats/GoogleFitReader.swift
// covers, as health-rows: Sources/Health/Files/CSVRows.swift Sources/Health/Formats/PlainReader.swift Sources/Health/Files/LocalTime.swift
// covers, as health-zip: Sources/Health/Files/ZipArchive.swift Sources/Health/Files/ZlibLibrary.swift Sources/Health/HealthFiles.swift
// covers, as health-database: Sources/Health/Files/SQLiteDatabase.swift Sources/Health/Formats/GadgetbridgeReader.swift Sources/Health/Formats/HealthConnectReader.swift
// covers, as health-index: Sources/Health/HealthIndex.swift
import Glibc
import Health
import System

private let zone = ZoneRules(named: "Europe/Berlin") ?? .utc
private let now: Int64 = 1_790_000_000_000
/// All that a device can have recorded, so that every record is looked at.
private let span: Range<Int64> = 0..<now

/// Apple's text, whole and in small pieces: where the pieces end must not matter.
@Sendable func fuzzHealthApple(_ bytes: UnsafeRawBufferPointer) { readInPieces("export.xml", bytes) }

@Sendable func fuzzHealthFIT(_ bytes: UnsafeRawBufferPointer) { readInPieces("a.fit", bytes) }

/// The first byte says which of the formats of JSON it is.
@Sendable func fuzzHealthJSON(_ bytes: UnsafeRawBufferPointer) {
  guard let first = bytes.first else { return }
  let names = [
    "steps-2026-05-01.json", "sleep-2026-05-01.json", "resting_heart_rate-2026-01-01.json", "exercise-0.json",
    "All Data/derived_com.google.step_count.delta_x.json", "All Sessions/2026-05-02T16_00_00_RUNNING.json",
    "plain.json",
  ]
  readInPieces(names[Int(first) % names.count], UnsafeRawBufferPointer(rebasing: bytes[1...]))
}

@Sendable func fuzzHealthRows(_ bytes: UnsafeRawBufferPointer) {
  guard let first = bytes.first else { return }
  let names = ["day.csv", "Daily activity metrics/2026-05-02.csv", "Activities/run.tcx"]
  readInPieces(names[Int(first) % names.count], UnsafeRawBufferPointer(rebasing: bytes[1...]))
}

/// Archives are read from disk, with all that lies in them.
@Sendable func fuzzHealthZip(_ bytes: UnsafeRawBufferPointer) { readFromDisk("export.zip", bytes) }

@Sendable func fuzzHealthDatabase(_ bytes: UnsafeRawBufferPointer) {
  guard let first = bytes.first else { return }
  readFromDisk(
    first & 1 == 0 ? "Gadgetbridge.db" : "health_connect_export.db", UnsafeRawBufferPointer(rebasing: bytes[1...]))
}

/// An index is read, written and read again as the same; or it is none.
@Sendable func fuzzHealthIndex(_ bytes: UnsafeRawBufferPointer) {
  guard let index = HealthIndex(bytes: [UInt8](bytes), zone: "Europe/Berlin") else { return }
  let written = index.encoded()
  guard let again = HealthIndex(bytes: written, zone: "Europe/Berlin") else { preconditionFailure("own index is none") }
  precondition(again.encoded() == written, "own index is read otherwise")
}

// MARK: What must hold

private func readInPieces(_ name: String, _ bytes: UnsafeRawBufferPointer) {
  func read(_ step: Int) -> FileEvidence {
    let input = HealthInput(name: name, size: nil) { () throws(HealthError) in Pieces(bytes, step) }
    let head = [UInt8](bytes.prefix(4096))
    let reader = HealthFormats.all.first { $0.recognizes(name, head: head) } ?? HealthFormats.all[0]
    let gathering = Gathering(span: span, now: now, zone: zone)
    var remarks: [Remark] = []
    do throws(HealthError) { try reader.read(input, into: gathering) } catch {
      precondition(!error.summary.isEmpty)
      remarks.append(Remark(.damage, error.description))
    }
    var evidence = gathering.evidence(file: name, format: reader.format)
    evidence.remarks += remarks
    return evidence
  }
  let whole = read(1 << 20)
  check([whole])
  let pieces = read(1 + bytes.count % 13)
  precondition(whole.records == pieces.records, "pieces are read otherwise")
  precondition(whole.remarks == pieces.remarks, "pieces are told otherwise: \(whole.remarks) \(pieces.remarks)")
}

/// An input that gives few bytes at a time.
private final class Pieces: ByteInput {
  private let bytes: UnsafeRawBufferPointer
  private let step: Int
  private var at = 0

  init(_ bytes: UnsafeRawBufferPointer, _ step: Int) {
    self.bytes = bytes
    self.step = step
  }

  func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
    let count = min(step, buffer.count, bytes.count - at)
    buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[at..<(at + count)]))
    at += count
    return count
  }
}

/// A folder of this process's own in memory.
private let folder: String = {
  let path = "/dev/shm/talknode-fuzz-\(getpid())"
  mkdir(path, 0o700)
  atexit { try? Files.removeTree("/dev/shm/talknode-fuzz-\(getpid())") }
  return path
}()

private func readFromDisk(_ name: String, _ bytes: UnsafeRawBufferPointer) {
  let path = folder + "/" + name
  let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
  precondition(descriptor >= 0 && write(descriptor, bytes.baseAddress, bytes.count) == bytes.count)
  close(descriptor)
  let files = HealthFiles(paths: [path], zone: zone, scratch: folder)
  guard let evidence = try? files.read(span: span, now: now) else { preconditionFailure("it was called off") }
  check(evidence)
  unlink(path)
  precondition(Files.list(folder).isEmpty, "something stays behind: \(Files.list(folder))")
}

private func check(_ evidence: [FileEvidence]) {
  for file in evidence {
    for record in file.records {
      precondition(record.start <= record.end && record.value.isFinite && Int(record.source) < file.sources.count)
      precondition(record.start >= 946_684_800_000 && record.start <= now + 86_400_000)
    }
    for remark in file.remarks {
      precondition(!remark.sentence.isEmpty && !remark.sentence.contains { $0.isNewline }, "no line: \(remark)")
    }
  }
  for date in [CivilDate(year: 2026, month: 5, day: 2)!, zone.date(at: now / 1000)] {
    let summary = DayReckoning(DayWindow(date, zone: zone, now: now), evidence).summary
    precondition(summary.stepCount ?? 0 >= 0 && (0...1500).contains(summary.sleepMinutes ?? 0))
    precondition((20...250).contains(summary.restingHeartRate ?? 60) && summary.workoutCount ?? 1 > 0)
    precondition((summary.workoutCount == nil) == (summary.workoutMinutes == nil))
  }
}
