/// The head of an HTTP/1.1 request or response (RFC 9112), as much of it as an upgrade needs. Total and bounded: any bytes give a
/// head or a reason.
package struct HTTPHead: Sendable, Equatable {
  package enum Start: Sendable, Equatable {
    case request(method: String, target: String)
    case response(status: Int, reason: String)
  }
  package enum Kind: Sendable { case request, response }

  /// Why some bytes are no head.
  package struct Malformed: Error, Sendable, Equatable {
    package let what: String
    /// Whether it was refused for its size alone.
    package let isTooLong: Bool
    init(_ what: String, isTooLong: Bool = false) {
      self.what = what
      self.isTooLong = isTooLong
    }
  }

  package let start: Start
  /// Names in small letters; a repeated header's values joined with ", ".
  package let headers: [String: String]

  /// Reads a whole head, its empty last line included.
  package init(_ bytes: ArraySlice<UInt8>, _ kind: Kind) throws(Malformed) {
    var lines = try Self.lines(bytes)
    if lines.isEmpty { throw Malformed("there is no first line") }
    let first = lines.removeFirst()
    start = try kind == .request ? Self.request(first) : Self.response(first)
    if lines.count > 100 { throw Malformed("there are over 100 headers", isTooLong: true) }
    var headers: [String: String] = [:]
    for line in lines {
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
        line[..<colon].allSatisfy(Self.isToken)
      else { throw Malformed("a header has no name") }
      let name = String(decoding: line[..<colon], as: UTF8.self).lowercased()
      let value = String(decoding: Self.trimmed(line[(colon + 1)...]), as: UTF8.self)
      headers[name] = headers[name].map { $0 + ", " + value } ?? value
    }
    self.headers = headers
  }

  /// A response's status; 0 for a request.
  package var status: Int {
    if case .response(let status, _) = start { return status }
    return 0
  }

  /// A response's status with its phrase, cut short, for people.
  var statusText: String {
    guard case .response(let status, let reason) = start else { return "" }
    return reason.isEmpty ? "\(status)" : "\(status) \(reason.prefix(80))"
  }

  /// Whether a header's comma-separated list has `word` in it, in any case.
  package func lists(_ word: String, in name: String) -> Bool {
    guard let value = headers[name] else { return false }
    return value.split(separator: ",").contains { item in
      String(decoding: Self.trimmed(ArraySlice(item.utf8)), as: UTF8.self).lowercased() == word
    }
  }

  // MARK: Grammar

  /// The lines before the empty one. Bare line feeds, folded lines and control characters are refused: what reads them
  /// differently elsewhere could be told two stories by one head.
  private static func lines(_ bytes: ArraySlice<UInt8>) throws(Malformed) -> [ArraySlice<UInt8>] {
    var lines: [ArraySlice<UInt8>] = []
    var begin = bytes.startIndex
    var index = bytes.startIndex
    while index < bytes.endIndex {
      let byte = bytes[index]
      if byte == 13 {
        guard index + 1 < bytes.endIndex, bytes[index + 1] == 10 else { throw Malformed("a line end is half") }
        if index == begin {
          if index + 2 != bytes.endIndex { throw Malformed("something follows the head") }
          return lines
        }
        lines.append(bytes[begin..<index])
        index += 2
        begin = index
        continue
      }
      if byte < 32 && byte != 9 || byte == 127 { throw Malformed("there is a control character") }
      if index == begin && !lines.isEmpty && (byte == 32 || byte == 9) { throw Malformed("a header is folded") }
      index += 1
    }
    throw Malformed("the head does not end")
  }

  private static func request(_ line: ArraySlice<UInt8>) throws(Malformed) -> Start {
    let parts = line.split(separator: 32, omittingEmptySubsequences: false)
    guard parts.count == 3, !parts[0].isEmpty, parts[0].allSatisfy(isToken), !parts[1].isEmpty,
      parts[2].elementsEqual("HTTP/1.1".utf8)
    else { throw Malformed("the first line is no HTTP/1.1 request") }
    return .request(
      method: String(decoding: parts[0], as: UTF8.self), target: String(decoding: parts[1], as: UTF8.self))
  }

  private static func response(_ line: ArraySlice<UInt8>) throws(Malformed) -> Start {
    let parts = line.split(separator: 32, maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count >= 2, parts[0].elementsEqual("HTTP/1.1".utf8) || parts[0].elementsEqual("HTTP/1.0".utf8),
      parts[1].count == 3, let status = Int(String(decoding: parts[1], as: UTF8.self)), status >= 100
    else { throw Malformed("the first line is no HTTP status") }
    return .response(status: status, reason: parts.count == 3 ? String(decoding: parts[2], as: UTF8.self) : "")
  }

  private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let front = bytes.drop { $0 == 32 || $0 == 9 }
    let end = front.lastIndex { $0 != 32 && $0 != 9 }.map { $0 + 1 } ?? front.startIndex
    return front[..<end]
  }

  /// The characters of a header's name or a method (RFC 9110 §5.6.2).
  static func isToken(_ byte: UInt8) -> Bool {
    switch byte {
    case 48...57, 65...90, 97...122: true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }
}

/// Collects a head from pieces, at most 16 KiB of it.
package struct HTTPHeadReader: Sendable {
  package static let limit = 16_384
  private let kind: HTTPHead.Kind
  private var bytes: [UInt8] = []
  private var searched = 0

  package init(_ kind: HTTPHead.Kind) { self.kind = kind }

  /// The head and what came after it, once it is whole; nil before.
  package mutating func feed(
    _ piece: UnsafeRawBufferPointer
  ) throws(HTTPHead.Malformed) -> (head: HTTPHead, rest: [UInt8])? {
    bytes.append(contentsOf: piece)
    if let end = endOfHead() {
      if end > Self.limit { throw HTTPHead.Malformed("the head is over 16 KiB", isTooLong: true) }
      return (try HTTPHead(bytes[..<end], kind), Array(bytes[end...]))
    }
    if bytes.count > Self.limit { throw HTTPHead.Malformed("the head is over 16 KiB", isTooLong: true) }
    // Another protocol's greeting need not be awaited to its end.
    if kind == .response && !zip(bytes, "HTTP/1.".utf8).allSatisfy({ $0 == $1 }) {
      throw HTTPHead.Malformed("the answer is no HTTP")
    }
    return nil
  }

  private mutating func endOfHead() -> Int? {
    var index = max(0, searched - 3)
    while index + 4 <= bytes.count {
      if bytes[index] == 13 && bytes[index + 1] == 10 && bytes[index + 2] == 13 && bytes[index + 3] == 10 {
        return index + 4
      }
      index += 1
    }
    searched = bytes.count
    return nil
  }
}
