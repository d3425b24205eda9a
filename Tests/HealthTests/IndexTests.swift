import Foundation
import System
import TestSupport
import Testing

@testable import Health

@Suite("the index") struct IndexTests {
  private let folder = TemporaryFolder()
  private var files: HealthFiles {
    HealthFiles(paths: [folder("files")], zone: berlin, index: folder("state/health.index"))
  }

  private func export(days: Int, from first: String = "2026-01-01", value: Int = 100) -> String {
    var text = "<?xml version=\"1.0\"?>\n<HealthData>\n"
    for number in 0..<days {
      let date = CivilDate(first)!.adding(days: number)
      for hour in 10..<20 {
        text +=
          #"<Record type="HKQuantityTypeIdentifierStepCount" sourceName="Watch" startDate="\#(date) \#(hour):00:00 +0200" endDate="\#(date) \#(hour):10:00 +0200" value="\#(value)"/>"#
          + "\n"
        // What a real one is full of.
        for minute in 10..<22 {
          text +=
            #"<Record type="HKQuantityTypeIdentifierHeartRate" sourceName="Watch" unit="count/min" startDate="\#(date) \#(hour):\#(minute):00 +0200" endDate="\#(date) \#(hour):\#(minute):00 +0200" value="61"/>"#
            + "\n"
        }
      }
    }
    return text + "</HealthData>\n"
  }

  private func read(_ date: String) throws -> (steps: Int?, isFromIndex: Bool) {
    let window = day(date)
    let evidence = try files.read(span: window.start..<window.end, now: at("2026-06-01 12:00"))
    return (DayReckoning(window, evidence).summary.stepCount, evidence.contains(where: \.isFromIndex))
  }

