/// Reads frames: wire bytes in, events out, however they are cut. No I/O, bounded by `maxMessage`, total.
package struct FrameDecoder: Sendable {
  package enum Event: Sendable, Equatable {
    case message(Message)
    case ping([UInt8])
    case pong([UInt8])
    /// `code` is 1005 when there was none.
    case close(code: UInt16, reason: String)
  }

  /// What the peer did wrong, and the code to close with (RFC 6455 §7.4).
  package struct Violation: Error, Sendable, Equatable {
    package let code: UInt16
    package let what: String
  }

  /// The longest message taken, in bytes. May be changed between messages; one that has begun is held to the new value.
  package var maxMessage: Int
  private let expectsMask: Bool
  private var header: [UInt8] = []
  /// How long the header will be, as far as is known.
  private var headerLength = 2
  /// Payload bytes of this frame still to come; nil inside a header.
  private var remaining: Int?
  private var opcode = Opcode.text
  private var isFinal = false
  private var key: UInt32 = 0
  private var phase = 0
  private var control: [UInt8] = []
  private var message: [UInt8] = []
  private var messageOpcode: Opcode?

  /// A server expects masked frames, a client unmasked ones.
  package init(expectsMask: Bool, maxMessage: Int) {
    self.expectsMask = expectsMask
    self.maxMessage = maxMessage
  }

  /// Takes the next bytes and calls `emit` for each event they complete. After a `Violation` the decoder must not be used again.
  package mutating func feed(_ bytes: UnsafeRawBufferPointer, _ emit: (Event) -> Void) throws(Violation) {
    var index = 0
    while true {
      if remaining == nil {
        if index == bytes.count { return }
        try takeHeader(bytes, &index)
        if header.count < headerLength { return }
        try readLength()
      }
      let count = min(remaining!, bytes.count - index)
      if count > 0 {
        let piece = UnsafeRawBufferPointer(rebasing: bytes[index..<(index + count)])
        if opcode.isControl {
          Self.append(piece, to: &control, key, phase)
        } else {
          Self.append(piece, to: &message, key, phase)
        }
        index += count
        phase += count
        remaining! -= count
      }
      if remaining! > 0 { return }
      try endFrame(emit)
      header.removeAll(keepingCapacity: true)
      headerLength = 2
      remaining = nil
      phase = 0
    }
  }

  private mutating func takeHeader(_ bytes: UnsafeRawBufferPointer, _ index: inout Int) throws(Violation) {
    while header.count < headerLength && index < bytes.count {
      header.append(bytes[index])
      index += 1
      if header.count == 2 { try readStart() }
    }
  }

  // Static, because `self.append(…, to: &self.message)` would hold two references to the array and copy it for every piece.
  private static func append(_ piece: UnsafeRawBufferPointer, to array: inout [UInt8], _ key: UInt32, _ phase: Int) {
    let start = array.count
    array.append(contentsOf: piece)
    if key == 0 { return }
    array.withUnsafeMutableBytes {
      Mask.apply(key, to: UnsafeMutableRawBufferPointer(rebasing: $0[start...]), phase: phase)
    }
  }

  /// The first two bytes say how long the header is, and whether the rest is worth waiting for.
  private mutating func readStart() throws(Violation) {
    if header[0] & 0x70 != 0 { throw Violation(code: 1002, what: "a reserved bit is set") }
    guard let opcode = Opcode(rawValue: header[0] & 15) else { throw Violation(code: 1002, what: "unknown opcode") }
    self.opcode = opcode
    isFinal = header[0] & 0x80 != 0
    let isMasked = header[1] & 0x80 != 0
    if isMasked != expectsMask {
      throw Violation(code: 1002, what: isMasked ? "a server's frame is masked" : "a client's frame is not masked")
    }
    let length = header[1] & 0x7F
    if opcode.isControl {
      if !isFinal || length > 125 { throw Violation(code: 1002, what: "a control frame is fragmented or too long") }
    } else if (opcode == .continuation) != (messageOpcode != nil) {
      throw Violation(code: 1002, what: "a message begins inside another, or goes on without a beginning")
    }
    headerLength = 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + (isMasked ? 4 : 0)
  }

  private mutating func readLength() throws(Violation) {
    var length = UInt64(header[1] & 0x7F)
    var position = 2
    if length >= 126 {
      let end = length == 126 ? 4 : 10
      length = header[2..<end].reduce(0) { $0 << 8 | UInt64($1) }
      position = end
      // §5.2: the first bit of eight length bytes is 0.
      if length >> 63 != 0 { throw Violation(code: 1002, what: "a length has its first bit set") }
    }
    key = expectsMask ? (0..<4).reduce(0) { $0 | UInt32(header[position + $1]) << UInt32(8 * $1) } : 0
    if opcode.isControl {
      control.removeAll(keepingCapacity: true)
    } else {
      if length > UInt64(max(0, maxMessage - message.count)) {
        throw Violation(code: 1009, what: "a message is over \(maxMessage) bytes")
      }
      if opcode != .continuation { messageOpcode = opcode }
      if isFinal { message.reserveCapacity(message.count + Int(length)) }
    }
    remaining = Int(length)
  }

  private mutating func endFrame(_ emit: (Event) -> Void) throws(Violation) {
    switch opcode {
    case .ping: emit(.ping(control))
    case .pong: emit(.pong(control))
    case .close: emit(try closing())
    case .text, .binary, .continuation:
      guard isFinal, let kind = messageOpcode else { return }
      var bytes: [UInt8] = []
      swap(&bytes, &message)
      messageOpcode = nil
      if kind == .text && !isUTF8(bytes) { throw Violation(code: 1007, what: "a text message is not UTF-8") }
      emit(.message(Message(bytes: bytes, isText: kind == .text)))
    }
  }

  private func closing() throws(Violation) -> Event {
    if control.isEmpty { return .close(code: 1005, reason: "") }
    if control.count == 1 { throw Violation(code: 1002, what: "a close frame has half a code") }
    let code = UInt16(control[0]) << 8 | UInt16(control[1])
    if !CloseCode.isSendable(code) { throw Violation(code: 1002, what: "a close frame has the code \(code)") }
    guard let reason = String(validating: control.dropFirst(2), as: UTF8.self) else {
      throw Violation(code: 1007, what: "a close reason is not UTF-8")
    }
    return .close(code: code, reason: reason)
  }
}

/// Whether `bytes` are well-formed UTF-8, without making a string of them.
package func isUTF8(_ bytes: [UInt8]) -> Bool {
  do {
    _ = try UTF8Span(validating: bytes.span)
    return true
  } catch {
    return false
  }
}
