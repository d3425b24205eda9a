import CSystemd
import Glibc

/// Reading and writing the body of an `sd_bus_message`.
///
/// Through the iterator functions only: sd_bus_message_append and _read are variadic, which Swift can't call, and these cover every
/// type.
struct DBusMessage {
  /// Borrowed: whoever made the message unreferences it.
  let pointer: OpaquePointer

  /// What one message may hold when it is read; a peer's message ends in an error beyond it, not in our memory.
  private static let valueLimit = 65_536
  private static let byteLimit = 16 << 20
  private static let depthLimit = 32

  // MARK: Header

  var isError: Bool { systemd.sd_bus_message_is_method_error(pointer, nil) > 0 }
  var sender: String? { Self.text(systemd.sd_bus_message_get_sender(pointer)) }
  var path: String? { Self.text(systemd.sd_bus_message_get_path(pointer)) }
  var interface: String? { Self.text(systemd.sd_bus_message_get_interface(pointer)) }
  var member: String? { Self.text(systemd.sd_bus_message_get_member(pointer)) }
  var wantsReply: Bool { systemd.sd_bus_message_get_expect_reply(pointer) > 0 }

  var error: DBusError {
    guard let error = systemd.sd_bus_message_get_error(pointer)?.pointee, let name = Self.text(error.name) else {
      return .malformed
    }
    return DBusError(name, Self.text(error.message) ?? "")
  }

  private static func text(_ pointer: UnsafePointer<CChar>?) -> String? { pointer.map { String(cString: $0) } }

  // MARK: Writing

  func append(_ values: [DBusValue]) throws(DBusError) {
    for value in values { try append(value, depth: 0) }
  }

  private func append(_ value: DBusValue, depth: Int) throws(DBusError) {
    if depth > Self.depthLimit { throw .malformed }
    switch value {
    case .byte(let value): try basic("y", value)
    case .bool(let value): try basic("b", Int32(value ? 1 : 0))
    case .int16(let value): try basic("n", value)
    case .uint16(let value): try basic("q", value)
    case .int32(let value): try basic("i", value)
    case .uint32(let value): try basic("u", value)
    case .int64(let value): try basic("x", value)
    case .uint64(let value): try basic("t", value)
    case .double(let value): try basic("d", value)
    case .string(let text): try basic("s", text: text)
    case .objectPath(let text): try basic("o", text: text)
    case .signature(let text): try basic("g", text: text)
    case .descriptor(let descriptor): try basic("h", descriptor.number)
    case .bytes(let bytes):
      try check(
        bytes.withUnsafeBytes { systemd.sd_bus_message_append_array(pointer, Self.code("y"), $0.baseAddress, $0.count) }
      )
    case .array(let elements, let signature):
      try container("a", signature) { () throws(DBusError) in
        for element in elements {
          if element.typeSignature != signature { throw .malformed }
          try append(element, depth: depth + 1)
        }
      }
    case .dictionary(let entries, let key, let value):
      try container("a", "{\(key)\(value)}") { () throws(DBusError) in
        for entry in entries {
          if entry.key.typeSignature != key || entry.value.typeSignature != value { throw .malformed }
          try container("e", key + value) { () throws(DBusError) in
            try append(entry.key, depth: depth + 1)
            try append(entry.value, depth: depth + 1)
          }
        }
      }
    case .structure(let fields):
      try container("r", fields.map(\.typeSignature).joined()) { () throws(DBusError) in
        for field in fields { try append(field, depth: depth + 1) }
      }
    case .variant(let inner):
      try container("v", inner.typeSignature) { () throws(DBusError) in try append(inner, depth: depth + 1) }
    }
  }

  private func basic<Number: BitwiseCopyable>(_ type: Unicode.Scalar, _ value: Number) throws(DBusError) {
    try check(withUnsafePointer(to: value) { systemd.sd_bus_message_append_basic(pointer, Self.code(type), $0) })
  }

  private func basic(_ type: Unicode.Scalar, text: String) throws(DBusError) {
    if text.utf8.contains(0) { throw .malformed }
    try check(text.withCString { systemd.sd_bus_message_append_basic(pointer, Self.code(type), $0) })
  }

  private func container(
    _ type: Unicode.Scalar, _ contents: String, _ body: () throws(DBusError) -> Void
  ) throws(DBusError) {
    try check(systemd.sd_bus_message_open_container(pointer, Self.code(type), contents))
    try body()
    try check(systemd.sd_bus_message_close_container(pointer))
  }

  // MARK: Reading

  /// All arguments. Total: whatever a peer sent ends in values or an error.
  func arguments() throws(DBusError) -> [DBusValue] {
    var budget = Budget()
    var values: [DBusValue] = []
    while let value = try next(&budget, depth: 0) { values.append(value) }
    return values
  }

  private struct Budget {
    var values = 0
    var bytes = 0
    mutating func spend(bytes more: Int) throws(DBusError) {
      values += 1
      bytes += more
      if values > valueLimit || bytes > byteLimit { throw .malformed }
    }
  }

