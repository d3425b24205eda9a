import Glibc

extension ZoneRules {
  /// Reads a TZif file of version 1 to 4. Total: any bytes end in rules or in a `Damage`.
  public init(tzif bytes: [UInt8], identifier: String) throws(Damage) {
    var reader = TZifReader(bytes: bytes)
    let first = try reader.header()
    if first.version < 2 {
      try self.init(reader: &reader, header: first, wide: false, identifier: identifier, footer: false)
    } else {
      try reader.skip(first.size(wide: false))
      let second = try reader.header()
      try self.init(reader: &reader, header: second, wide: true, identifier: identifier, footer: true)
    }
  }

  private init(
    reader: inout TZifReader, header: TZifReader.Header, wide: Bool, identifier: String, footer: Bool
  ) throws(Damage) {
    guard header.types > 0 else { throw Damage(reason: "it has no type of local time") }
    var transitions: [Int64] = []
    transitions.reserveCapacity(header.times)
    for _ in 0..<header.times {
      let time = wide ? Int64(bitPattern: try reader.big(8)) : Int64(Int32(truncatingIfNeeded: try reader.big(4)))
      if let last = transitions.last, time <= last { throw Damage(reason: "its changes are out of order") }
      transitions.append(time)
    }
    var indices: [Int] = []
    for _ in 0..<header.times { indices.append(Int(try reader.big(1))) }
    var types: [Int32] = []
    for _ in 0..<header.types {
      let offset = Int32(truncatingIfNeeded: try reader.big(4))
      guard abs(Int64(offset)) <= 26 * 3600 else { throw Damage(reason: "it is more than 26 hours from UTC") }
      types.append(offset)
      _ = try reader.big(2)
    }
    var offsets: [Int32] = []
    for index in indices {
      guard types.indices.contains(index) else { throw Damage(reason: "a change names a type that it lacks") }
      offsets.append(types[index])
    }
    try reader.skip(header.sizeAfterTypes(wide: wide))
    self.init(
      identifier: identifier, transitions: transitions, offsets: offsets, firstOffset: types[0],
      rule: footer ? reader.footer().flatMap { ZoneRule($0) } : nil)
  }
}

private struct TZifReader {
  struct Header {
    let version: Int
    let utIndicators: Int
    let standardIndicators: Int
    let leaps: Int
    let times: Int
    let types: Int
    let characters: Int

    func sizeAfterTypes(wide: Bool) -> Int {
      characters + leaps * (wide ? 12 : 8) + standardIndicators + utIndicators
    }
    func size(wide: Bool) -> Int { times * (wide ? 9 : 5) + types * 6 + sizeAfterTypes(wide: wide) }
  }

  let bytes: [UInt8]
  var at = 0

  init(bytes: [UInt8]) { self.bytes = bytes }

  mutating func big(_ count: Int) throws(ZoneRules.Damage) -> UInt64 {
    guard bytes.count - at >= count else { throw ZoneRules.Damage(reason: "it ends early") }
    var value: UInt64 = 0
    for _ in 0..<count {
      value = value << 8 | UInt64(bytes[at])
      at += 1
    }
    return value
  }

  mutating func skip(_ count: Int) throws(ZoneRules.Damage) {
    guard count >= 0, bytes.count - at >= count else { throw ZoneRules.Damage(reason: "it ends early") }
    at += count
  }

  mutating func header() throws(ZoneRules.Damage) -> Header {
    guard try big(4) == 0x545A_6966 else { throw ZoneRules.Damage(reason: "it does not begin as TZif files do") }
    let version = Int(try big(1))
    try skip(15)
    var counts: [Int] = []
    for _ in 0..<6 {
      let count = Int(try big(4))
      // The largest file of the zone data base has 256 changes.
      guard count <= 65_536 else { throw ZoneRules.Damage(reason: "it counts \(count) of something") }
      counts.append(count)
    }
    return Header(
      version: version == 0 ? 1 : version - 48, utIndicators: counts[0], standardIndicators: counts[1],
      leaps: counts[2], times: counts[3], types: counts[4], characters: counts[5])
  }

