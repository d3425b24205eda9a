/// RFC 6455 framing, with no I/O: bytes in, events out.
public enum Opcode: UInt8, Sendable { case continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10; var isControl: Bool { rawValue >= 8 } }
public enum Message: Sendable, Equatable { case text(String), binary([UInt8]) }
public enum Event: Sendable, Equatable { case message(Message), ping([UInt8]), pong([UInt8]), close(code: UInt16?, reason: String) }
public struct ProtocolError: Error, Sendable, Equatable { public let code: UInt16; public let what: String }

@inline(__always) public func applyMask(_ p: UnsafeMutableRawBufferPointer, key: UInt32, phase: Int) {
  let rotated = phase & 3 == 0 ? key : (key >> UInt32(8 * (phase & 3))) | (key << UInt32(32 - 8 * (phase & 3)))
  let k64 = UInt64(rotated) | UInt64(rotated) << 32
  var i = 0; let n = p.count
  while i + 8 <= n { let v = p.loadUnaligned(fromByteOffset: i, as: UInt64.self) ^ k64; p.storeBytes(of: v, toByteOffset: i, as: UInt64.self); i += 8 }
  while i < n { p[i] ^= UInt8(truncatingIfNeeded: rotated >> UInt32(8 * (i & 3))); i += 1 }
}

public struct FrameEncoder: Sendable {
  public let masks: Bool
  public init(masks: Bool) { self.masks = masks }
  public func encode(_ op: Opcode, _ payload: UnsafeRawBufferPointer, fin: Bool = true, key: UInt32 = .random(in: 0 ... .max)) -> [UInt8] {
    let n = payload.count
    let extra = n < 126 ? 0 : n <= 0xffff ? 2 : 8
    let header = 2 + extra + (masks ? 4 : 0)
    return [UInt8](unsafeUninitializedCapacity: header + n) { buf, count in
      buf[0] = (fin ? 0x80 : 0) | op.rawValue
      buf[1] = (masks ? 0x80 : 0) | UInt8(n < 126 ? n : n <= 0xffff ? 126 : 127)
      for i in 0..<extra { buf[2 + i] = UInt8(truncatingIfNeeded: n >> (8 * (extra - 1 - i))) }
      if masks { for i in 0..<4 { buf[2 + extra + i] = UInt8(truncatingIfNeeded: key >> UInt32(8 * i)) } }
      let body = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buf)[header..<(header + n)])
      if n > 0 { body.copyMemory(from: payload); if masks { applyMask(body, key: key, phase: 0) } }
      count = header + n
    }
  }
}

public struct FrameDecoder: Sendable {
  private let expectsMask: Bool, maxMessage: Int
  private var header: [UInt8] = []
  private var need = 2                       // header bytes needed before the payload
  private var remaining = -1                 // payload bytes still to come; -1: in the header
  private var op = Opcode.text, fin = false, key: UInt32 = 0, phase = 0
  private var control: [UInt8] = [], message: [UInt8] = [], messageOp: Opcode?
  public init(expectsMask: Bool, maxMessage: Int) { self.expectsMask = expectsMask; self.maxMessage = maxMessage }

  public mutating func feed(_ bytes: UnsafeRawBufferPointer, _ emit: (Event) throws -> Void) throws {
    var i = 0
    while i < bytes.count || remaining == 0 {
      if remaining < 0 {
        while header.count < need && i < bytes.count {
          header.append(bytes[i]); i += 1
          if header.count == 2 { let l = header[1] & 0x7f; need = 2 + (l == 126 ? 2 : l == 127 ? 8 : 0) + (header[1] & 0x80 != 0 ? 4 : 0) }
        }
        if header.count < need { return }
        try parseHeader()
      }
      let n = min(remaining, bytes.count - i)
      if n > 0 {
        let slice = UnsafeRawBufferPointer(rebasing: bytes[i..<(i + n)])
        if op.isControl { Self.append(slice, to: &control, key, phase) } else { Self.append(slice, to: &message, key, phase) }
        i += n; remaining -= n; phase += n
      }
      if remaining == 0 { try finish(emit); header.removeAll(keepingCapacity: true); need = 2; remaining = -1; phase = 0 }
    }
  }
  private static func append(_ s: UnsafeRawBufferPointer, to a: inout [UInt8], _ key: UInt32, _ phase: Int) {
    let at = a.count
    a.append(contentsOf: s)
    if key != 0 { a.withUnsafeMutableBytes { applyMask(UnsafeMutableRawBufferPointer(rebasing: $0[at...]), key: key, phase: phase) } }
  }
  private mutating func parseHeader() throws {
    if header[0] & 0x70 != 0 { throw ProtocolError(code: 1002, what: "reserved bits") }
    guard let o = Opcode(rawValue: header[0] & 15) else { throw ProtocolError(code: 1002, what: "opcode") }
    op = o; fin = header[0] & 0x80 != 0
    let masked = header[1] & 0x80 != 0
    if masked != expectsMask { throw ProtocolError(code: 1002, what: "masking") }
    var length = UInt64(header[1] & 0x7f), p = 2
    if length == 126 { length = UInt64(header[2]) << 8 | UInt64(header[3]); p = 4 } else if length == 127 { length = header[2..<10].reduce(0) { $0 << 8 | UInt64($1) }; p = 10 }
    key = masked ? UInt32(header[p]) | UInt32(header[p + 1]) << 8 | UInt32(header[p + 2]) << 16 | UInt32(header[p + 3]) << 24 : 0
    if op.isControl {
      if !fin || length > 125 { throw ProtocolError(code: 1002, what: "control frame") }
      control.removeAll(keepingCapacity: true)
    } else {
      if (op == .continuation) != (messageOp != nil) { throw ProtocolError(code: 1002, what: "continuation") }
      if length > UInt64(maxMessage - message.count) { throw ProtocolError(code: 1009, what: "message over \(maxMessage) bytes") }
      if op != .continuation { messageOp = op }
      if fin { message.reserveCapacity(message.count + Int(length)) }
    }
    remaining = Int(length)
  }
  private mutating func finish(_ emit: (Event) throws -> Void) throws {
    switch op {
    case .ping: try emit(.ping(control))
    case .pong: try emit(.pong(control))
    case .close:
      if control.count == 1 { throw ProtocolError(code: 1002, what: "close payload") }
      let code = control.count >= 2 ? UInt16(control[0]) << 8 | UInt16(control[1]) : nil
      guard let reason = String(validating: control.dropFirst(2), as: UTF8.self) else { throw ProtocolError(code: 1007, what: "close reason") }
      try emit(.close(code: code, reason: reason))
    default:
      guard fin, let kind = messageOp else { return }
      let body = message; message = []; messageOp = nil
      if kind == .binary { try emit(.message(.binary(body))) } else {
        guard let s = String(validating: body, as: UTF8.self) else { throw ProtocolError(code: 1007, what: "text is not UTF-8") }
        try emit(.message(.text(s)))
      }
    }
  }
}