  /// The next value of the current container; nil at its end.
  private func next(_ budget: inout Budget, depth: Int) throws(DBusError) -> DBusValue? {
    if depth > Self.depthLimit { throw .malformed }
    var type: CChar = 0
    var contents: UnsafePointer<CChar>?
    if try check(systemd.sd_bus_message_peek_type(pointer, &type, &contents)) == 0 { return nil }
    try budget.spend(bytes: 0)
    switch Unicode.Scalar(UInt8(bitPattern: type)) {
    case "y": return .byte(try number("y"))
    case "b": return .bool(try number("b") as Int32 != 0)
    case "n": return .int16(try number("n"))
    case "q": return .uint16(try number("q"))
    case "i": return .int32(try number("i"))
    case "u": return .uint32(try number("u"))
    case "x": return .int64(try number("x"))
    case "t": return .uint64(try number("t"))
    case "d": return .double(try number("d"))
    case "s": return .string(try string("s", &budget))
    case "o": return .objectPath(try string("o", &budget))
    case "g": return .signature(try string("g", &budget))
    case "h":
      // The message owns the descriptor it was read from, so ours is a copy.
      let copy = fcntl(try number("h") as Int32, F_DUPFD_CLOEXEC, 3)
      if copy < 0 { throw DBusError(code: -errno, "take a descriptor over") }
      return .descriptor(DBusDescriptor(owning: copy))
    case "a": return try array(Self.text(contents) ?? "", &budget, depth)
    case "r":
      var fields: [DBusValue] = []
      try enter("r") { () throws(DBusError) in
        while let field = try next(&budget, depth: depth + 1) { fields.append(field) }
      }
      return .structure(fields)
    case "v":
      var inner: DBusValue?
      try enter("v") { () throws(DBusError) in inner = try next(&budget, depth: depth + 1) }
      guard let inner else { throw .malformed }
      return .variant(inner)
    default: throw .malformed
    }
  }

  private func array(_ element: String, _ budget: inout Budget, _ depth: Int) throws(DBusError) -> DBusValue {
    if element == "y" {
      var start: UnsafeRawPointer?
      var count = 0
      try check(systemd.sd_bus_message_read_array(pointer, Self.code("y"), &start, &count))
      try budget.spend(bytes: count)
      return .bytes([UInt8](UnsafeRawBufferPointer(start: start, count: count)))
    }
    if element.hasPrefix("{") {
      let types = element.dropFirst().dropLast()
      var entries: [DBusValue.Entry] = []
      try enter("a") { () throws(DBusError) in
        while let entry = try entry(&budget, depth + 1) { entries.append(entry) }
      }
      return .dictionary(entries, key: String(types.prefix(1)), value: String(types.dropFirst()))
    }
    var elements: [DBusValue] = []
    try enter("a") { () throws(DBusError) in
      while let value = try next(&budget, depth: depth + 1) { elements.append(value) }
    }
    return .array(elements, of: element)
  }

  private func entry(_ budget: inout Budget, _ depth: Int) throws(DBusError) -> DBusValue.Entry? {
    var type: CChar = 0
    if try check(systemd.sd_bus_message_peek_type(pointer, &type, nil)) == 0 { return nil }
    var pair: DBusValue.Entry?
    try enter("e") { () throws(DBusError) in
      guard let key = try next(&budget, depth: depth), let value = try next(&budget, depth: depth) else {
        throw .malformed
      }
      pair = DBusValue.Entry(key, value)
    }
    return pair
  }

  private func enter(_ type: Unicode.Scalar, _ body: () throws(DBusError) -> Void) throws(DBusError) {
    var found: CChar = 0
    var contents: UnsafePointer<CChar>?
    try check(systemd.sd_bus_message_peek_type(pointer, &found, &contents))
    if found != Self.code(type) { throw .malformed }
    try check(systemd.sd_bus_message_enter_container(pointer, found, contents))
    try body()
    try check(systemd.sd_bus_message_exit_container(pointer))
  }

  private func number<Number: BitwiseCopyable & ExpressibleByIntegerLiteral>(
    _ type: Unicode.Scalar
  ) throws(DBusError) -> Number {
    var value: Number = 0
    try check(withUnsafeMutablePointer(to: &value) { systemd.sd_bus_message_read_basic(pointer, Self.code(type), $0) })
    return value
  }

  private func string(_ type: Unicode.Scalar, _ budget: inout Budget) throws(DBusError) -> String {
    var text: UnsafePointer<CChar>?
    try check(withUnsafeMutablePointer(to: &text) { systemd.sd_bus_message_read_basic(pointer, Self.code(type), $0) })
    guard let text else { throw .malformed }
    try budget.spend(bytes: strlen(text))
    return String(cString: text)
  }

  private static func code(_ type: Unicode.Scalar) -> CChar { CChar(truncatingIfNeeded: type.value) }

  @discardableResult
  private func check(_ code: Int32) throws(DBusError) -> Int32 {
    if code < 0 { throw DBusError(code: code, "a D-Bus message") }
    return code
  }
}
