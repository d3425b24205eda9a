import System

/// What clip is wanted.
public struct ClipRequest: Sendable {
  /// nil: the settings' camera, else the first.
  public var device: String?
  /// 250…60,000 ms.
  public var duration: Duration
  public var maxBytes: Int
  /// The most pixels across.
  public var width: Int
  /// The most time it may take beyond its duration.
  public var limit: Duration

  public init(
    device: String? = nil, duration: Duration = .seconds(3), maxBytes: Int = ClipRequest.wireBytes, width: Int = 1280,
    limit: Duration = .seconds(25)
  ) {
    self.device = device
    self.duration = duration
    self.maxBytes = maxBytes
    self.width = width
    self.limit = limit
  }

  /// The most bytes of a clip on the wire (node-commands §15.2).
  public static let wireBytes = 18_874_368
}

/// A clip that was made.
public struct Clip: Sendable {
  /// An MP4 file.
  public var bytes: [UInt8]
  public var size: Size
  public var frames: Int
  /// Frames that were damaged or came faster than they could be encoded.
  public var framesDropped: Int
  public var hasSound: Bool
}

extension Cameras {
  /// Makes a clip: frames from a camera with their own times, sound on the same clock. `sound` nil makes a silent one.
  ///
  /// Throws why there is none; what was begun is ended then: the writer cancelled, the microphone given back.
  public nonisolated func clip(
    _ request: ClipRequest, to writer: any ClipWriter, sound: (any ClipSound)? = nil
  ) async throws(CameraError) -> Clip {
    do throws(CameraError) {
      return try await within(request.duration + request.limit) { [self] () async throws(CameraError) in
        try await record(request, writer, sound)
      }
    } catch {
      await writer.cancel()
      await sound?.end()
      throw error
    }
  }

  @concurrent
  private nonisolated func record(
    _ request: ClipRequest, _ writer: any ClipWriter, _ sound: (any ClipSound)?
  ) async throws(CameraError) -> Clip {
    let device = try await device(request.device)
    // At the deadline this is left behind, and what it was given is ended: it begins nothing after that.
    if Task.isCancelled { throw CameraError.clipUnwanted }
    // The microphone first: when somebody else has it, the camera's light need not go on.
    try await sound?.begin()
    if Task.isCancelled {
      await sound?.end()
      throw CameraError.clipUnwanted
    }
    let frames = try await frames(of: device, CaptureWish(.motion, width: request.width))
    defer { frames.end() }
    // The encoder is told the size of the frames as they are. It may take a while to start, so that the clip begins after that.
    let sample = try await settled(frames, device)
    if Task.isCancelled { throw CameraError.clipUnwanted }
    let recorder = ClipRecorder(request, writer, sound, sample.size, prefersHardware: settings.prefersHardwareEncoder)
    let clip = try await recorder.run(frames)
    await sound?.end()
    return clip
  }

  /// The first frame to show: whole, and with the exposure at rest.
  private nonisolated func settled(
    _ frames: FrameSubscription, _ device: CameraDevice
  ) async throws(CameraError) -> InspectedFrame {
    var choice = FrameChoice(
      delay: nil, askedNs: Monotonic.nanoseconds(), startedNs: frames.startedNs, hasExposure: device.origin != .program)
    while let frame = try await frames.next() {
      guard choice.wants(frame) else { continue }
      do throws(CameraError) {
        let inspected = try InspectedFrame(frame)
        if choice.takes(inspected) { return inspected }
      } catch {
        guard error.code == .damaged else { throw error }
        if let end = choice.dropped(error, at: Monotonic.nanoseconds(), of: device.name) { throw end }
      }
    }
    throw CameraError.clipUnwanted
  }

}
