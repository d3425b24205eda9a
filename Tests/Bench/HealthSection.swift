import Glibc
import Health
import System

/// The health files: how fast long exports are read, in how much memory, and what the index saves. Each reading is a process of its own, so
/// that memory is its own too.
extension Section {
  static let health = Section(name: "health") { options in
    let folder = try ExportFolder()
    defer { folder.remove() }
    var figures = try apple(options, folder)
    figures += try smaller(options, folder)
    return figures
  }

  // MARK: Apple

  private static func apple(_ options: Options, _ folder: ExportFolder) throws -> [Figure] {
    let megabytes = options.isQuick ? 100 : 1000
    let path = folder("export.xml")
    try AppleExport.write(to: path, bytes: megabytes * 1_000_000)
    let size = Double(megabytes)
    // Python first: by then the file is in memory for all of them.
    let python = try HealthProcess.python(iterparse, [path])
    let sax = try? HealthProcess.seconds("xmllint", ["--sax", "--noout", "--huge", path])
    var seconds = Samples()
    var memory = Samples()
    for _ in 0..<max(3, options.times(5)) {
      let reading = try HealthProcess.read(path, index: nil)
      seconds.add(reading.cpuSeconds)
      memory.add(reading.megabytes)
    }
    var figures = [
      Figure(
        "Apple export of \(megabytes) MB, one core", unit: "MB/s", value: size / seconds.median, target: .atLeast(300),
        comparison: ("Python iterparse", size / python)),
      Figure(
        "… beside libxml2's SAX parser alone", unit: "MB/s", value: size / seconds.median,
        comparison: sax.map { ("xmllint --sax", size / $0) }, problem: sax == nil ? "xmllint is not installed" : nil),
      Figure("… peak memory", unit: "MB", value: memory.quantile(0.99), target: .atMost(40)),
    ]
    let index = folder("health.index")
    _ = try HealthProcess.read(path, index: index)
    var again = Samples()
    for _ in 0..<options.times(20) { again.add(try HealthProcess.read(path, index: index).milliseconds) }
    figures.append(
      Figure(
        "… again, by the index", unit: "ms", value: again.median, target: .atMost(20),
        note: "index of \(FileFacts.size(index) / 1000) kB"))
    let zip = folder("export.zip")
    try HealthProcess.run(pack, [path, zip])
    unlink(path)
    let packed = try HealthProcess.read(zip, index: nil)
    figures.append(
      Figure(
        "the same in its zip, of what is unpacked", unit: "MB/s", value: size / packed.cpuSeconds,
        note: "\(FileFacts.size(zip) / 1_000_000) MB packed, \(Int(packed.megabytes)) MB of memory"))
    unlink(index)
    _ = try HealthProcess.read(zip, index: index)
    var zipAgain = Samples()
    for _ in 0..<options.times(20) { zipAgain.add(try HealthProcess.read(zip, index: index).milliseconds) }
    figures.append(Figure("… again, by the index", unit: "ms", value: zipAgain.median, target: .atMost(20)))
    unlink(zip)
    return figures
  }

  private static let iterparse = """
    import sys, time, xml.etree.ElementTree as tree
    start, steps = time.process_time(), 0
    events = tree.iterparse(sys.argv[1], ("start", "end"))
    _, root = next(events)
    for event, element in events:
      if event == "end":
        if element.tag == "Record" and element.get("type") == "HKQuantityTypeIdentifierStepCount": steps += 1
        root.clear()
    print(time.process_time() - start)
    """

  private static let pack = """
    import sys, zipfile
    with zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED) as archive: archive.write(sys.argv[1], "apple_health_export/export.xml")
    """

  // MARK: Others

  private static func smaller(_ options: Options, _ folder: ExportFolder) throws -> [Figure] {
    let fit = folder("ride.fit")
    try Files.writeAtomically(FITRecording.bytes(of: 10_000_000), to: fit)
    var fitTime = Samples()
    for _ in 0..<options.times(10) { fitTime.add(try HealthProcess.read(fit, index: nil).milliseconds) }
    unlink(fit)
    let rows = options.isQuick ? 100_000 : 1_000_000
    let database = folder("Gadgetbridge.db")
    try HealthProcess.run(band, [database, "\(rows)"])
    var bandTime = Samples()
    var memory = 0.0
    for _ in 0..<options.times(10) {
      let reading = try HealthProcess.read(database, index: nil)
      bandTime.add(reading.milliseconds)
      memory = max(memory, reading.megabytes)
    }
    return [
      Figure(
        "FIT recording of 10 MB", unit: "ms", value: fitTime.median, note: "\(Int(10_000 / fitTime.median)) MB/s"),
      Figure(
        "Gadgetbridge, \(rows) rows", unit: "ms", value: bandTime.median, note: "\(Int(memory)) MB of memory"),
    ]
  }

