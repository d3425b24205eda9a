/// The kinds of frame (RFC 6455 §5.2).
package enum Opcode: UInt8, Sendable {
  case continuation = 0
  case text = 1
  case binary = 2
  case close = 8
  case ping = 9
  case pong = 10
  var isControl: Bool { rawValue >= 8 }
}

/// Writes frames: payload in, wire bytes out. No I/O.
package struct FrameEncoder: Sendable {
  /// Clients mask, servers don't (§5.1).
  package let masks: Bool
  package init(masks: Bool) { self.masks = masks }

  /// Appends one frame to `output`. A client's key is new and unpredictable for each frame unless one is given.
  package func append(
    _ opcode: Opcode, _ payload: [UInt8], isFinal: Bool = true, key: UInt32? = nil, to output: inout [UInt8]
  ) {
    let count = payload.count
    output.reserveCapacity(output.count + count + 14)
    output.append((isFinal ? 0x80 : 0) | opcode.rawValue)
    let lengthBytes = count < 126 ? 0 : count <= 0xFFFF ? 2 : 8
    output.append((masks ? 0x80 : 0) | (lengthBytes == 0 ? UInt8(count) : lengthBytes == 2 ? 126 : 127))
    for index in (0..<lengthBytes).reversed() { output.append(UInt8(truncatingIfNeeded: count >> (8 * index))) }
    guard masks else { return output.append(contentsOf: payload) }
    let key = key ?? UInt32.random(in: 0 ... .max)
    for index in 0..<4 { output.append(UInt8(truncatingIfNeeded: key >> UInt32(8 * index))) }
    let start = output.count
    output.append(contentsOf: payload)
    output.withUnsafeMutableBytes {
      Mask.apply(key, to: UnsafeMutableRawBufferPointer(rebasing: $0[start...]), phase: 0)
    }
  }

  /// A close frame. Codes that never stand on the wire (1005, 1006, 0) make an empty one; the reason is cut to the 123 bytes
  /// that a control frame has room for, at a character.
  package func appendClose(_ code: UInt16, _ reason: String, to output: inout [UInt8]) {
    guard CloseCode.isSendable(code) else { return append(.close, [], to: &output) }
    var payload = [UInt8(code >> 8), UInt8(code & 255)]
    for character in reason {
      if payload.count + character.utf8.count > 125 { break }
      payload.append(contentsOf: character.utf8)
    }
    append(.close, payload, to: &output)
  }
}

/// What a close frame may say (RFC 6455 §7.4 and the registry it opened).
enum CloseCode {
  static func isSendable(_ code: UInt16) -> Bool {
    switch code {
    case 1000...1003, 1007...1014, 3000...4999: true
    default: false
    }
  }
}
