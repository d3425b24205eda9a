import Glibc
import System

/// What need not be read twice, in one file beside the state (0600): of a long XML text where its days lie, of any other file what it told of the
/// last two weeks. Records and not sums, for those of several files are merged.
///
/// A file is known again by its inode, size and time of change; another one is read again. An index that is damaged is no index.
public struct HealthIndex: Sendable {
  enum Memory: Sendable, Equatable {
    /// No reader knows it.
    case nothing
    case blocks([BlockMap.Block])
    /// `since`: from when on, in milliseconds since 1970.
    case evidence([FileEvidence], since: Int64)
  }

  private struct Entry: Sendable, Equatable {
    let identity: FileIdentity
    let memory: Memory
  }

  let path: String
  private let zone: String
  private var entries: [String: Entry] = [:]
  private(set) var hasChanged = false

  private static let magic: [UInt8] = Array("TalkNode health index 1\n".utf8)
  private static let limit = 64 << 20

  /// Reads the file at `path`; empty when there is none, when it is damaged, or of another zone, for then days lie elsewhere.
  init(path: String, zone: String) {
    self.path = path
    self.zone = zone
    guard let bytes = try? Files.read(path, limit: HealthIndex.limit) else { return }
    entries = HealthIndex.decode(bytes, zone) ?? [:]
  }

  /// An index from its bytes; nil when they are none, or of another zone.
  public init?(bytes: [UInt8], zone: String) {
    guard let entries = HealthIndex.decode(bytes, zone) else { return nil }
    self.entries = entries
    self.zone = zone
    path = ""
  }

  func memory(of path: String, _ identity: FileIdentity) -> Memory? {
    guard let entry = entries[path], entry.identity == identity else { return nil }
    return entry.memory
  }

  mutating func remember(_ path: String, _ identity: FileIdentity, _ memory: Memory) {
    entries[path] = Entry(identity: identity, memory: memory)
    hasChanged = true
  }

  mutating func forget(except paths: Set<String>) {
    let before = entries.count
    entries = entries.filter { paths.contains($0.key) }
    if entries.count != before { hasChanged = true }
  }

  /// Keeps what is new. An index that can't be kept costs the next call its time, and is said in the log.
  func write() {
    if !hasChanged { return }
    let bytes = encoded()
    if bytes.count > HealthIndex.limit { return }
    do {
      if let slash = path.lastIndex(of: "/") { try Files.makeFolder(String(path[..<slash])) }
      try Files.writeAtomically(bytes, to: path)
    } catch {
      Log.once("health-index", .warning, "The index of the health files can't be kept: \(error.reason).")
    }
  }

  // MARK: Bytes

  /// As it stands in its file.
  public func encoded() -> [UInt8] {
    var writer = Writer(bytes: HealthIndex.magic)
    writer.text(zone)
    writer.number(UInt64(entries.count))
    for (path, entry) in entries.sorted(by: { $0.key < $1.key }) {
      writer.text(path)
      writer.number(entry.identity.device)
      writer.number(entry.identity.number)
      writer.signed(entry.identity.size)
      writer.signed(entry.identity.changed)
      switch entry.memory {
      case .nothing: writer.number(0)
      case .blocks(let blocks):
        writer.number(1)
        writer.number(UInt64(blocks.count))
        for block in blocks {
          writer.signed(block.start)
          writer.signed(block.end)
          writer.signed(Int64(block.from))
          writer.signed(Int64(block.to))
        }
      case .evidence(let evidence, let since):
        writer.number(2)
        writer.signed(since)
        writer.number(UInt64(evidence.count))
        for file in evidence { writer.evidence(file) }
      }
    }
    return writer.bytes
  }

  private static func decode(_ bytes: [UInt8], _ zone: String) -> [String: Entry]? {
    var reader = Reader(bytes: bytes)
    guard reader.take(magic), reader.text() == zone, let count = reader.count() else { return nil }
    var entries: [String: Entry] = [:]
    for _ in 0..<count {
      guard let path = reader.text(), let device = reader.number(), let number = reader.number(),
        let size = reader.signed(), let changed = reader.signed(), let kind = reader.number()
      else { return nil }
      let identity = FileIdentity(device: device, number: number, size: size, changed: changed)
      switch kind {
      case 0: entries[path] = Entry(identity: identity, memory: .nothing)
      case 1:
        guard let blocks = reader.blocks() else { return nil }
        entries[path] = Entry(identity: identity, memory: .blocks(blocks))
      case 2:
        guard let since = reader.signed(), let count = reader.count() else { return nil }
        var files: [FileEvidence] = []
        for _ in 0..<count {
          guard let file = reader.evidence() else { return nil }
          files.append(file)
        }
        entries[path] = Entry(identity: identity, memory: .evidence(files, since: since))
      default: return nil
      }
    }
    return reader.isAtEnd ? entries : nil
  }
}