  /// A sample a minute, back from now.
  private static let band = """
    import sqlite3, sys, time
    base = sqlite3.connect(sys.argv[1])
    base.execute("CREATE TABLE DEVICE (_id INTEGER PRIMARY KEY, NAME TEXT)")
    base.execute("INSERT INTO DEVICE VALUES (1, 'Band')")
    base.execute("CREATE TABLE MI_BAND_ACTIVITY_SAMPLE (TIMESTAMP INTEGER NOT NULL, DEVICE_ID INTEGER NOT NULL, USER_ID INTEGER NOT NULL, "
      "RAW_INTENSITY INTEGER NOT NULL, STEPS INTEGER NOT NULL, RAW_KIND INTEGER NOT NULL, HEART_RATE INTEGER NOT NULL, "
      "PRIMARY KEY (TIMESTAMP, DEVICE_ID) ON CONFLICT REPLACE) WITHOUT ROWID")
    now, count = int(time.time()) // 60 * 60, int(sys.argv[2])
    base.executemany("INSERT INTO MI_BAND_ACTIVITY_SAMPLE VALUES (?, 1, 1, 20, ?, 1, 60)",
      ((now - 60 * (count - number), number % 40) for number in range(count)))
    base.commit()
    """
}

/// A reading in another process.
struct HealthProcess {
  let milliseconds: Double
  let cpuSeconds: Double
  let megabytes: Double

  /// The other end: reads today's figures of a file and prints what it took.
  static func play(_ arguments: [String]) throws {
    let files = HealthFiles(
      paths: [arguments[0]], zone: .machine(variable: nil), index: arguments[1].isEmpty ? nil : arguments[1])
    let now = WallClock.milliseconds()
    let window = DayWindow.today(zone: files.zone, now: now)
    let start = Monotonic.now()
    let evidence = try files.read(span: window.start..<max(window.end, window.start + 1), now: now)
    let summary = DayReckoning(window, evidence).summary
    let time = (Monotonic.now() - start).milliseconds
    guard evidence.contains(where: { $0.format != "none" }),
      evidence.flatMap(\.remarks).allSatisfy({ $0.kind != .damage })
    else { throw BenchError("not read: \(evidence.flatMap(\.remarks))") }
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }
    // Not of rusage: that counts what the parent had at the fork.
    let peak = Machine.field("VmHWM", in: Files.text("/proc/self/status") ?? "").flatMap {
      Double($0.split(separator: " ")[0])
    }
    let line =
      "\(time) \(seconds(usage.ru_utime) + seconds(usage.ru_stime)) \((peak ?? 0) * 1.024 / 1000) \(summary.stepCount ?? 0)\n"
    try Files.write(Array(line.utf8), to: STDOUT_FILENO, named: "stdout")
  }

  static func read(_ path: String, index: String?) throws -> HealthProcess {
    let child = try Child("/proc/self/exe", [Part.health.rawValue, path, index ?? ""], readsOutput: true)
    let line = child.readLine() ?? ""
    let numbers = line.split(separator: " ").compactMap { Double($0) }
    guard child.wait() == 0, numbers.count == 4 else { throw BenchError("the reading of \(path) failed: \(line)") }
    return HealthProcess(milliseconds: numbers[0], cpuSeconds: numbers[1], megabytes: numbers[2])
  }

  /// What a Python program prints.
  static func python(_ program: String, _ arguments: [String]) throws -> Double {
    let child = try Child("python3", ["-c", program] + arguments, readsOutput: true)
    let line = child.readLine() ?? ""
    guard child.wait() == 0, let value = Double(line) else { throw BenchError("Python failed") }
    return value
  }

  static func run(_ program: String, _ arguments: [String]) throws {
    guard try Child("python3", ["-c", program] + arguments).wait() == 0 else { throw BenchError("Python failed") }
  }

  /// Processor time of a program from start to end.
  static func seconds(_ program: String, _ arguments: [String]) throws -> Double {
    var before = rusage()
    getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &before)
    guard try Child(program, arguments).wait() == 0 else { throw BenchError("\(program) failed") }
    var after = rusage()
    getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &after)
    func total(_ usage: rusage) -> Double {
      Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec)
        / 1e6
    }
    return total(after) - total(before)
  }
}

enum FileFacts {
  static func size(_ path: String) -> Int {
    var status = stat()
    return stat(path, &status) == 0 ? Int(status.st_size) : 0
  }
}

/// A folder on disk for the long files.
struct ExportFolder {
  private let path: String

  init() throws { path = try Files.makeTemporaryFolder("talknode-bench", in: "/var/tmp") }

  func callAsFunction(_ name: String) -> String { path + "/" + name }
  func remove() { try? Files.removeTree(path) }
}

