/// How many bits a second a clip's picture and sound may have, so that the clip stays under its limit.
public struct BitBudget: Sendable, Equatable {
  /// The most bits a second of the picture. An encoder may take `reserve` seconds' worth at once.
  public let video: Int
  /// Bits a second of the sound; 0 without.
  public let audio: Int

  /// Seconds that the picture's rate may be taken in advance (the encoder's buffer).
  public static let reserve = 1.0
  /// Below this a picture is not worth its name.
  private static let leastVideo = 24_000.0

  /// Nil when the limit is too small for any picture of this length.
  public init?(_ order: ClipOrder) {
    let seconds = max(0.25, Double(order.milliseconds) / 1000)
    let frames = Double(order.milliframes) / 1000 * seconds
    let packets = order.hasSound ? Double(max(order.sampleRate, 44_100)) / 1024 * seconds : 0
    // What the file says of its frames: size, time and place of each, with a chunk a frame in the worst case; and its heads.
    let tables = 3000 + frames * 24 + packets * 16
    let bits = (Double(order.maxBytes) - tables) * 8 * 0.95
    var sound = 0.0
    if order.hasSound {
      let wished = order.channels == 2 ? 128_000.0 : 96_000.0
      sound = max(24_000, min(wished, bits / seconds / 4))
    }
    let rest = (bits - sound * (seconds + 0.1)) / (seconds + Self.reserve)
    if rest < Self.leastVideo { return nil }
    // More than this can't be seen, and nobody waits gladly for it: 0.2 bits a pixel, for a webcam's noise is not worth more.
    let enough = max(1_000_000, Double(order.width * order.height) * Double(order.milliframes) / 1000 * 0.2)
    video = Int(min(rest, enough))
    audio = Int(sound)
  }
}
