import Glibc
import System

/// Finds the tags of an XML text that somebody wants and steps over everything else, whatever it is: a broken DTD, control characters,
/// several roots. Bytes are searched, not parsed; `make bench` measures it beside real parsers.
final class XMLScanner {
  let input: BufferedInput
  /// The tag found last, from its `<` to past its `>`; holds until the next is asked for.
  private(set) var tag = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
  private(set) var tagPosition: Int64 = 0
  /// The first place at which a tag was broken.
  private(set) var broken: Int64?

  /// Of comments and of CDATA: what is known to have no end, so that not each of many is looked through for one.
  private var unended = (comment: Unended(), data: Unended())

  /// One that begins before `until` has no end as far as one may lie.
  private struct Unended { var until = Int64.min }

  init(_ input: BufferedInput) { self.input = input }

  var tagEnd: Int64 { tagPosition + Int64(tag.count) }

  /// Moves to the next tag that is wanted; false at the end. `isWanted` sees the bytes from the `<` on: at least 64, fewer at the
  /// end of the text.
  @inline(__always)
  func next(_ isWanted: (UnsafePointer<UInt8>, Int) -> Bool) throws(HealthError) -> Bool {
    while true {
      guard let hit = memchr(input.current, 0x3C, input.available) else {
        input.skip(input.available)
        if try !input.more() { return false }
        continue
      }
      input.skip(UnsafeMutablePointer(hit.assumingMemoryBound(to: UInt8.self)) - input.current)
      if input.available < 64 { _ = try input.ensure(64) }
      let bytes = UnsafePointer(input.current)
      let count = input.available
      if count > 3, bytes[1] == 0x21, try skipMarkup(bytes) { continue }
      if isWanted(bytes, count) {
        if try takeTag() { return true }
      } else {
        input.skip(1)
      }
    }
  }

  /// The text between the tag found last and the next one, at most `limit` bytes, without the blanks around it.
  func text(limit: Int = 256) throws(HealthError) -> String {
    _ = try input.ensure(limit)
    let bytes = UnsafeBufferPointer(start: UnsafePointer(input.current), count: min(limit, input.available))
    return XMLScanner.decode(UnsafeBufferPointer(rebasing: bytes.prefix { $0 != 0x3C })).trimmed
  }

  /// Over a comment or a CDATA section, in which tags mean nothing; false when it is neither.
  private func skipMarkup(_ bytes: UnsafePointer<UInt8>) throws(HealthError) -> Bool {
    let mark: UInt8
    if bytes[2] == 0x2D && bytes[3] == 0x2D {
      mark = 0x2D
    } else if bytes[2] == 0x5B && input.available > 9 && memcmp(bytes, "<![CDATA[", 9) == 0 {
      mark = 0x5D
    } else {
      return false
    }
    let known = mark == 0x2D ? unended.comment : unended.data
    if input.position < known.until {
      input.skip(4)
      return true
    }
    var index = 6
    while true {
      let bytes = input.current
      let count = input.available
      while index < count, let hit = memchr(bytes + index, 0x3E, count - index) {
        index = UnsafeMutablePointer(hit.assumingMemoryBound(to: UInt8.self)) - bytes
        if bytes[index - 1] == mark && bytes[index - 2] == mark {
          input.skip(index + 1)
          return true
        }
        index += 1
      }
      index = max(index, count)
      if try !input.more() {
        // Not ended as far as can be seen: what follows is worth more than what such a mark means. The next one that begins in this half
        // of what is seen has its end at the earliest in a half that is not: too far to be one.
        noteBroken(input.position)
        let until = input.hasEnded ? Int64.max : input.position + Int64(input.capacity / 2)
        if mark == 0x2D { unended.comment.until = until } else { unended.data.until = until }
        input.skip(4)
        return true
      }
    }
  }

