/// EncoderProtocol: what a camera's clip and `talknode-encoder` say to each other over two pipes: values and their coding, no IO.
///
/// A message is a kind (1 byte), the payload's length (4 bytes) and the payload; numbers have their lowest byte first. The clip's side sends
/// *begin*, then *frame* and *sound* in any order, then *finish*; it is answered *ready* once and *movie* at the end, or *failed* at any time,
/// after which nothing more is read. The end of the input without *finish* means that the clip is not wanted.

/// What is said is against the protocol.
public struct EncoderProtocolError: Error, Sendable, Equatable, CustomStringConvertible {
  public let description: String
  init(_ description: String) { self.description = description }
}

/// A message without its meaning.
public struct EncoderMessage: Sendable, Equatable {
  public var kind: UInt8
  public var payload: [UInt8]
  public init(kind: UInt8, payload: [UInt8]) {
    self.kind = kind
    self.payload = payload
  }

  /// Bytes in front of a payload.
  public static let headBytes = 5
  /// The longest payload that an encoder takes: a JPEG or raw frame of 64 MiB.
  public static let longestRequest = 64 << 20

  public var wire: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Self.headBytes + payload.count)
    bytes.append(kind)
    bytes.append(number: UInt32(payload.count))
    bytes += payload
    return bytes
  }
}

/// Takes messages out of a stream, however it is cut.
public struct EncoderMessageReader: Sendable {
  private let longest: Int
  private var head: [UInt8] = []
  private var payload: [UInt8] = []
  private var missing: Int?

  /// `longest` is the longest payload that is taken, in bytes.
  public init(longest: Int) { self.longest = longest }

  /// Whether the stream may end here.
  public var isBetweenMessages: Bool { head.isEmpty }

  /// Reads on. What is announced longer than allowed is refused before any of it is kept.
  public mutating func feed(_ bytes: UnsafeRawBufferPointer) throws(EncoderProtocolError) -> [EncoderMessage] {
    var messages: [EncoderMessage] = []
    var rest = bytes[...]
    while true {
      if missing == nil {
        let taken = rest.prefix(EncoderMessage.headBytes - head.count)
        head += taken
        rest = rest.dropFirst(taken.count)
        guard head.count == EncoderMessage.headBytes else { break }
        let length = Int(head.number(at: 1, as: UInt32.self))
        if length > longest { throw EncoderProtocolError("a message of \(length) bytes, more than \(longest)") }
        missing = length
        // What is announced may never come.
        payload.reserveCapacity(min(length, 8 << 20))
      }
      guard let wanted = missing else { break }
      let taken = rest.prefix(wanted)
      payload += taken
      rest = rest.dropFirst(taken.count)
      missing = wanted - taken.count
      guard missing == 0 else { break }
      messages.append(EncoderMessage(kind: head[0], payload: payload))
      head = []
      payload = []
      missing = nil
    }
    return messages
  }
}

extension [UInt8] {
  mutating func append<Number: FixedWidthInteger>(number: Number) {
    for shift in stride(from: 0, to: Number.bitWidth, by: 8) { append(UInt8(truncatingIfNeeded: number >> shift)) }
  }

  /// The number that begins at `offset`. There must be as many bytes.
  func number<Number: FixedWidthInteger>(at offset: Int, as type: Number.Type) -> Number {
    (0..<Number.bitWidth / 8).reduce(0) { $0 | Number(truncatingIfNeeded: self[offset + $1]) << (8 * $1) }
  }
}
