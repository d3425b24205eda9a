/// What a clip is to be made of.
public struct ClipFormat: Sendable, Equatable {
  public var width: Int
  public var height: Int
  /// Frames a second as the camera promises. The frames' own times count.
  public var fps: Double
  /// nil for a clip without sound.
  public var audio: Audio?
  /// The most bytes the finished clip may have.
  public var maxBytes: Int
  /// How long the clip will be; with `maxBytes` it gives the bit rate.
  public var duration: Duration
  /// A hardware encoder is to be tried first.
  public var prefersHardware: Bool

  public struct Audio: Sendable, Equatable {
    public var sampleRate: Int
    public var channels: Int
    public init(sampleRate: Int, channels: Int) {
      self.sampleRate = sampleRate
      self.channels = channels
    }
  }

  public init(
    width: Int, height: Int, fps: Double, audio: Audio?, maxBytes: Int, duration: Duration,
    prefersHardware: Bool = false
  ) {
    self.width = width
    self.height = height
    self.fps = fps
    self.audio = audio
    self.maxBytes = maxBytes
    self.duration = duration
    self.prefersHardware = prefersHardware
  }
}

/// Makes an MP4 of frames and sound. One clip a writer; calls come one after the other.
///
/// Frames are I420 (`PixelFormat.yuv420`) in rows without padding, width and height even and as `ClipFormat` says, BT.601 in limited range.
/// Times are nanoseconds from the clip's beginning: the first frame has 0, and they grow.
public protocol ClipWriter: Sendable {
  func begin(_ format: ClipFormat) async throws(CameraError)
  func write(frame: Frame) async throws(CameraError)
  /// Interleaved samples, of which the first was heard at `atNs`.
  func write(sound: [Int16], atNs: UInt64) async throws(CameraError)
  /// The whole clip. Throws `tooLarge` when it has over `maxBytes`.
  func finish() async throws(CameraError) -> [UInt8]
  /// Ends at once without a clip, when the camera failed in the middle or the clip is not wanted any more. It may come at any time, before
  /// or during `begin` too: what is called after it throws `stopped`. Nothing happens after `finish`.
  func cancel() async
}
