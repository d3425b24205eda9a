import Foundation
import System
import TestSupport
import Testing

@testable import Health

/// Readers against files that are damaged, hostile, huge or in the middle of a change.
@Suite("readers") struct ReaderTests {
  /// Every file of the samples, with a reader that knows it.
  static let samples: [String] = {
    let folder = FileManager.default.enumerator(atPath: SampleFolder.path)
    return (folder?.allObjects as? [String] ?? []).filter { $0.contains("/") && HealthFormats.mayBeOne($0) }.sorted()
  }()

  @Test("each sample is known by its name and first bytes, and by one format alone", arguments: samples)
  func recognized(_ name: String) throws {
    let bytes = try Files.read(SampleFolder.path + "/" + name)
    let readers = HealthFormats.all.filter { $0.recognizes(name, head: Array(bytes.prefix(4096))) }
    let isNone = ["export_cda.xml", "badge.json", "Daily activity metrics.csv"].contains { name.hasSuffix($0) }
    #expect(readers.count == (isNone || name.hasSuffix(".zip") ? 0 : 1), "\(readers.map(\.format))")
  }

  @Test(
    "a sample that is cut anywhere, or has a byte changed, is read as far as it goes and says what is wrong",
    arguments: samples)
  func damaged(_ name: String) throws {
    let bytes = try Files.read(SampleFolder.path + "/" + name)
    var random = SeededRandom()
    let folder = TemporaryFolder()
    let path = folder(name.split(separator: "/").last.map(String.init)!)
    for round in 0..<24 {
      var broken = bytes
      if round % 2 == 0 {
        broken = Array(bytes.prefix(random.below(bytes.count)))
      } else {
        for _ in 0...random.below(4) { broken[random.below(broken.count)] = UInt8(random.below(256)) }
      }
      try Data(broken).write(to: URL(fileURLWithPath: path))
      let evidence = try HealthFiles(paths: [folder.path], zone: berlin, scratch: folder.path).read(
        span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
      for remark in evidence.flatMap(\.remarks) { #expect(!remark.sentence.isEmpty && !remark.sentence.contains("\n")) }
      _ = DayReckoning(day("2026-05-02"), evidence)
      // Whatever was unpacked to be read has gone.
      #expect(Files.list(folder.path).count == 1, "seed \(random.seed), round \(round)")
    }
  }

  @Test("an Apple export that is cut short keeps what came before, and names the byte")
  func appleCut() throws {
    let text = """
      <HealthData><Record type="HKQuantityTypeIdentifierStepCount" sourceName="W" startDate="2026-05-02 07:00:00 +0200" \
      endDate="2026-05-02 07:10:00 +0200" value="500"/><Record type="HKQuantityTypeIdentifierStepCount" sourceName="W" startDate="2026-
      """
    let evidence = try gather(AppleHealthReader(), "export.xml", Array(text.utf8))
    #expect(evidence.records.map(\.value) == [500])
    let place =
      text.utf8.count - #"<Record type="HKQuantityTypeIdentifierStepCount" sourceName="W" startDate="2026-"#.utf8.count
    #expect(
      evidence.remarks.contains { $0.kind == .damage && $0.sentence.contains("byte \(place)") }, "\(evidence.remarks)")
  }

  @Test("elements that a comment or CDATA holds, or whose quotes are broken, do not take others with them")
  func appleMarkup() throws {
    func record(_ value: Int) -> String {
      #"<Record type="HKQuantityTypeIdentifierStepCount" sourceName='a > b' startDate="2026-05-02 07:0\#(value):00 +0200" endDate="2026-05-02 07:1\#(value):00 +0200" value="\#(value)"/>"#
    }
    let text =
      "<HealthData><!-- \(record(1)) --><![CDATA[ \(record(2)) ]]>" + record(3)
      + #"<Record type="HKQuantityTypeIdentifierStepCount value="5"/>"# + record(4) + "<!-- never ended " + record(6)
    let evidence = try gather(AppleHealthReader(), "export.xml", Array(text.utf8))
    #expect(evidence.records.map(\.value) == [3, 4, 6])
    #expect(evidence.sources.map(\.name) == ["a > b"])
  }

  @Test("many comments that do not end are looked through once for an end, and one that ends later is still one")
  func appleUnendedComments() throws {
    func record(_ value: Int) -> String {
      #"<Record type="HKQuantityTypeIdentifierStepCount" sourceName="W" startDate="2026-05-02 07:00:00 +0200" endDate="2026-05-02 07:10:00 +0200" value="\#(value)"/>"#
    }
    for mark in ["<!--", "<![CDATA["] {
      let end = mark == "<!--" ? "-->" : "]]>"
      // Far more than what is seen at once, in which no mark has an end.
      let many = String(repeating: mark + " ", count: 400_000)
      // In the other half of what is seen, an end is looked for again.
      let text =
        "<HealthData>" + record(1) + many + record(2) + String(repeating: " ", count: 300_000) + mark + record(3) + end
        + record(4) + "</HealthData>"
      let bytes = Array(text.utf8)
      let input = CountedInput(bytes)
      let gathering = Gathering(
        span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"), zone: berlin)
      try AppleHealthReader().read(
        HealthInput(name: "export.xml", size: nil) { () throws(HealthError) in input }, into: gathering)
      #expect(gathering.records.map(\.value) == [1, 2, 4], "\(mark)")
      // Looked through for each mark anew, the window would move on by a mark each time.
      #expect(input.reads < 100, "\(input.reads) reads")
    }
  }

  /// Bytes, and how often they were asked for.
  private final class CountedInput: ByteInput {
    private let inner: MemoryInput
    private(set) var reads = 0
    init(_ bytes: [UInt8]) { inner = MemoryInput(bytes) }
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
      reads += 1
      return try inner.read(into: buffer)
    }
  }

  @Test("an element of a megabyte, and one on every edge of what is in memory, are no trouble")
  func appleEdges() throws {
    let record = { (minute: Int) in
      #"<Record type="HKQuantityTypeIdentifierStepCount" sourceName="W" startDate="2026-05-02 07:00:00 +0200" endDate="2026-05-02 07:\#(10 + minute):00 +0200" value="1"/>"#
    }
    for padding in [0, 1, 63, 100, 200, 262_144 - 180, 262_144 - 64, 262_144 - 7, 262_143] {
      let text =
        "<HealthData>" + String(repeating: " ", count: padding) + record(1) + record(2)
        + "<Note x=\"" + String(repeating: "y", count: 1 << 20) + "\"/>" + record(3) + "</HealthData>"
      let evidence = try gather(AppleHealthReader(), "export.xml", Array(text.utf8))
      #expect(evidence.records.count == 3, "padding \(padding)")
    }
  }

  @Test("a zip is read in its old and wide forms, without its directory, stored or packed, and refused when encrypted")
  func zips() throws {
    let folder = TemporaryFolder()
    let script = """
      import zipfile, sys, os
      folder = sys.argv[1]
      text = 'kind,start,end,value\\nsteps,2026-05-02T07:00,2026-05-02T08:00,%d\\n'
      with zipfile.ZipFile(folder + '/stored.zip', 'w', zipfile.ZIP_STORED) as z: z.writestr('a.csv', text % 1)
      with zipfile.ZipFile(folder + '/packed.zip', 'w', zipfile.ZIP_DEFLATED) as z:
        z.writestr('x/', ''); z.writestr('x/a.csv', text % 2); z.writestr('x/notes.txt', 'none of ours')
      with zipfile.ZipFile(folder + '/wide.zip', 'w', zipfile.ZIP_DEFLATED) as z:
        with z.open('a.csv', 'w', force_zip64=True) as f: f.write((text % 3).encode())
      class Pipe:
        def __init__(self, f): self.f = f
        def write(self, b): return self.f.write(b)
        def flush(self): self.f.flush()
      with open(folder + '/streamed.zip', 'wb') as f:
        with zipfile.ZipFile(Pipe(f), 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a.csv', text % 4); z.writestr('b.csv', text % 5)
      whole = open(folder + '/streamed.zip', 'rb').read()
      open(folder + '/cut.zip', 'wb').write(whole[:whole.index(b'PK\\x01\\x02')])
      locked = bytearray(open(folder + '/stored.zip', 'rb').read())
      locked[6] |= 1; at = locked.index(b'PK\\x01\\x02'); locked[at + 8] |= 1
      open(folder + '/locked.zip', 'wb').write(locked)
      wrong = bytearray(open(folder + '/stored.zip', 'rb').read())
      wrong[wrong.index(b',1\\n') + 1] = ord('7')
      """
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", script, folder.path]
    try process.run()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    func told(_ name: String) throws -> (values: [Double], remarks: String) {
      let evidence = try HealthFiles(paths: [folder(name)], zone: berlin).read(
        span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
      return (evidence.flatMap(\.records).map(\.value), evidence.flatMap(\.remarks).map(\.sentence).joined())
    }
    #expect(try told("stored.zip").values == [1] && told("packed.zip").values == [2] && told("wide.zip").values == [3])
    #expect(try told("streamed.zip").values == [4, 5] && told("streamed.zip").remarks.isEmpty)
    let cut = try told("cut.zip")
    #expect(cut.values == [4, 5] && cut.remarks.contains("2 of its files were found without"), "\(cut)")
    #expect(try told("locked.zip").values == [] && told("locked.zip").remarks.contains("encrypted"))
  }

  @Test("folders are searched to their depth, links in a circle and pipes do no harm, a file under two names is one")
  func folders() throws {
    let folder = TemporaryFolder()
    let row = "kind,start,end,value\nsteps,2026-05-02T07:00,2026-05-02T08:00,7\n"
    try folder.write("a/b/c/day.csv", row)
    try folder.write("a/.trash/day.csv", row)
    try folder.write("a/big.bin", row)
    try FileManager.default.createSymbolicLink(atPath: folder("a/b/loop"), withDestinationPath: folder("a"))
    try FileManager.default.createSymbolicLink(
      atPath: folder("a/again.csv"), withDestinationPath: folder("a/b/c/day.csv"))
    #expect(mkfifo(folder("a/pipe.csv"), 0o600) == 0)
    let files = HealthFiles(paths: [folder("a"), folder("a/b/c/day.csv"), folder("gone")], zone: berlin)
    #expect(files.find().missing == [folder("gone")])
    let evidence = try files.read(span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
    #expect(evidence.flatMap(\.records).map(\.value) == [7])
    #expect(evidence.flatMap(\.remarks).map(\.sentence) == ["It is not there."])
  }

  @Test("nobody waits any more: reading ends at once")
  func cancelled() throws {
    #expect(throws: HealthError.cancelled) {
      try HealthFiles(paths: [SampleFolder.path], zone: berlin).read(span: 0..<1, now: 1, isCancelled: { true })
    }
  }

  @Test("JSON of any shape gives its objects one by one")
  func jsonShapes() throws {
    func objects(_ text: String, _ list: String = "records") throws -> ([String], [Remark]) {
      let gathering = Gathering(span: 0..<1, now: 1, zone: .utc)
      var found: [String] = []
      try JSONElements(MemoryInput(Array(text.utf8)), gathering, limit: 16 << 10).each(list: list) { element, header in
        found.append(element.text + (header["h"]?.string ?? ""))
      }
      return (found, gathering.evidence(file: "", format: "").remarks)
    }
    #expect(try objects(#"[{"a":1},{"a":[{"b":2}]}]"#).0 == [#"{"a":1}"#, #"{"a":[{"b":2}]}"#])
    #expect(try objects(#"{"h":"x","records":[{"a":"}]"},{"a":"\""}]}"#).0 == [#"{"a":"}]"}x"#, #"{"a":"\""}x"#])
    #expect(try objects("{\"a\":1}\n{\"a\":2}\n").0 == [#"{"a":1}"#, #"{"a":2}"#])
    #expect(try objects("[]").0 == [] && objects("").0 == [] && objects("{}").0 == ["{}"])
    // Longer than what is kept in memory, with the list in its middle, and cut short.
    let long =
      #"{"h":"y","n":[[1,{"z":2}]],"m":{"k":"]}"},"i":-1.5e3,"records":["#
      + (0..<3000).map { #"{"a":\#($0),"text":"some words"}"# }.joined(separator: ", ") + "]}"
    #expect(try objects(long).0.count == 3000 && objects(long).0.last == #"{"a":2999,"text":"some words"}y"#)
    let cut = try objects(String(long.prefix(90_000)))
    #expect(cut.0.count > 2500 && cut.1.contains { $0.sentence.contains("ends") })
    let damaged = try objects(#"[{"a":1},{"a":tru},{"a":3}]"#)
    #expect(damaged.0 == [#"{"a":1}"#, #"{"a":3}"#] && damaged.1.count == 1)
    // The same in an object, whose bad value may stand anywhere, and what follows it.
    for text in [
      #"{"h":"x","records":[{"a":1},{"a":tru},{"a":3}]}"#, #"{"n":nul,"h":"x","records":[{"a":1},{"a":3}]}"#,
      #"{"h":"x","records":[{"a":1},{"a":3}],"n":nul}"#, #"{"h":"x","records":[{"a":1},{"a":3}] "n":1}"#,
    ] {
      let (found, remarks) = try objects(text + #"{"records":[{"b":1}]}"#)
      #expect(found == [#"{"a":1}x"#, #"{"a":3}x"#, #"{"b":1}"#], "\(text)")
      #expect(!remarks.isEmpty && remarks.allSatisfy { $0.kind == .damage }, "\(text): \(remarks)")
    }
    let nameless = try objects(#"{"a" tru}{"a":2}"#)
    #expect(nameless.0 == [#"{"a":2}"#] && !nameless.1.isEmpty)
  }

  @Test("damaged text is read the same however it comes in pieces")
  func damagedInPieces() throws {
    var random = SeededRandom()
    let record = #"{"kind":"steps","start":"2026-05-02T07:00","end":"2026-05-02T08:00","value":7}"#
    let json = Array(#"{"source":"a","n":[1,{"x":"]"}],"records":[\#(record),\#(record)],"m":null} \#(record)"#.utf8)
    let tag =
      #"<Record type="HKQuantityTypeIdentifierStepCount" startDate="2026-05-02 07:00:00 +0200" endDate="2026-05-02 07:10:00 +0200" value="1"/>"#
    let xml = Array("<HealthData><!-- a -->\(tag)<!-- \(tag) --><![CDATA[\(tag)]]>\(tag)<!-- <![CDATA[ \(tag)".utf8)
    let signs = Array(#"{}[]",:\<>!-tn "#.utf8)
    for round in 0..<2000 {
      let isJSON = round % 2 == 0
      var bytes = isJSON ? json : xml
      for _ in 0...random.below(3) {
        let place = random.below(bytes.count)
        switch random.below(3) {
        case 0: bytes.remove(at: place)
        case 1: bytes[place] = signs[random.below(signs.count)]
        default: bytes.insert(signs[random.below(signs.count)], at: place)
        }
      }
      func read(_ step: Int) throws -> FileEvidence {
        let gathering = Gathering(
          span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"), zone: berlin)
        let reader: any HealthReader = isJSON ? PlainReader() : AppleHealthReader()
        let input = HealthInput(name: isJSON ? "a.json" : "export.xml", size: nil) { () throws(HealthError) in
          Pieces(bytes, step)
        }
        try reader.read(input, into: gathering)
        return gathering.evidence(file: "a", format: reader.format)
      }
      let whole = try read(1 << 20)
      let pieces = try read(1 + random.below(13))
      #expect(whole == pieces, "seed \(random.seed), round \(round): \(String(decoding: bytes, as: UTF8.self))")
    }
  }

  /// An input that gives few bytes at a time.
  private final class Pieces: ByteInput {
    private let bytes: [UInt8]
    private let step: Int
    private var at = 0
    init(_ bytes: [UInt8], _ step: Int) {
      self.bytes = bytes
      self.step = step
    }
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
      let count = min(step, buffer.count, bytes.count - at)
      bytes.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[at..<(at + count)])) }
      at += count
      return count
    }
  }

  @Test("rows of CSV: quotes, semicolons, a mark of byte order, a last line without an end")
  func csv() throws {
    func rows(_ text: String) throws -> [[String]] {
      var rows = CSVRows(MemoryInput(Array(text.utf8)), Gathering(span: 0..<1, now: 1, zone: .utc))
      var found: [[String]] = []
      while let row = try rows.next() { found.append(row) }
      return found
    }
    #expect(try rows("\u{FEFF}a,b\r\n\"x, y\n z\", 2 \n\n3,\"4\"") == [["a", "b"], ["x, y\n z", "2"], ["3", "4"]])
    #expect(try rows("a;b\n1,5;2") == [["a", "b"], ["1,5", "2"]])
    #expect(try rows(String(repeating: "x", count: 200_000) + "\n").count >= 1)
  }

  @Test("times as people write them")
  func times() {
    let expected = at("2026-05-02 07:11")
    for text in [
      "2026-05-02T07:11", "2026-05-02 07:11:00", "2026-05-02T05:11Z", "2026-05-02T05:11:00.000Z",
      "2026-05-02T07:11:00+02:00",
      "2026-05-02T07:11:00+0200", "2026-05-02T01:11-04", "2026-05-02T10:41:00,000+05:30",
    ] { #expect(LocalTime.iso(text, zone: berlin) == expected, "\(text)") }
    for text in [
      "2026-05-02", "2026-05-02T24:00", "2026-05-02T7:11", "2026-05-02T07:11+2", "2026-05-02T07:11:00.Z", "x",
      "2026-02-30T01:00",
    ] {
      #expect(LocalTime.iso(text, zone: berlin) == nil, "\(text)")
    }
  }
}
