import System

/// What picture is wanted.
public struct SnapRequest: Sendable {
  /// nil: the settings' camera, else the first.
  public var device: String?
  public var limits: Picture.Limits
  /// Take it this long after the camera delivers; nil: as soon as its exposure has settled.
  public var delay: Duration?
  /// Only these formats of the camera's; nil leaves it to the choice.
  public var formats: [PixelFormat]?
  /// The most time it may take, `delay` included.
  public var limit: Duration

  public init(
    device: String? = nil, limits: Picture.Limits = Picture.Limits(), delay: Duration? = nil,
    formats: [PixelFormat]? = nil, limit: Duration = .seconds(20)
  ) {
    self.device = device
    self.limits = limits
    self.delay = delay
    self.formats = formats
    self.limit = limit
  }
}

extension Cameras {
  /// Takes a picture. Throws why there is none; `timedOut` when it took longer than the request's limit.
  public nonisolated func snap(_ request: SnapRequest) async throws(CameraError) -> Picture {
    try await within(request.limit) { [self] () async throws(CameraError) in try await take(request) }
  }

  @concurrent
  private nonisolated func take(_ request: SnapRequest) async throws(CameraError) -> Picture {
    let device = try await device(request.device)
    let asked = Monotonic.nanoseconds()
    let wish = CaptureWish(.picture, width: request.limits.width, formats: request.formats)
    let frames = try await frames(of: device, wish)
    defer { frames.end() }
    var choice = FrameChoice(
      delay: request.delay, askedNs: asked, startedNs: frames.startedNs, hasExposure: device.origin != .program)
    while let frame = try await frames.next() {
      guard choice.wants(frame) else { continue }
      do throws(CameraError) {
        let inspected = try InspectedFrame(frame)
        guard choice.takes(inspected) else { continue }
        var picture = try Picture.make(of: inspected, request.limits)
        picture.framesSeen = choice.seen
        picture.framesDamaged = choice.damaged
        return picture
      } catch {
        guard error.code == .damaged else { throw error }
        if let end = choice.dropped(error, at: Monotonic.nanoseconds(), of: device.name) { throw end }
      }
    }
    throw CameraError.pictureUnwanted
  }
}

/// Runs `body`, which is cancelled and left behind when it has not ended after `limit`: `timedOut`.
func within<Value: Sendable>(
  _ limit: Duration, _ body: @escaping @concurrent @Sendable () async throws(CameraError) -> Value
) async throws(CameraError) -> Value {
  let result: Result<Value, CameraError>
  do {
    result = try await withDeadline(limit) {
      do throws(CameraError) { return .success(try await body()) } catch { return .failure(error) }
    }
  } catch is DeadlineExceeded {
    throw CameraError(
      .timedOut, "The camera gave nothing usable within \((limit.inSeconds * 10).rounded() / 10) s.",
      remedy: "Give it more time, or look at: talknode doctor")
  } catch {
    throw CameraError.pictureUnwanted
  }
  return try result.get()
}

/// Which of a camera's frames becomes the picture. A value: frames and what was found in them go in.
struct FrameChoice: Sendable {
  private let delayNs: UInt64?
  private let askedNs: UInt64
  private let hasExposure: Bool
  private var startedNs: UInt64
  private var exposure = Exposure()
  private var firstDamageNs: UInt64?
  private var good = 0
  private(set) var damaged = 0

  /// How long a camera may deliver nothing but damage.
  private static let damageLimit: UInt64 = 3_000_000_000

  init(delay: Duration?, askedNs: UInt64, startedNs: UInt64, hasExposure: Bool) {
    delayNs = delay.map { UInt64(max(0, $0.milliseconds) * 1e6) }
    self.askedNs = askedNs
    self.startedNs = startedNs
    self.hasExposure = hasExposure
  }

  var seen: Int { good + damaged }

  /// Whether it is worth looking at: not before the delay is over, which runs from the request, or from the camera's first frame.
  mutating func wants(_ frame: Frame) -> Bool {
    if startedNs == 0 { startedNs = frame.atNs }
    guard let delayNs else { return true }
    return frame.atNs >= max(askedNs, startedNs) + delayNs || delayNs == 0
  }

  /// Whether a whole frame is the picture.
  mutating func takes(_ frame: InspectedFrame) -> Bool {
    good += 1
    firstDamageNs = nil
    if delayNs != nil || !hasExposure { return true }
    // A camera that has streamed for so long has settled.
    if frame.frame.atNs >= startedNs + Exposure.longest { return true }
    return exposure.hasSettled(frame.light, atNs: frame.frame.atNs)
  }

  /// A frame was no good. The error when it is time to give up: half a picture is none.
  mutating func dropped(_ error: CameraError, at now: UInt64, of camera: String) -> CameraError? {
    damaged += 1
    let first = firstDamageNs ?? now
    firstDamageNs = first
    if now < first + Self.damageLimit { return nil }
    return CameraError(
      .damaged, "The camera \(camera) delivers only damaged frames. \(error.summary)",
      remedy: "Try another USB socket or cable: talknode camera list")
  }
}
