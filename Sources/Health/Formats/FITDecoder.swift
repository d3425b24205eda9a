import System

/// Takes FIT messages out of a stream: several files in one, compressed times, fields of developers, files that were never closed. Damage ends a
/// file, not what was read of it.
struct FITDecoder {
  /// One message: its kind and the fields that have a value.
  struct Message {
    let kind: Int
    /// In milliseconds since 1970, where it has a time or the one before it.
    let time: Int64?
    private let fields: [(number: Int, value: Int64)]
    private let texts: [(number: Int, text: String)]

    init(kind: Int, time: Int64?, fields: [(number: Int, value: Int64)], texts: [(number: Int, text: String)]) {
      self.kind = kind
      self.time = time
      self.fields = fields
      self.texts = texts
    }

    subscript(_ number: Int) -> Int64? { fields.first { $0.number == number }?.value }
    func text(_ number: Int) -> String? { texts.first { $0.number == number }?.text }
    /// A field that holds a time.
    func time(_ number: Int) -> Int64? { self[number].flatMap(FITDecoder.milliseconds) }
  }

  private struct Field {
    let number: Int
    let size: Int
    let type: UInt8
  }
  private struct Definition {
    let kind: Int
    let isBigEndian: Bool
    let fields: [Field]
    let developerSize: Int
    var size: Int { fields.reduce(developerSize) { $0 + $1.size } }
  }

  private let input: BufferedInput
  private let remark: (Remark.Kind, String) -> Void
  private var definitions: [Definition?] = Array(repeating: nil, count: 16)
  /// Seconds of FIT's own count.
  private var lastTime: UInt32 = 0
  private var checksum: UInt16 = 0

  init(_ input: BufferedInput, remark: @escaping (Remark.Kind, String) -> Void) {
    self.input = input
    self.remark = remark
  }

  /// Seconds since the last day of 1989 to milliseconds since 1970; nil for the seconds since it was switched on that a device without a clock
  /// writes.
  static func milliseconds(_ seconds: Int64) -> Int64? {
    seconds < 0x1000_0000 || seconds >= 0xFFFF_FFFF ? nil : (seconds + 631_065_600) * 1000
  }

  /// Hands over the messages of one file after the other; `ended` is called after each.
  mutating func run(_ message: (Message) -> Void, ended: () -> Void) throws(HealthError) {
    var files = 0
    while try input.ensure(12) {
      guard let length = try header() else {
        if files == 0 { throw .damaged(at: input.position, "It does not begin as FIT files do.") }
        remark(.note, "Bytes after the end, at byte \(input.position), are left out.")
        return
      }
      files += 1
      try messages(until: length, message)
      ended()
      if length == nil { return }
    }
    if files == 0 { throw .damaged(at: 0, "It is too short for a FIT file.") }
    if input.available > 0 { remark(.note, "Bytes after the end, at byte \(input.position), are left out.") }
  }

  /// Past the header: how many bytes of messages follow (nil inside = all that there are); nil when it is none.
  private mutating func header() throws(HealthError) -> Int64?? {
    let bytes = input.current
    let size = Int(bytes[0])
    guard size == 12 || size == 14, try input.ensure(size) else { return nil }
    let head = input.current
    guard head[8] == 0x2E, head[9] == 0x46, head[10] == 0x49, head[11] == 0x54 else { return nil }
    let length = Int64(head[4]) | Int64(head[5]) << 8 | Int64(head[6]) << 16 | Int64(head[7]) << 24
    checksum = 0
    sum(size)
    input.skip(size)
    definitions = Array(repeating: nil, count: 16)
    lastTime = 0
    if length == 0 {
      // Written at the end of a recording: it was never ended.
      remark(.damage, "The file was never closed (its length is 0); what it holds was read: partial.")
      return .some(nil)
    }
    return .some(length)
  }

  private mutating func messages(until length: Int64?, _ message: (Message) -> Void) throws(HealthError) {
    let end = length.map { input.position + $0 } ?? .max
    while input.position < end {
      guard try input.ensure(1) else {
        if length != nil { remark(.damage, "It ends at byte \(input.position), before its end: partial.") }
        return
      }
      let position = input.position
      if length == nil, try input.ensure(2), !(try input.ensure(3)) { return }
      guard try one(message) else {
        remark(.damage, "A message at byte \(position) is damaged; what comes before it was read: partial.")
        // The length says where the next file begins.
        if length != nil { _ = try input.skipFar(max(0, end + 2 - input.position)) }
        return
      }
    }
    guard length != nil else { return }
    guard try input.ensure(2) else {
      remark(.damage, "The checksum at its end is missing: partial.")
      return
    }
    let expected = UInt16(input.current[0]) | UInt16(input.current[1]) << 8
    if expected != checksum {
      remark(.damage, "Its checksum at byte \(input.position) is wrong; what it holds was read: partial.")
    }
    input.skip(2)
  }

  /// Reads one message; false when it can't be one.
  private mutating func one(_ message: (Message) -> Void) throws(HealthError) -> Bool {
    let head = input.current[0]
    if head & 0x80 != 0 {
      // A time of five bits: the next one after the last that ends so.
      let offset = UInt32(head & 0x1F)
      lastTime = lastTime &+ ((offset &- lastTime) & 0x1F)
      return try data(Int(head >> 5 & 3), hasTime: true, message)
    }
    return head & 0x40 != 0 ? try definition(head) : try data(Int(head & 0x0F), hasTime: false, message)
  }