  /// Takes the tag at the window's start; false when it is broken, and then the window is past its `<`.
  private func takeTag() throws(HealthError) -> Bool {
    var index = 1
    var quote: UInt8 = 0
    while true {
      let count = input.available
      let bytes = input.current
      while index < count {
        let byte = bytes[index]
        if quote != 0 {
          if byte == quote { quote = 0 }
        } else if byte == 0x22 || byte == 0x27 {
          quote = byte
        } else if byte == 0x3E {
          tag = UnsafeBufferPointer(start: UnsafePointer(bytes), count: index + 1)
          tagPosition = input.position
          input.skip(index + 1)
          return true
        }
        // No tag holds a `<`: this one was not ended, and another begins.
        if byte == 0x3C { break }
        index += 1
      }
      var isBroken = index < count
      if !isBroken { isBroken = try !input.more() }
      if isBroken {
        noteBroken(input.position)
        input.skip(1)
        return false
      }
    }
  }

  private func noteBroken(_ position: Int64) { if broken == nil { broken = position } }

  // MARK: In a tag

  /// Calls `body` with each attribute's name and value, as they stand in the tag. A name may hold blanks, as some exports have them.
  @inline(__always)
  static func attributes(
    _ tag: UnsafeBufferPointer<UInt8>, _ body: (UnsafeBufferPointer<UInt8>, UnsafeBufferPointer<UInt8>) -> Void
  ) {
    let count = tag.count
    var index = 1
    while index < count, tag[index] > 0x20, tag[index] != 0x3E, tag[index] != 0x2F || index == 1 { index += 1 }
    while true {
      while index < count, tag[index] <= 0x20 { index += 1 }
      let name = index
      while index < count, tag[index] != 0x3D, tag[index] != 0x22, tag[index] != 0x27 { index += 1 }
      if index >= count { return }
      if tag[index] != 0x3D {
        // A value without a name: over it.
        let quote = tag[index]
        index += 1
        while index < count, tag[index] != quote { index += 1 }
        index += 1
        continue
      }
      var nameEnd = index
      while nameEnd > name, tag[nameEnd - 1] <= 0x20 { nameEnd -= 1 }
      index += 1
      while index < count, tag[index] <= 0x20 { index += 1 }
      guard index < count else { return }
      let quote = tag[index]
      guard quote == 0x22 || quote == 0x27 else { continue }
      let value = index + 1
      guard value < count, let hit = memchr(tag.baseAddress! + value, Int32(quote), count - value) else { return }
      let end = hit.assumingMemoryBound(to: UInt8.self) - UnsafeMutablePointer(mutating: tag.baseAddress!)
      body(
        UnsafeBufferPointer(rebasing: tag[name..<nameEnd]), UnsafeBufferPointer(rebasing: tag[value..<end]))
      index = end + 1
    }
  }

  /// Text with its entities replaced; what is no UTF-8 is replaced by U+FFFD.
  static func decode(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
    if !bytes.contains(0x26) { return String(decoding: bytes, as: UTF8.self) }
    var out: [UInt8] = []
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      guard byte == 0x26, let end = bytes[index...].prefix(12).firstIndex(of: 0x3B) else {
        out.append(byte)
        index += 1
        continue
      }
      let name = String(decoding: bytes[(index + 1)..<end], as: UTF8.self)
      let named: [String: String] = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'"]
      if let text = named[name] {
        out += Array(text.utf8)
      } else if name.hasPrefix("#"), let scalar = scalar(name.dropFirst()) {
        out += Array(String(scalar).utf8)
      } else {
        out += bytes[index...end]
      }
      index = end + 1
    }
    return String(decoding: out, as: UTF8.self)
  }

  private static func scalar(_ digits: Substring) -> Character? {
    let number = digits.hasPrefix("x") ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits)
    return number.flatMap(Unicode.Scalar.init).map(Character.init)
  }
}

extension UnsafeBufferPointer<UInt8> {
  /// Whether these bytes are that text.
  @inline(__always)
  func equals(_ text: StaticString) -> Bool {
    count == text.utf8CodeUnitCount && (count == 0 || memcmp(baseAddress!, text.utf8Start, count) == 0)
  }
}
