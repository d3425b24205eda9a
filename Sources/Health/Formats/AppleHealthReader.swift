import Glibc
import System

/// Apple Health's `export.xml`, which lies in an `export.zip`, under a name in the phone's language. Gigabytes of one element a measurement;
/// nearly all of them are none of ours and are stepped over.
struct AppleHealthReader: HealthReader {
  let format = "Apple Health"

  func recognizes(_ name: String, head: [UInt8]) -> Bool {
    guard name.lowercased().hasSuffix(".xml") else { return false }
    let text = String(decoding: head, as: UTF8.self)
    // The same archive's export_cda.xml is a clinical document and repeats all of it.
    return !text.contains("<ClinicalDocument")
      && (text.contains("<!DOCTYPE HealthData") || text.contains("<HealthData"))
  }

  func read(_ input: HealthInput, into gathering: Gathering) throws(HealthError) {
    var pass = Pass(gathering, input.blocks)
    guard let ranges = input.ranges else { return try pass.read(try input.open(), at: 0) }
    for range in ranges { try pass.read(try input.open(range), at: range.lowerBound) }
  }
}

/// One way through the text.
private struct Pass {
  private enum Element { case steps, sleep, resting, workout }

  private let gathering: Gathering
  private let blocks: BlockMap?
  private var isInCorrelation = false
  /// What sources are called in the text, with their device, and their number: records of one source mostly follow each other.
  private var known: [(name: [UInt8], device: [UInt8], index: UInt16)] = []

  init(_ gathering: Gathering, _ blocks: BlockMap?) {
    self.gathering = gathering
    self.blocks = blocks
  }

  mutating func read(_ bytes: any ByteInput, at offset: Int64) throws(HealthError) {
    let gathering = gathering
    let scanner = XMLScanner(
      BufferedInput(bytes, offset: offset) { () throws(HealthError) in try gathering.check() })
    isInCorrelation = false
    do throws(HealthError) {
      while try scanner.next(Pass.isWanted) { take(scanner) }
    } catch {
      // The part before an unpacking that fails holds, and where it ends is told.
      if let broken = scanner.broken { gathering.remark(.damage, "An element at byte \(broken) is broken.") }
      throw error
    }
    if let broken = scanner.broken {
      gathering.remark(.damage, "An element at byte \(broken) is broken or not ended; the others were read.")
    }
  }

  /// `<Record` of three types, `<Workout`, and what begins and ends a group that repeats records.
  @inline(__always)
  private static func isWanted(_ tag: UnsafePointer<UInt8>, _ count: Int) -> Bool {
    guard count > 13 else { return false }
    switch tag[1] {
    case 0x52:  // R
      guard memcmp(tag, "<Record", 7) == 0, tag[7] <= 0x20 else { return false }
      // The type comes first, as in `<Record type="HKQuantityTypeIdentifierStepCount"`; if not, it is looked for.
      guard count > 41, memcmp(tag + 8, "type=\"HK", 8) == 0 else { return true }
      // Step…, Slee…, Rest…
      return tag[38] == 0x53 ? tag[40] == 0x65 : tag[38] == 0x52 && tag[41] == 0x74
    case 0x57: return memcmp(tag, "<Workout", 8) == 0 && tag[8] <= 0x20
    case 0x43: return memcmp(tag, "<Correlation", 12) == 0 && tag[12] <= 0x20
    case 0x2F: return memcmp(tag, "</Correlation", 13) == 0 || memcmp(tag, "</HealthData", 12) == 0
    default: return false
    }
  }

  private mutating func take(_ scanner: XMLScanner) {
    let tag = scanner.tag
    switch tag[1] {
    case 0x43: isInCorrelation = tag[tag.count - 2] != 0x2F
    case 0x2F: isInCorrelation = false
    default: element(tag, scanner)
    }
  }

  private typealias Bytes = UnsafeBufferPointer<UInt8>