  private mutating func definition(_ head: UInt8) throws(HealthError) -> Bool {
    guard try input.ensure(6) else { return false }
    var bytes = input.current
    let isBigEndian = bytes[2] == 1
    let count = Int(bytes[5])
    var size = 6 + count * 3
    guard bytes[2] <= 1, try input.ensure(size) else { return false }
    var developers = 0
    if head & 0x20 != 0 {
      guard try input.ensure(size + 1) else { return false }
      developers = Int(input.current[size])
      guard try input.ensure(size + 1 + developers * 3) else { return false }
    }
    bytes = input.current
    let kind = isBigEndian ? Int(bytes[3]) << 8 | Int(bytes[4]) : Int(bytes[4]) << 8 | Int(bytes[3])
    let fields = (0..<count).map { index in
      Field(number: Int(bytes[6 + index * 3]), size: Int(bytes[7 + index * 3]), type: bytes[8 + index * 3])
    }
    var developerSize = 0
    if head & 0x20 != 0 {
      for index in 0..<developers { developerSize += Int(bytes[size + 2 + index * 3]) }
      size += 1 + developers * 3
    }
    definitions[Int(head & 0x0F)] = Definition(
      kind: kind, isBigEndian: isBigEndian, fields: fields, developerSize: developerSize)
    sum(size)
    input.skip(size)
    return true
  }

  private mutating func data(_ local: Int, hasTime: Bool, _ message: (Message) -> Void) throws(HealthError) -> Bool {
    guard let definition = definitions[local], try input.ensure(1 + definition.size) else { return false }
    let isOfUse = FITDecoder.kinds.contains(definition.kind)
    let bytes = input.current + 1
    var at = 0
    var fields: [(number: Int, value: Int64)] = []
    var texts: [(number: Int, text: String)] = []
    var short: UInt32?
    for field in definition.fields {
      if field.number == 253 || isOfUse {
        if field.type & 0x1F == 7 {
          let text = UnsafeBufferPointer(start: bytes + at, count: field.size).prefix { $0 != 0 }
          if !text.isEmpty { texts.append((field.number, String(decoding: text, as: UTF8.self))) }
        } else if let value = FITDecoder.value(bytes + at, field.size, field.type, definition.isBigEndian) {
          fields.append((field.number, value))
          if field.number == 253 { lastTime = UInt32(truncatingIfNeeded: value) }
          // Monitoring's short form of a time: its low 16 bits, the next after the last.
          if field.number == 26, definition.kind == 55 { short = UInt32(truncatingIfNeeded: value) }
        }
      }
      at += field.size
    }
    if let short, !fields.contains(where: { $0.number == 253 }) {
      lastTime = lastTime &+ ((short &- lastTime) & 0xFFFF)
    }
    sum(1 + definition.size)
    input.skip(1 + definition.size)
    if isOfUse {
      message(
        Message(
          kind: definition.kind, time: FITDecoder.milliseconds(Int64(lastTime)), fields: fields, texts: texts))
    }
    return true
  }

  /// The messages that tell something: file_id, session, record, event, device_info, activity, monitoring, monitoring_info,
  /// monitoring_hr_data, sleep_level.
  private static let kinds: Set<Int> = [0, 18, 20, 21, 23, 34, 55, 103, 211, 275]

  /// A whole number of a base type; nil when it is the type's mark for "no value", a list, or no whole number.
  private static func value(_ bytes: UnsafePointer<UInt8>, _ size: Int, _ type: UInt8, _ isBigEndian: Bool) -> Int64? {
    var raw: UInt64 = 0
    let width: Int
    switch type & 0x1F {
    case 0, 1, 2, 10, 13: width = 1
    case 3, 4, 11: width = 2
    case 5, 6, 12: width = 4
    case 14, 15, 16: width = 8
    default: return nil
    }
    guard size == width else { return nil }
    for index in 0..<width { raw = raw << 8 | UInt64(bytes[isBigEndian ? index : width - 1 - index]) }
    let all: UInt64 = width == 8 ? .max : (1 << (UInt64(width) * 8)) - 1
    switch type & 0x1F {
    case 10, 11, 12, 16: return raw == 0 ? nil : Int64(clamping: raw)
    case 1, 3, 5, 14:
      // Signed: the largest positive number is the mark.
      if raw == all >> 1 { return nil }
      return raw > all >> 1 ? Int64(bitPattern: raw | ~all) : Int64(raw)
    default: return raw == all ? nil : Int64(clamping: raw)
    }
  }

  /// Adds the next bytes of the window to the checksum: CRC-16 of polynomial 0x8005, reflected, a nibble at a time.
  private mutating func sum(_ count: Int) {
    var sum = checksum
    let bytes = input.current
    for index in 0..<count {
      let byte = bytes[index]
      sum = FITDecoder.table[Int((sum ^ UInt16(byte)) & 0xFF)] ^ (sum >> 8)
    }
    checksum = sum
  }

  private static let table: [UInt16] = (0..<256).map { index in
    (0..<8).reduce(UInt16(index)) { sum, _ in sum & 1 == 1 ? (sum >> 1) ^ 0xA001 : sum >> 1 }
  }
}
