import GatewayProtocol
import System

/// Takes the objects of a long JSON text one by one, so that it needs the memory of the longest of them and not its own.
///
/// The text is a list of objects, one object with such a list in it, or objects one after the other. What is no JSON is told and stepped
/// over as far as that goes.
struct JSONElements {
  /// The largest object there is; also the window on the text.
  static let limit = 1 << 20

  private let input: BufferedInput
  private let remark: (Remark.Kind, String) -> Void

  init(_ input: any ByteInput, _ gathering: Gathering, limit: Int = JSONElements.limit) {
    self.input = BufferedInput(input, capacity: limit, check: gathering.check)
    remark = { gathering.remark($0, $1) }
  }

  /// Calls `body` with each object. Where the text is an object with a list of that name, with each of the list's, and with the object's other
  /// members (of a very long one: those before the list).
  func each(list: String, _ body: (JSON, [String: JSON]) -> Void) throws(HealthError) {
    while let byte = try nextByte() {
      switch byte {
      case 0x5B:
        input.skip(1)
        try elements([:], body)
      case 0x7B: try root(list, body)
      case 0x2C, 0xEF, 0xBB, 0xBF: input.skip(1)
      default:
        remark(.damage, "At byte \(input.position) there is no JSON; what comes before was read.")
        return
      }
    }
  }

  private func root(_ list: String, _ body: (JSON, [String: JSON]) -> Void) throws(HealthError) {
    switch try extent() {
    case .whole(let length):
      let end = input.position + Int64(length)
      guard let value = parse(length, skipsDamage: false), let members = value.object else {
        // One bad value in it: what stands around it can be had.
        try self.members(list, until: end, body)
        _ = try input.skipFar(max(0, end - input.position))
        return
      }
      if let elements = members[list]?.array {
        var header = members
        header[list] = nil
        for element in elements where element.object != nil { body(element, header) }
      } else {
        body(value, [:])
      }
    // Cut short, or very long: of one long list most can be had.
    case .ended, .tooLong: try members(list, until: nil, body)
    }
  }

  /// Walks the members of an object that can't be taken whole: to its end, where that is known.
  private func members(
    _ list: String, until end: Int64?, _ body: (JSON, [String: JSON]) -> Void
  ) throws(HealthError) {
    input.skip(1)
    var header: [String: JSON] = [:]
    while let byte = try nextByte() {
      if byte == 0x7D { return input.skip(1) }
      if byte == 0x2C {
        input.skip(1)
        continue
      }
      guard byte == 0x22, let length = try stringLength(), let key = parse(length)?.string, try nextByte() == 0x3A
      else {
        remark(.damage, "At byte \(input.position) a member's name is missing; what comes before was read.")
        if end == nil { input.skip(input.available) }
        return
      }
      input.skip(1)
      guard let first = try nextByte() else { break }
      if first == 0x5B, key == list {
        input.skip(1)
        if try !elements(header, body) { return }
      } else if first == 0x22, let length = try stringLength() {
        header[key] = parse(length)
      } else if try !skipValue() {
        break
      }
    }
    remark(.damage, "It ends at byte \(input.position), in the middle of an object; what comes before was read.")
  }

  /// Past the `[`: each object up to past the `]`. False when the text ends before.
  @discardableResult
  private func elements(_ header: [String: JSON], _ body: (JSON, [String: JSON]) -> Void) throws(HealthError) -> Bool {
    while let byte = try nextByte() {
      switch byte {
      case 0x5D:
        input.skip(1)
        return true
      case 0x2C: input.skip(1)
      case 0x7B:
        switch try extent() {
        case .whole(let length): if let value = parse(length) { body(value, header) }
        case .tooLong:
          remark(.leftOut, "An object at byte \(input.position) is too long and left out.")
          if try !skipValue() { return false }
        case .ended:
          remark(.damage, "It ends in the middle of an object, at byte \(input.position); what comes before was read.")
          input.skip(input.available)
          return false
        }
      default: if try !skipValue() { break }
      }
    }
    remark(.damage, "It ends at byte \(input.position), in the middle of a list; what comes before was read.")
    return false
  }

  // MARK: Bytes

  /// The next byte that is no blank; nil at the end.
  private func nextByte() throws(HealthError) -> UInt8? {
    while try input.ensure(1) {
      let byte = input.current[0]
      if byte != 0x20 && byte != 0x0A && byte != 0x0D && byte != 0x09 { return byte }
      input.skip(1)
    }
    return nil
  }

  private enum Extent {
    case whole(Int)
    case tooLong, ended
  }

  /// How long the object or list at the window's start is.
  private func extent() throws(HealthError) -> Extent {
    var depth = 0
    var isInString = false
    var index = 0
    while true {
      let count = input.available
      let bytes = input.current
      while index < count {
        let byte = bytes[index]
        if isInString {
          if byte == 0x5C { index += 1 } else if byte == 0x22 { isInString = false }
        } else if byte == 0x22 {
          isInString = true
        } else if byte == 0x7B || byte == 0x5B {
          depth += 1
        } else if byte == 0x7D || byte == 0x5D {
          depth -= 1
          if depth == 0 { return .whole(index + 1) }
        }
        index += 1
      }
      if try !input.more() { return input.hasEnded ? .ended : .tooLong }
    }
  }

  /// The length of the string at the window's start; nil when it does not end.
  private func stringLength() throws(HealthError) -> Int? {
    var index = 1
    while true {
      let bytes = input.current
      while index < input.available {
        if bytes[index] == 0x22 { return index + 1 }
        index += bytes[index] == 0x5C ? 2 : 1
      }
      if try !input.more() { return nil }
    }
  }

  /// Over a value of any length; false when the text ends in it.
  private func skipValue() throws(HealthError) -> Bool {
    var depth = 0
    var isInString = false
    var hasBegun = false
    while try input.ensure(1) {
      let byte = input.current[0]
      if isInString {
        if byte == 0x5C, try !input.ensure(2) { return false }
        input.skip(byte == 0x5C ? 2 : 1)
        if byte == 0x22 {
          isInString = false
          if depth == 0 { return true }
        }
        continue
      }
      if depth == 0, hasBegun, byte == 0x2C || byte == 0x7D || byte == 0x5D { return true }
      if depth == 0, !hasBegun, byte == 0x7D || byte == 0x5D {
        // A closing bracket where a value should be.
        input.skip(1)
        return true
      }
      hasBegun = true
      input.skip(1)
      switch byte {
      case 0x22: isInString = true
      case 0x7B, 0x5B: depth += 1
      case 0x7D, 0x5D:
        depth -= 1
        if depth == 0 { return true }
      default: break
      }
    }
    return false
  }

  /// Takes so many bytes as a value; nil, with a remark, when they are none. Those are stepped over too if `skipsDamage`.
  private func parse(_ length: Int, skipsDamage: Bool = true) -> JSON? {
    let length = min(length, input.available)
    do throws(JSONError) {
      let value = try JSON(parsing: UnsafeRawBufferPointer(start: input.current, count: length))
      input.skip(length)
      return value
    } catch {
      defer { if skipsDamage { input.skip(length) } }
      remark(.damage, "At byte \(input.position + Int64(error.offset)) there is no JSON: \(error.problem).")
      return nil
    }
  }
}
