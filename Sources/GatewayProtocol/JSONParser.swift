/// Why bytes are no JSON, and where.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
  /// A sentence fragment: `expected a value`.
  public let problem: String
  /// Byte offset from 0.
  public let offset: Int
  public init(problem: String, offset: Int) {
    self.problem = problem
    self.offset = offset
  }
  public var description: String { "\(problem) at byte \(offset)" }
}

extension JSON {
  /// Reads one JSON text (RFC 8259) of UTF-8 bytes. Total: any bytes end in a value or an error; nesting deeper than `depth` is an
  /// error, so that hostile input can't exhaust the stack. A repeated member's last value counts; a lone surrogate escape becomes
  /// U+FFFD, as browsers and Node.js write such strings.
  public init(parsing bytes: some Collection<UInt8>, depth: Int = 96) throws(JSONError) {
    let parsed = bytes.withContiguousStorageIfAvailable { buffer in
      Result { () throws(JSONError) in try JSON.parse(UnsafeRawBufferPointer(buffer), depth) }
    }
    switch parsed {
    case .success(let value)?: self = value
    case .failure(let error)?: throw error
    case nil: try self.init(parsing: Array(bytes), depth: depth)
    }
  }

  /// Reads one JSON text.
  public init(parsing text: String, depth: Int = 96) throws(JSONError) {
    try self.init(parsing: Array(text.utf8), depth: depth)
  }

  private static func parse(_ bytes: UnsafeRawBufferPointer, _ depth: Int) throws(JSONError) -> JSON {
    var parser = JSONParser(bytes: bytes, depthLeft: depth)
    parser.skipSpace()
    let value = try parser.value()
    parser.skipSpace()
    if parser.at != bytes.count { throw parser.error("text after the value") }
    return value
  }
}

private struct JSONParser {
  let bytes: UnsafeRawBufferPointer
  var at = 0
  var depthLeft: Int

  init(bytes: UnsafeRawBufferPointer, depthLeft: Int) {
    self.bytes = bytes
    self.depthLeft = depthLeft
  }

