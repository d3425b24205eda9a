import GatewayProtocol

/// The members of a JSON object as ranges of its text: checked to be JSON, but not turned into values.
///
/// A node's result may hold 12 MB of base64, which the gateway only passes on. Its text is copied as it came; parsing it
/// and writing it down again would cost five passes over it.
struct RawObject {
  let bytes: [UInt8]
  /// In the order of the text.
  private(set) var members: [(key: String, value: Range<Int>)] = []

  /// Reads the object that is all of `bytes`, or of `range` in them. Nesting deeper than `depth` is an error.
  init(_ bytes: [UInt8], in range: Range<Int>? = nil, depth: Int = 96) throws(JSONError) {
    let range = range ?? 0..<bytes.count
    let found = bytes.withUnsafeBytes { buffer in
      Result { () throws(JSONError) in
        var skimmer = Skimmer(bytes: buffer, at: range.lowerBound, end: range.upperBound, depthLeft: depth)
        skimmer.skipSpace()
        guard skimmer.next == UInt8(ascii: "{") else { throw skimmer.error("expected an object") }
        var members: [(key: String, value: Range<Int>)] = []
        try skimmer.object { key, value throws(JSONError) in
          members.append((try JSON(parsing: buffer[key]).string ?? "", value))
        }
        try skimmer.finish()
        return members
      }
    }
    self.bytes = bytes
    members = try found.get()
  }

  /// The range of a member's value; the last one's when it is there twice, nil when it is null.
  subscript(_ key: String) -> Range<Int>? {
    guard let range = members.last(where: { $0.key == key })?.value else { return nil }
    return range.count == 4 && bytes[range.lowerBound] == UInt8(ascii: "n") ? nil : range
  }

  func json(_ key: String) -> JSON? { self[key].flatMap { try? JSON(parsing: bytes[$0]) } }
  func string(_ key: String) -> String? {
    guard let range = self[key], bytes[range.lowerBound] == UInt8(ascii: "\"") else { return nil }
    return json(key)?.string
  }
  func bool(_ key: String) -> Bool? { json(key)?.bool }
  func isString(_ key: String) -> Bool { self[key].map { bytes[$0.lowerBound] == UInt8(ascii: "\"") } ?? false }

  /// Whether `text` is one JSON text.
  static func isJSON(_ text: [UInt8], depth: Int = 96) -> Bool {
    text.withUnsafeBytes { buffer in
      do throws(JSONError) {
        var skimmer = Skimmer(bytes: buffer, at: 0, end: buffer.count, depthLeft: depth)
        skimmer.skipSpace()
        try skimmer.value()
        try skimmer.finish()
        return true
      } catch {
        return false
      }
    }
  }
}

/// Walks over JSON text and keeps nothing.
private struct Skimmer {
  let bytes: UnsafeRawBufferPointer
  var at: Int
  let end: Int
  var depthLeft: Int

  func error(_ problem: String) -> JSONError { JSONError(problem: problem, offset: at) }
  var next: UInt8? { at < end ? bytes[at] : nil }

  mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { at += 1 }
  }

  mutating func finish() throws(JSONError) {
    skipSpace()
    if at != end { throw error("text after the value") }
  }

  mutating func value() throws(JSONError) {
    switch next {
    case UInt8(ascii: "{"): try object { _, _ in }
    case UInt8(ascii: "["): try array()
    case UInt8(ascii: "\""): try string()
    case UInt8(ascii: "t"): try word("true")
    case UInt8(ascii: "f"): try word("false")
    case UInt8(ascii: "n"): try word("null")
    default: try number()
    }
  }

  mutating func object(_ member: (Range<Int>, Range<Int>) throws(JSONError) -> Void) throws(JSONError) {
    try descend()
    if next != UInt8(ascii: "}") {
      repeat {
        guard next == UInt8(ascii: "\"") else { throw error("expected a member name") }
        let key = at
        try string()
        let keyEnd = at
        skipSpace()
        guard next == UInt8(ascii: ":") else { throw error("expected ':'") }
        at += 1
        skipSpace()
        let start = at
        try value()
        try member(key..<keyEnd, start..<at)
      } while try !isLast(UInt8(ascii: "}"))
    }
    ascend()
  }

  private mutating func array() throws(JSONError) {
    try descend()
    if next != UInt8(ascii: "]") {
      repeat { try value() } while try !isLast(UInt8(ascii: "]"))
    }
    ascend()
  }

  private mutating func descend() throws(JSONError) {
    if depthLeft == 0 { throw error("nested too deeply") }
    depthLeft -= 1
    at += 1
    skipSpace()
  }

  private mutating func ascend() {
    at += 1
    depthLeft += 1
  }

  private mutating func isLast(_ close: UInt8) throws(JSONError) -> Bool {
    skipSpace()
    if next == close { return true }
    guard next == UInt8(ascii: ",") else { throw error("expected ','") }
    at += 1
    skipSpace()
    return false
  }

  private mutating func word(_ word: StaticString) throws(JSONError) {
    for offset in 0..<word.utf8CodeUnitCount {
      guard next == word.utf8Start[offset] else { throw error("expected a value") }
      at += 1
    }
  }

  /// A number is short, so the coder's own rules are asked.
  private mutating func number() throws(JSONError) {
    let start = at
    while let byte = next, "+-.eE0123456789".utf8.contains(byte) { at += 1 }
    guard at > start, (try? JSON(parsing: bytes[start..<at])) != nil else { throw error("expected a value") }
  }

  private mutating func string() throws(JSONError) {
    at += 1
    while true {
      skipPlain()
      switch next {
      case UInt8(ascii: "\""):
        at += 1
        return
      case UInt8(ascii: "\\"): try escape()
      default: throw error("a string that does not end, or holds a control character")
      }
    }
  }

  private mutating func escape() throws(JSONError) {
    at += 1
    guard let letter = next else { throw error("the text ends in a string") }
    at += 1
    if letter == UInt8(ascii: "u") {
      for _ in 0..<4 {
        guard let byte = next, Character(Unicode.Scalar(byte)).isHexDigit else { throw error("expected a hex digit") }
        at += 1
      }
    } else if !"\"\\/bfnrt".utf8.contains(letter) {
      throw error("an unknown escape")
    }
  }

  /// Moves past bytes that stand for themselves, eight at a time: a byte is special if it is below 0x20, or `"` or `\`.
  private mutating func skipPlain() {
    let low: UInt64 = 0x0101_0101_0101_0101
    let high: UInt64 = 0x8080_8080_8080_8080
    var index = at
    while index + 8 <= end {
      let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
      let quote = word ^ (low &* 0x22)
      let slash = word ^ (low &* 0x5C)
      let special = (quote &- low) & ~quote | (slash &- low) & ~slash | (word &- (low &* 0x20)) & ~word
      if special & high != 0 { break }
      index += 8
    }
    while index < end {
      let byte = bytes[index]
      if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 { break }
      index += 1
    }
    at = index
  }
}
