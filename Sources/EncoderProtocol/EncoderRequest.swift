/// What clip is to be made.
public struct ClipOrder: Sendable, Equatable {
  /// Pixels, even, 16…8192.
  public var width: Int
  public var height: Int
  /// Frames a thousand seconds, 100…1,000,000: what the camera promises. The frames' own times count.
  public var milliframes: Int
  /// 1…600,000; with `maxBytes` it gives the bit rate.
  public var milliseconds: Int
  /// The most bytes of the clip, at least 1.
  public var maxBytes: Int
  /// Samples a second, 8000…192,000; 0 = no sound.
  public var sampleRate: Int
  /// 1 or 2.
  public var channels: Int
  /// A hardware encoder is to be tried first.
  public var prefersHardware: Bool

  public init(
    width: Int, height: Int, milliframes: Int, milliseconds: Int, maxBytes: Int, sampleRate: Int = 0,
    channels: Int = 1, prefersHardware: Bool = false
  ) {
    self.width = width
    self.height = height
    self.milliframes = milliframes
    self.milliseconds = milliseconds
    self.maxBytes = maxBytes
    self.sampleRate = sampleRate
    self.channels = channels
    self.prefersHardware = prefersHardware
  }

  public var hasSound: Bool { sampleRate > 0 }
  /// Bytes of one I420 frame.
  public var frameBytes: Int { width * height * 3 / 2 }

  /// What is wrong with it; nil when it can be tried.
  public var fault: String? {
    if !(16...8192).contains(width) || !(16...8192).contains(height) || width % 2 != 0 || height % 2 != 0 {
      return "a picture of \(width)×\(height); both must be even and 16…8192"
    }
    if !(100...1_000_000).contains(milliframes) { return "\(milliframes) frames a thousand seconds" }
    if !(1...600_000).contains(milliseconds) { return "a length of \(milliseconds) ms" }
    if maxBytes < 1 { return "a limit of no bytes" }
    if sampleRate != 0 && !(8000...192_000).contains(sampleRate) { return "\(sampleRate) samples a second" }
    if !(1...2).contains(channels) { return "\(channels) channels" }
    return nil
  }
}

/// What the clip's side says.
public enum EncoderRequest: Sendable, Equatable {
  public enum Picture: UInt8, Sendable {
    /// Planes of Y, U and V in rows without padding, of the ordered size; BT.601 in limited range.
    case i420 = 0
    /// A whole JPEG of any size.
    case jpeg = 1
  }

  case begin(ClipOrder)
  /// Nanoseconds from the clip's beginning; they grow from frame to frame.
  case frame(Picture, at: UInt64, [UInt8])
  /// Interleaved 16-bit samples, lowest byte first, of which the first was heard at that time.
  case sound(at: UInt64, [UInt8])
  case finish

  private enum Kind {
    static let begin = UInt8(ascii: "b")
    static let frame = UInt8(ascii: "f")
    static let sound = UInt8(ascii: "s")
    static let finish = UInt8(ascii: "e")
  }
  private static let beginBytes = 22
  /// No clip is longer than this, in nanoseconds: an hour.
  public static let latest: UInt64 = 3_600_000_000_000

  public var message: EncoderMessage {
    var payload: [UInt8] = []
    switch self {
    case .begin(let order):
      payload.append(number: UInt16(clamping: order.width))
      payload.append(number: UInt16(clamping: order.height))
      for number in [order.milliframes, order.milliseconds, order.maxBytes, order.sampleRate] {
        payload.append(number: UInt32(clamping: number))
      }
      payload.append(UInt8(clamping: order.channels))
      payload.append(order.prefersHardware ? 1 : 0)
      return EncoderMessage(kind: Kind.begin, payload: payload)
    case .frame(let picture, let at, let bytes):
      payload.reserveCapacity(9 + bytes.count)
      payload.append(number: at)
      payload.append(picture.rawValue)
      payload += bytes
      return EncoderMessage(kind: Kind.frame, payload: payload)
    case .sound(let at, let bytes):
      payload.reserveCapacity(8 + bytes.count)
      payload.append(number: at)
      payload += bytes
      return EncoderMessage(kind: Kind.sound, payload: payload)
    case .finish:
      return EncoderMessage(kind: Kind.finish, payload: [])
    }
  }

  /// Reads a message of the clip's side.
  public init(_ message: EncoderMessage) throws(EncoderProtocolError) {
    let payload = message.payload
    func time() throws(EncoderProtocolError) -> UInt64 {
      if payload.count < 9 { throw EncoderProtocolError("a frame or sound without content") }
      let at = payload.number(at: 0, as: UInt64.self)
      if at > Self.latest { throw EncoderProtocolError("a time of \(at) ns") }
      return at
    }
    switch message.kind {
    case Kind.begin:
      guard payload.count == Self.beginBytes else { throw EncoderProtocolError("a beginning of another length") }
      let numbers = (0..<4).map { Int(payload.number(at: 4 + 4 * $0, as: UInt32.self)) }
      let order = ClipOrder(
        width: Int(payload.number(at: 0, as: UInt16.self)), height: Int(payload.number(at: 2, as: UInt16.self)),
        milliframes: numbers[0], milliseconds: numbers[1], maxBytes: numbers[2], sampleRate: numbers[3],
        channels: Int(payload[20]), prefersHardware: payload[21] & 1 != 0)
      if let fault = order.fault { throw EncoderProtocolError(fault) }
      self = .begin(order)
    case Kind.frame:
      let at = try time()
      guard let picture = Picture(rawValue: payload[8]) else {
        throw EncoderProtocolError("a picture of kind \(payload[8])")
      }
      self = .frame(picture, at: at, Array(payload[9...]))
    case Kind.sound:
      let at = try time()
      self = .sound(at: at, Array(payload[8...]))
    case Kind.finish:
      if !payload.isEmpty { throw EncoderProtocolError("an end with content") }
      self = .finish
    default:
      throw EncoderProtocolError("a message of kind \(message.kind)")
    }
  }
}