  func error(_ problem: String) -> JSONError { JSONError(problem: problem, offset: at) }
  var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { at += 1 }
  }

  mutating func value() throws(JSONError) -> JSON {
    switch next {
    case UInt8(ascii: "{"): return try object()
    case UInt8(ascii: "["): return try array()
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    case UInt8(ascii: "-")?, (UInt8(ascii: "0")...UInt8(ascii: "9"))?: return try number()
    case nil: throw error("the text ends where a value should be")
    default: throw error("expected a value")
    }
  }

  private mutating func word(_ word: StaticString, _ value: JSON) throws(JSONError) -> JSON {
    for offset in 0..<word.utf8CodeUnitCount {
      guard next == word.utf8Start[offset] else { throw error("expected a value") }
      at += 1
    }
    return value
  }

  private mutating func descend() throws(JSONError) {
    if depthLeft == 0 { throw error("nested too deeply") }
    depthLeft -= 1
    at += 1
    skipSpace()
  }

  private mutating func object() throws(JSONError) -> JSON {
    try descend()
    var members: [String: JSON] = [:]
    if next != UInt8(ascii: "}") {
      while true {
        guard next == UInt8(ascii: "\"") else { throw error("expected a member name") }
        let key = try string()
        skipSpace()
        guard next == UInt8(ascii: ":") else { throw error("expected ':'") }
        at += 1
        skipSpace()
        members[key] = try value()
        if try endOfElement(UInt8(ascii: "}")) { break }
      }
    }
    at += 1
    depthLeft += 1
    return .object(members)
  }

  private mutating func array() throws(JSONError) -> JSON {
    try descend()
    var elements: [JSON] = []
    if next != UInt8(ascii: "]") {
      while true {
        elements.append(try value())
        if try endOfElement(UInt8(ascii: "]")) { break }
      }
    }
    at += 1
    depthLeft += 1
    return .array(elements)
  }

  /// After an element: true at the closing bracket, false past a comma.
  private mutating func endOfElement(_ close: UInt8) throws(JSONError) -> Bool {
    skipSpace()
    if next == close { return true }
    guard next == UInt8(ascii: ",") else { throw error("expected ',' or '\(Character(Unicode.Scalar(close)))'") }
    at += 1
    skipSpace()
    return false
  }

  private mutating func number() throws(JSONError) -> JSON {
    let start = at
    var isWhole = true
    if next == UInt8(ascii: "-") { at += 1 }
    let firstDigit = next
    let wholeDigits = skipDigits()
    if wholeDigits == 0 { throw error("expected a digit") }
    if wholeDigits > 1 && firstDigit == UInt8(ascii: "0") { throw error("a number may not begin with 0") }
    if next == UInt8(ascii: ".") {
      isWhole = false
      at += 1
      if skipDigits() == 0 { throw error("expected a digit") }
    }
    if next == UInt8(ascii: "e") || next == UInt8(ascii: "E") {
      isWhole = false
      at += 1
      if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { at += 1 }
      if skipDigits() == 0 { throw error("expected a digit") }
    }
    if at - start > 400 { throw error("a number of over 400 digits") }
    let text = String(decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<at]), as: UTF8.self)
    if isWhole, let value = Int64(text) { return .int(value) }
    guard let value = Double(text), value.isFinite else { throw error("a number out of range") }
    return .double(value)
  }

  private mutating func skipDigits() -> Int {
    let start = at
    while let byte = next, byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") { at += 1 }
    return at - start
  }

  private mutating func string() throws(JSONError) -> String {
    at += 1
    let start = at
    skipPlain()
    if next == UInt8(ascii: "\"") {
      let text = try utf8(start..<at)
      at += 1
      return text
    }
    var out = [UInt8](bytes[start..<at])
    while true {
      switch next {
      case nil: throw error("the text ends in a string")
      case UInt8(ascii: "\""):
        at += 1
        guard let text = String(validating: out, as: UTF8.self) else { throw error("a string that is not UTF-8") }
        return text
      case UInt8(ascii: "\\"): try escape(into: &out)
      default: throw error("a control character in a string")
      }
      let plain = at
      skipPlain()
      out.append(contentsOf: bytes[plain..<at])
    }
  }

  /// Moves past bytes that stand for themselves: all but `"`, `\` and control characters.
  private mutating func skipPlain() {
    var index = at
    let count = bytes.count
    // Eight bytes at a time: a byte is special if it is below 0x20, or equal to '"' or '\' (the usual zero-byte trick).
    while index + 8 <= count {
      let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
      let high: UInt64 = 0x8080_8080_8080_8080
      let low: UInt64 = 0x0101_0101_0101_0101
      let quote = word ^ (low &* 0x22)
      let slash = word ^ (low &* 0x5C)
      let special =
        ((quote &- low) & ~quote) | ((slash &- low) & ~slash) | ((word &- (low &* 0x20)) & ~word)
      if special & high != 0 { break }
      index += 8
    }
    while index < count {
      let byte = bytes[index]
      if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 { break }
      index += 1
    }
    at = index
  }

  private func utf8(_ range: Range<Int>) throws(JSONError) -> String {
    guard let text = String(validating: UnsafeRawBufferPointer(rebasing: bytes[range]), as: UTF8.self) else {
      throw error("a string that is not UTF-8")
    }
    return text
  }

  private mutating func escape(into out: inout [UInt8]) throws(JSONError) {
    at += 1
    guard let letter = next else { throw error("the text ends in a string") }
    at += 1
    switch letter {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): out.append(letter)
    case UInt8(ascii: "b"): out.append(0x08)
    case UInt8(ascii: "f"): out.append(0x0C)
    case UInt8(ascii: "n"): out.append(0x0A)
    case UInt8(ascii: "r"): out.append(0x0D)
    case UInt8(ascii: "t"): out.append(0x09)
    case UInt8(ascii: "u"): out.append(contentsOf: String(try scalar()).utf8)
    default: throw error("an unknown escape")
    }
  }

  private mutating func scalar() throws(JSONError) -> Unicode.Scalar {
    let first = try codeUnit()
    if first & 0xFC00 == 0xD800, at + 1 < bytes.count, bytes[at] == UInt8(ascii: "\\"),
      bytes[at + 1] == UInt8(ascii: "u")
    {
      let before = at
      at += 2
      let second = try codeUnit()
      if second & 0xFC00 == 0xDC00 {
        return Unicode.Scalar(0x10000 + (first & 0x3FF) << 10 + second & 0x3FF) ?? "\u{FFFD}"
      }
      at = before
    }
    return Unicode.Scalar(first) ?? "\u{FFFD}"
  }

  private mutating func codeUnit() throws(JSONError) -> UInt32 {
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = next, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
        throw error("expected four hexadecimal digits")
      }
      unit = unit << 4 | UInt32(digit)
      at += 1
    }
    return unit
  }
}