  /// The text between two line ends at the end; nil when it is not there or empty.
  mutating func footer() -> String? {
    guard at < bytes.count, bytes[at] == 0x0A else { return nil }
    let text = bytes[(at + 1)...].prefix { $0 != 0x0A }
    return text.isEmpty || text.count > 256 ? nil : String(validating: text, as: UTF8.self)
  }
}

// MARK: Which zone this machine is in

extension ZoneRules {
  /// The zone with an IANA name, from the system's data base below `root`; nil when there is none, or its file is damaged.
  public init?(named identifier: String, root: String = "/") {
    let isName = identifier.utf8.allSatisfy { byte in
      (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || "_+-/".utf8.contains(byte)
    }
    guard isName, !identifier.isEmpty, !identifier.hasPrefix("/"), identifier.utf8.count <= 64 else { return nil }
    guard let bytes = try? Files.read(ZoneRules.folder(root) + identifier, limit: 1 << 20),
      let rules = try? ZoneRules(tzif: bytes, identifier: identifier)
    else { return nil }
    self = rules
  }

  /// The machine's own zone: what `variable` (TZ) says, else where `/etc/localtime` leads, else what `/etc/timezone` names, else UTC.
  public static func machine(variable: String?, root: String = "/") -> ZoneRules {
    if let variable {
      let text = variable.hasPrefix(":") ? String(variable.dropFirst()) : variable
      if text.hasPrefix("/"), let rules = file(text, root) { return rules }
      // As glibc reads it: an empty or unknown value is UTC.
      return ZoneRules(named: text, root: root) ?? ZoneRules(posix: text, identifier: posixName(text)) ?? .utc
    }
    if let rules = file(root + "etc/localtime", root) { return rules }
    if let name = Files.text(root + "etc/timezone")?.trimmed, let rules = ZoneRules(named: name, root: root) {
      return rules
    }
    return .utc
  }

  private static func folder(_ root: String) -> String { root + "usr/share/zoneinfo/" }

  /// A POSIX text names no zone: a fixed offset has a name in the data base, and anything else is told as it was given.
  private static func posixName(_ text: String) -> String {
    guard let rule = ZoneRule(text), rule.isFixed, rule.standard % 3600 == 0 else { return text }
    let hours = rule.standard / 3600
    return hours == 0 ? "UTC" : "Etc/GMT" + (hours > 0 ? "-" : "+") + String(abs(hours))
  }

  private static func file(_ path: String, _ root: String) -> ZoneRules? {
    guard let bytes = try? Files.read(path, limit: 1 << 20) else { return nil }
    var name: String?
    if let resolved = realpath(path, nil) {
      defer { free(resolved) }
      name = String(cString: resolved).split(separator: "/zoneinfo/", maxSplits: 1).dropFirst().first.map(String.init)
    }
    if let named = name { name = named.split(separator: "posix/").last.map(String.init) ?? named }
    // A copy in place of a link: the name is written beside it, or is that of the zone with the same bytes.
    let identifier = name ?? written(root, bytes) ?? twin(of: bytes, root) ?? "UTC"
    return try? ZoneRules(tzif: bytes, identifier: identifier)
  }

  private static func written(_ root: String, _ bytes: [UInt8]) -> String? {
    guard let name = Files.text(root + "etc/timezone")?.trimmed, !name.isEmpty, !name.contains("..") else { return nil }
    return (try? Files.read(folder(root) + name, limit: 1 << 20)) == bytes ? name : nil
  }

  private static func twin(of bytes: [UInt8], _ root: String) -> String? {
    let table = Files.text(folder(root) + "zone1970.tab") ?? ""
    for line in table.split(separator: "\n") where !line.hasPrefix("#") {
      let columns = line.split(separator: "\t")
      guard columns.count >= 3 else { continue }
      if (try? Files.read(folder(root) + columns[2], limit: 1 << 20)) == bytes { return String(columns[2]) }
    }
    return nil
  }
}