/// An export as a phone with a watch writes it, ending today: kind by kind, most of it heart rates and energies, each kind in the order of time.
enum AppleExport {
  static func write(to path: String, bytes: Int) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    if descriptor < 0 { throw BenchError("can't write \(path)") }
    defer { close(descriptor) }
    var writer = Writer(descriptor: descriptor)
    writer.text(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE HealthData [\n<!ELEMENT HealthData (Record*)>\n]>\n<HealthData locale=\"en_GB\">\n"
    )
    let kinds: [(name: String, unit: String, share: Double)] = [
      ("QuantityTypeIdentifierHeartRate", "count/min", 0.32),
      ("QuantityTypeIdentifierActiveEnergyBurned", "kcal", 0.34),
      ("QuantityTypeIdentifierStepCount", "count", 0.12), ("QuantityTypeIdentifierDistanceWalkingRunning", "km", 0.12),
      ("CategoryTypeIdentifierSleepAnalysis", "", 0.03), ("QuantityTypeIdentifierRestingHeartRate", "count/min", 0.005),
      ("QuantityTypeIdentifierBasalEnergyBurned", "kcal", 0.065),
    ]
    for kind in kinds {
      let count = Int(Double(bytes) * kind.share / 390)
      try records(kind.name, kind.unit, count, &writer)
    }
    writer.text("</HealthData>\n")
    try writer.flush()
  }

  private static func records(_ kind: String, _ unit: String, _ count: Int, _ writer: inout Writer) throws {
    // Over three years up to now.
    let end = WallClock.milliseconds() / 1000
    let step = max(1, 3 * 365 * 86_400 / count)
    var date = ""
    var day = Int64.min
    for number in 0..<count {
      let time = end - Int64((count - number) * step)
      if time / 86_400 != day {
        day = time / 86_400
        date = CivilDate(number: Int(day)).description
      }
      let clock = Int(time % 86_400)
      func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
      let stamp = "\(date) \(two(clock / 3600)):\(two(clock / 60 % 60)):\(two(clock % 60)) +0000"
      let value = unit.isEmpty ? "HKCategoryValueSleepAnalysisAsleepCore" : "\(40 + number % 60)"
      writer.text(
        " <Record type=\"HK\(kind)\" sourceName=\"Anna’s Apple\u{A0}Watch\" sourceVersion=\"10.4\" device=\"&lt;&lt;HKDevice: 0x2817d\(number % 9000 + 1000)&gt;, "
          + "name:Apple Watch, manufacturer:Apple Inc., model:Watch, hardware:Watch6,2, software:10.4&gt;\" unit=\"\(unit)\" "
          + "creationDate=\"\(stamp)\" startDate=\"\(stamp)\" endDate=\"\(stamp)\" value=\"\(value)\"/>\n")
      try writer.flushIfFull()
    }
  }

  private struct Writer {
    let descriptor: Int32
    var buffer: [UInt8] = []

    mutating func text(_ text: String) { buffer += Array(text.utf8) }
    mutating func flushIfFull() throws { if buffer.count > 1 << 20 { try flush() } }
    mutating func flush() throws {
      try Files.write(buffer, to: descriptor, named: "the export")
      buffer.removeAll(keepingCapacity: true)
    }
  }
}

/// A ride of some days, a record a second, with its session at the end.
enum FITRecording {
  static func bytes(of size: Int) -> [UInt8] {
    var body: [UInt8] = []
    body.reserveCapacity(size + 100)
    func little(_ value: UInt32, _ count: Int = 4) {
      for index in 0..<count { body.append(UInt8(truncatingIfNeeded: value >> UInt32(index * 8))) }
    }
    let start = UInt32(WallClock.milliseconds() / 1000 - 631_065_600) - 1800
    body += [0x40, 0, 0, 0, 0, 1, 0, 1, 0x00, 0x00, 4]
    body += [0x41, 0, 0, 20, 0, 5, 253, 4, 0x86, 0, 4, 0x85, 1, 4, 0x85, 3, 1, 0x02, 6, 2, 0x84]
    var number: UInt32 = 0
    while body.count < size {
      body.append(1)
      little(start + number / 1000)
      little(500_000_000 + number)
      little(100_000_000 + number)
      body.append(UInt8(100 + number % 60))
      little(5000 + number % 1000, 2)
      number += 1
    }
    body += [0x42, 0, 0, 18, 0, 4, 253, 4, 0x86, 2, 4, 0x86, 7, 4, 0x86, 8, 4, 0x86, 2]
    little(start + 1800)
    little(start)
    little(1_800_000)
    little(1_700_000)
    var file: [UInt8] = [14, 0x20, 0x54, 0x08]
    for index in 0..<4 { file.append(UInt8(truncatingIfNeeded: body.count >> (index * 8))) }
    file += Array(".FIT".utf8) + [0, 0] + body
    let sum = checksum(file)
    return file + [UInt8(truncatingIfNeeded: sum), UInt8(sum >> 8)]
  }

  private static func checksum(_ bytes: [UInt8]) -> UInt16 {
    var sum: UInt16 = 0
    for byte in bytes {
      sum ^= UInt16(byte)
      for _ in 0..<8 { sum = sum & 1 == 1 ? (sum >> 1) ^ 0xA001 : sum >> 1 }
    }
    return sum
  }
}