  private mutating func element(_ tag: Bytes, _ scanner: XMLScanner) {
    var element: Element? = tag[1] == 0x57 ? .workout : nil
    let none = Bytes(start: nil, count: 0)
    var (source, device, start, end, value, unit) = (none, none, none, none, none, none)
    XMLScanner.attributes(tag) { name, content in
      switch name.count {
      case 4:
        if name.equals("type") {
          if content.equals("HKQuantityTypeIdentifierStepCount") { element = .steps }
          if content.equals("HKCategoryTypeIdentifierSleepAnalysis") { element = .sleep }
          if content.equals("HKQuantityTypeIdentifierRestingHeartRate") { element = .resting }
        }
      case 5: if name.equals("value") { value = content }
      case 6: if name.equals("device") { device = content }
      case 7: if name.equals("endDate") { end = content }
      case 8: if name.equals("duration") { value = content }
      case 9: if name.equals("startDate") { start = content }
      case 10: if name.equals("sourceName") { source = content }
      case 12: if name.equals("durationUnit") { unit = content }
      default: break
      }
    }
    guard let element else { return }
    guard let from = AppleDate.milliseconds(start), let to = AppleDate.milliseconds(end) else {
      gathering.leaveOut(.absurdTime)
      return
    }
    if isInCorrelation { return gathering.leaveOut(.nested) }
    blocks?.note(scanner.tagPosition, scanner.tagEnd, from: min(from, to), to: max(from, to))
    // Before anything is made of it: most records are of other days.
    if to < gathering.kept.lowerBound || from >= gathering.kept.upperBound {
      gathering.add(.steps, 0, from, to)
      return
    }
    add(element, from, to, value, unit, self.index(source, device))
  }

  private func add(_ element: Element, _ from: Int64, _ to: Int64, _ value: Bytes, _ unit: Bytes, _ source: UInt16) {
    switch element {
    case .steps: gathering.add(.steps, source, from, to, value: number(value))
    case .resting: gathering.add(.resting, source, from, to, value: number(value))
    case .sleep:
      let text = String(decoding: value, as: UTF8.self)
      guard text.hasPrefix("HKCategoryValueSleepAnalysis") else { return }
      let stage = text.dropFirst("HKCategoryValueSleepAnalysis".count)
      // In bed is not asleep.
      if stage.hasPrefix("Asleep") { gathering.add(.asleep, source, from, to) }
      if stage == "Awake" { gathering.add(.awake, source, from, to) }
    case .workout:
      var minutes = Double(to - from) / 60_000
      if !value.isEmpty, case let duration = number(value), duration.isFinite {
        switch String(decoding: unit, as: UTF8.self) {
        case "min", "": minutes = duration
        case "s", "sec": minutes = duration / 60
        case "hr", "h": minutes = duration * 60
        default: break
        }
      }
      gathering.add(.workout, source, from, to, value: minutes)
    }
  }

  private func number(_ bytes: Bytes) -> Double {
    bytes.count > 32 ? .nan : Double(String(decoding: bytes, as: UTF8.self)) ?? .nan
  }

  private mutating func index(_ name: Bytes, _ device: Bytes) -> UInt16 {
    // The device's text begins with an address in memory that differs from record to record.
    let model = Bytes(rebasing: device.drop { $0 != 0x2C })
    for entry in known.reversed() where same(entry.name, name) && same(entry.device, model) { return entry.index }
    let decoded = XMLScanner.decode(model)
    let text = XMLScanner.decode(name)
    let kind: HealthSource.Kind =
      decoded.contains("Watch") ? .wearable : decoded.contains("iPhone") ? .phone : HealthSource.kind(of: text)
    let index = gathering.index(of: HealthSource(text, kind))
    if known.count > 64 { known.removeAll() }
    known.append((Array(name), Array(model), index))
    return index
  }

  private func same(_ left: [UInt8], _ right: Bytes) -> Bool {
    left.count == right.count && (left.isEmpty || memcmp(left, right.baseAddress!, left.count) == 0)
  }
}

/// `2026-05-02 07:11:00 +0200`
enum AppleDate {
  @inline(__always)
  static func milliseconds(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
    guard text.count == 25, text[4] == 0x2D, text[7] == 0x2D, text[10] == 0x20, text[13] == 0x3A, text[16] == 0x3A,
      text[19] == 0x20, text[20] == 0x2B || text[20] == 0x2D
    else { return nil }
    var isNumber = true
    func two(_ index: Int) -> Int {
      let tens = Int(text[index]) - 48
      let ones = Int(text[index + 1]) - 48
      if !(0...9).contains(tens) || !(0...9).contains(ones) { isNumber = false }
      return tens * 10 + ones
    }
    let year = two(0) * 100 + two(2)
    let (month, day, hour, minute, second) = (two(5), two(8), two(11), two(14), two(17))
    let offset = (two(21) * 60 + two(23)) * (text[20] == 0x2D ? -60 : 60)
    guard isNumber, (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60,
      year >= 1, abs(offset) <= 26 * 3600
    else { return nil }
    return Int64(CivilDate.number(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset) * 1000
  }
}