  @Test("a long XML text is read once; then any day of it is found where it lies")
  func blocks() throws {
    try folder.write("files/export.xml", export(days: 150))
    #expect(try read("2026-05-02") == (1000, false))
    #expect(
      try read("2026-05-02") == (1000, true) && read("2026-01-01") == (1000, true) && read("2026-05-30") == (1000, true)
    )
    #expect(try read("2025-12-01").steps == nil)
    // A few blocks around a day, and not all of it.
    let index = HealthIndex(path: folder("state/health.index"), zone: "Europe/Berlin")
    let path = folder("files/export.xml")
    guard case .blocks(let blocks)? = index.memory(of: path, FileIdentity(path: path)!) else {
      Issue.record("no blocks are remembered")
      return
    }
    let window = day("2026-05-02")
    let bytes = BlockMap.ranges(blocks, touching: window.start..<window.end).reduce(0) {
      $0 + $1.upperBound - $1.lowerBound
    }
    #expect(blocks.count > 20 && bytes < FileIdentity(path: path)!.size / 5)
  }

  @Test("a file that has changed is read again, and so is one that is replaced by another")
  func changes() throws {
    try folder.write("files/export.xml", export(days: 20, from: "2026-04-20"))
    try folder.write("files/day.csv", "kind,start,end,value,source\nsteps,2026-05-02T21:00,2026-05-02T22:00,7,Watch\n")
    #expect(try read("2026-05-02") == (1007, false))
    #expect(try read("2026-05-02") == (1007, true))
    try folder.write("files/export.xml", export(days: 21, from: "2026-04-20", value: 200))
    #expect(try read("2026-05-02").steps == 2007)
    try folder.write("files/new", export(days: 21, from: "2026-04-20", value: 300))
    #expect(rename(folder("files/new"), folder("files/export.xml")) == 0)
    #expect(try read("2026-05-02").steps == 3007)
    #expect(unlink(folder("files/export.xml")) == 0)
    #expect(try read("2026-05-02") == (7, true))
    #expect(unlink(folder("files/day.csv")) == 0)
    #expect(try read("2026-05-02").steps == nil)
  }

  @Test("a file that changes while it is read is read again; one that goes on changing says so, and is not remembered")
  func changesMeanwhile() throws {
    let row = "kind,start,end,value,source\nsteps,2026-05-02T21:00,2026-05-02T22:00,"
    try folder.write("files/day.csv", row + "1,Watch\n")
    let window = day("2026-05-02")
    let times = Lock(0)
    var files = files
    // Room for one telling of it: the first is no longer kept when the second is.
    files.recordLimit = 1
    func read(changing limit: Int) throws -> [FileEvidence] {
      times.withLock { $0 = 0 }
      let folder = folder
      return try files.read(span: window.start..<window.end, now: at("2026-06-01 12:00")) {
        let number = times.withLock { times in
          times += 1
          return times
        }
        // In the middle of it somebody writes another.
        if number <= limit {
          try? folder.write("files/day.csv", row + "\(number)000,Watch\n" + String(repeating: " ", count: number))
        }
        return false
      }
    }
    let settled = try read(changing: 3)
    #expect(settled.flatMap(\.records).map(\.value) == [3000], "\(settled)")
    let restless = try read(changing: .max)
    #expect(restless.flatMap(\.remarks).contains { $0.sentence.contains("being written just now") }, "\(restless)")
    // The next one reads it, for it was not remembered.
    #expect(try read(changing: 0).allSatisfy { !$0.isFromIndex })
    #expect(try read(changing: 0).contains { $0.isFromIndex })
  }

  @Test("records beyond what is kept of all files together are left out, which is told and not remembered")
  func budget() throws {
    for name in ["a", "b"] {
      let rows = (10..<18).map { "steps,2026-05-02T\($0):00,2026-05-02T\($0):30,1,\(name)\n" }.joined()
      try folder.write("files/\(name).csv", "kind,start,end,value,source\n" + rows)
    }
    let window = day("2026-05-02")
    func read(_ limit: Int) throws -> [FileEvidence] {
      var files = files
      files.recordLimit = limit
      return try files.read(span: window.start..<window.end, now: at("2026-06-01 12:00"))
    }
    let few = try read(10)
    #expect(few.map(\.records.count) == [8, 2])
    #expect(few[1].remarks.map(\.sentence) == ["Left out: 6 records beyond what is kept of all files together."])
    // What the index tells takes its room, too.
    let again = try read(10)
    #expect(again.map(\.isFromIndex) == [true, false] && again.map(\.records.count) == [8, 2])
    #expect(try read(1000).map(\.records.count) == [8, 8])
    #expect(try read(1000).map(\.isFromIndex) == [true, true])
  }

  @Test("an archive's last two weeks are remembered; a day before them is read from it")
  func archives() throws {
    try Files.makeFolder(folder("files"))
    let script = """
      import zipfile, sys
      with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('e/export.xml', sys.stdin.read())
      """
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", script, folder("files/export.zip")]
    let stdin = Pipe()
    process.standardInput = stdin
    try process.run()
    stdin.fileHandleForWriting.write(Data(export(days: 150).utf8))
    try stdin.fileHandleForWriting.close()
    process.waitUntilExit()
    #expect(try read("2026-05-30") == (1000, false))
    #expect(try read("2026-05-30") == (1000, true) && read("2026-05-20") == (1000, true))
    #expect(try read("2026-03-01") == (1000, false))
    // Its two weeks, and not all of its days.
    #expect(try #require(FileIdentity(path: folder("state/health.index"))).size < 20_000)
  }

  @Test("an index that is damaged, or of another zone, is none")
  func damaged() throws {
    try folder.write("files/day.csv", "kind,start,end,value,source\nsteps,2026-05-02T21:00,2026-05-02T22:00,7,Watch\n")
    #expect(try read("2026-05-02").isFromIndex == false && read("2026-05-02").isFromIndex)
    let whole = try Files.read(folder("state/health.index"))
    for round in 0..<whole.count {
      var bytes = Array(whole.prefix(round))
      if round % 2 == 1 {
        bytes = whole
        bytes[round] ^= 0x41
      }
      try Data(bytes).write(to: URL(fileURLWithPath: folder("state/health.index")))
      _ = try read("2026-05-02")
    }
    try Data(whole).write(to: URL(fileURLWithPath: folder("state/health.index")))
    let elsewhere = HealthFiles(paths: [folder("files")], zone: .utc, index: folder("state/health.index"))
    let evidence = try elsewhere.read(span: 0..<at("2026-06-01 00:00"), now: at("2026-06-01 00:00"))
    #expect(!evidence.contains { $0.isFromIndex })
  }

  @Test("what is written down is read as it was, whatever it is")
  func roundTrip() throws {
    var random = SeededRandom()
    for _ in 0..<50 {
      var index = HealthIndex(path: folder("none"), zone: "Europe/Berlin")
      var kept: [(String, FileIdentity, HealthIndex.Memory)] = []
      for number in 0..<random.below(5) {
        let identity = FileIdentity(
          device: random.next(), number: random.next(), size: Int64(random.below(1 << 40)),
          changed: Int64(bitPattern: random.next()))
        let sources = (0...random.below(3)).map {
          HealthSource("source \($0) ’", .phone, family: "f", preference: UInt8($0))
        }
        let records = (0..<random.below(40)).map { _ in
          let start = Int64(random.below(1 << 41))
          return HealthRecord(
            HealthRecord.Kind.allCases[random.below(HealthRecord.Kind.allCases.count)],
            source: UInt16(random.below(sources.count)),
            start: start, end: start + Int64(random.below(1 << 20)),
            value: random.below(2) == 0 ? Double(random.below(5000)) : Double(random.below(5000)) / 7,
            lane: UInt8(random.below(7)))
        }
        let memories: [HealthIndex.Memory] = [
          .nothing, .blocks([.init(start: 5, end: 900, from: -4, to: Int32.max)]),
          .evidence(
            [
              FileEvidence(
                file: "a: b", format: "x", sources: sources, records: records, remarks: [Remark(.note, "n.")])
            ], since: -77),
        ]
        let memory = memories[random.below(3)]
        index.remember("/path \(number)", identity, memory)
        kept.append(("/path \(number)", identity, memory))
      }
      let path = folder("index-\(random.next())")
      try Data(index.encoded()).write(to: URL(fileURLWithPath: path))
      let again = HealthIndex(path: path, zone: "Europe/Berlin")
      for (name, identity, memory) in kept {
        #expect(again.memory(of: name, identity) == memory, "seed \(random.seed)")
      }
    }
  }
}