/// Whole numbers of seven bits a byte, the smaller the shorter.
private struct Writer {
  var bytes: [UInt8]

  mutating func number(_ value: UInt64) {
    var value = value
    while value >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: value) | 0x80)
      value >>= 7
    }
    bytes.append(UInt8(value))
  }
  mutating func signed(_ value: Int64) { number(UInt64(bitPattern: value << 1 ^ value >> 63)) }
  mutating func text(_ text: String) {
    number(UInt64(text.utf8.count))
    bytes += Array(text.utf8)
  }

  mutating func evidence(_ file: FileEvidence) {
    text(file.file)
    text(file.format)
    number(UInt64(file.sources.count))
    for source in file.sources {
      text(source.name)
      text(source.family)
      number(UInt64(source.kind.rawValue))
      number(UInt64(source.preference))
    }
    number(UInt64(file.remarks.count))
    for remark in file.remarks {
      number(UInt64(remark.kind.rawValue))
      text(remark.sentence)
    }
    number(UInt64(file.records.count))
    var last: Int64 = 0
    for record in file.records {
      number(UInt64(record.kind.rawValue))
      number(UInt64(record.lane))
      number(UInt64(record.source))
      signed(record.start &- last)
      signed(record.end &- record.start)
      // A whole number is short that way; anything else has its bits.
      if let whole = Int64(exactly: record.value), abs(whole) < 1 << 40 {
        signed(whole << 1)
      } else {
        signed(1)
        number(record.value.bitPattern)
      }
      last = record.start
    }
  }
}

private struct Reader {
  let bytes: [UInt8]
  var at = 0

  init(bytes: [UInt8]) { self.bytes = bytes }
  var isAtEnd: Bool { at == bytes.count }

  mutating func take(_ expected: [UInt8]) -> Bool {
    guard bytes.starts(with: expected) else { return false }
    at = expected.count
    return true
  }

  mutating func number() -> UInt64? {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while at < bytes.count, shift < 64 {
      let byte = bytes[at]
      at += 1
      value |= UInt64(byte & 0x7F) << shift
      if byte & 0x80 == 0 { return value }
      shift += 7
    }
    return nil
  }
  mutating func signed() -> Int64? {
    number().map { Int64(bitPattern: $0 >> 1) ^ -Int64(bitPattern: $0 & 1) }
  }
  /// Of things that take at least a byte each.
  mutating func count() -> Int? {
    guard let number = number(), number <= UInt64(bytes.count - at) else { return nil }
    return Int(number)
  }
  mutating func text() -> String? {
    guard let count = count() else { return nil }
    defer { at += count }
    return String(validating: bytes[at..<(at + count)], as: UTF8.self)
  }

  mutating func blocks() -> [BlockMap.Block]? {
    guard let count = count() else { return nil }
    var blocks: [BlockMap.Block] = []
    blocks.reserveCapacity(count)
    for _ in 0..<count {
      guard let start = signed(), let end = signed(), let from = signed(), let to = signed(), start >= 0, end >= start
      else { return nil }
      blocks.append(.init(start: start, end: end, from: Int32(clamping: from), to: Int32(clamping: to)))
    }
    return blocks
  }

  mutating func evidence() -> FileEvidence? {
    guard let file = text(), let format = text(), let sources = count() else { return nil }
    var evidence = FileEvidence(file: file, format: format)
    for _ in 0..<sources {
      guard let name = text(), let family = text(), let kind = number(), let preference = number(),
        let kind = HealthSource.Kind(rawValue: UInt8(clamping: kind))
      else { return nil }
      evidence.sources.append(HealthSource(name, kind, family: family, preference: UInt8(clamping: preference)))
    }
    guard let remarks = count() else { return nil }
    for _ in 0..<remarks {
      guard let kind = number(), let kind = Remark.Kind(rawValue: UInt8(clamping: kind)), let sentence = text() else {
        return nil
      }
      evidence.remarks.append(Remark(kind, sentence))
    }
    return records(&evidence) ? evidence : nil
  }

  private mutating func records(_ evidence: inout FileEvidence) -> Bool {
    guard let count = count() else { return false }
    evidence.records.reserveCapacity(count)
    var last: Int64 = 0
    for _ in 0..<count {
      guard let kind = number(), let kind = HealthRecord.Kind(rawValue: UInt8(clamping: kind)), let lane = number(),
        let source = number(), source < evidence.sources.count, let start = signed(), let length = signed(),
        let first = signed()
      else { return false }
      var value = Double(first >> 1)
      if first & 1 == 1 {
        guard let bits = number() else { return false }
        value = Double(bitPattern: bits)
      }
      last = last &+ start
      guard length >= 0, length < 1 << 42, (-(1 << 50)...(1 << 50)).contains(last), abs(value) <= 500_000
      else { return false }
      evidence.records.append(
        HealthRecord(
          kind, source: UInt16(source), start: last, end: last + length, value: value, lane: UInt8(clamping: lane)))
    }
    return true
  }
}
