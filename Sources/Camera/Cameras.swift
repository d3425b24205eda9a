import System

/// The owner of all cameras: lists them, shares each one's frames, takes pictures and clips.
///
/// Pinned to `loop`, and quick there: drivers are asked on threads of their own, pixels are computed elsewhere.
public actor Cameras {
  public nonisolated let loop: EventLoop
  public nonisolated let settings: CameraSettings
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  let places: CameraPlaces
  private let light: UseLight?
  private let probes: NodeProbes
  /// Each camera's feed, and the node it opens: the same camera may come back as another one.
  private var feeds: [String: (feed: FrameFeed, node: String?)] = [:]

  public init(settings: CameraSettings, loop: EventLoop, places: CameraPlaces = CameraPlaces()) {
    self.settings = settings
    self.loop = loop
    self.places = places
    probes = NodeProbes { [places] in NodeProbes.Answer(asking: $0, places) }
    light = settings.led.isEmpty ? nil : UseLight(command: settings.led, loop: loop)
  }

  /// What cameras there are now; a driver that does not answer within 5 s is among the stuck. Throws `stopped` for who is cancelled.
  public nonisolated func find() async throws(CameraError) -> CameraList.Findings {
    let findings = await CameraList(places: places, sources: settings.sources).find(probes)
    if Task.isCancelled { throw CameraError.pictureUnwanted }
    return findings
  }

  /// The camera with this id; for nil the one of the settings, else the first. Throws `noCamera`, `unknownCamera` or `notPermitted`.
  public nonisolated func device(_ id: String?) async throws(CameraError) -> CameraDevice {
    let findings = try await find()
    if let id { return try findings.device(id) }
    return try findings.device(settings.device, isPreference: settings.device != nil)
  }

  /// Whether pictures can be made at all. Throws `missing` when libjpeg-turbo is not there.
  public nonisolated func check() throws(CameraError) { _ = try TurboJPEG.shared.get() }

  /// Frames of a camera, from now on. It is opened as `wish` says when nobody has it yet, and else shared as it is.
  public func frames(of device: CameraDevice, _ wish: CaptureWish) async throws(CameraError) -> FrameSubscription {
    if wish.purpose == .motion, case .program(_, video: [])? = source(of: device) {
      throw CameraError(
        .sourceFailed, "The camera \(device.name) takes pictures only.",
        remedy: "Set video in [camera.source.\(device.name)] to a program that writes JPEGs one after the other.")
    }
    return try await feed(of: device).subscribe(wish)
  }

  /// Closes every camera; returns when they are closed, or are not within 2 s.
  public func close() async {
    let open = feeds.values
    feeds = [:]
    for (feed, _) in open { await feed.stop() }
    await light?.off()
  }

  private func feed(of device: CameraDevice) -> FrameFeed {
    if let (feed, node) = feeds[device.id] {
      if node == device.node { return feed }
      Task { await feed.stop() }
    }
    let make = makeSource(device)
    // A program that takes pictures is another one than that which makes films, of a camera that only one of them can have.
    let feed = FrameFeed(
      name: device.name, warm: device.node == nil ? .zero : settings.warm, filmsApart: device.origin == .program,
      loop: loop,
      use: { [light, loop] isOn in
        if !isOn { SpareMemory.clear() }
        guard let light else { return }
        loop.perform { light.assumeIsolated { $0.count(isOn ? 1 : -1) } }
      }, source: make)
    feeds[device.id] = (feed, device.node)
    return feed
  }

  /// What the settings say of a configured camera.
  private nonisolated func source(of device: CameraDevice) -> CameraSettings.Source.Kind? {
    device.node == nil ? settings.sources.first { $0.name == device.id }?.kind : nil
  }

  private func makeSource(_ device: CameraDevice) -> @Sendable () -> any FrameSource {
    let (places, loop) = (places, loop)
    if let node = device.node { return { V4L2Source(node: node, places: places) } }
    switch source(of: device) {
    case .recording(let path, let rate): return { RecordedSource(name: device.name, path: path, rate: rate) }
    case .program(let still, let video):
      return { ProgramSource(name: device.name, still: still, video: video, loop: loop) }
    case nil: return { RecordedSource(name: device.name, path: "", rate: 1) }
    }
  }
}

/// Runs `body`, which may block, on a thread of its own, and throws `stuck` when it has not ended after `limit`; it is left behind then.
func onThread<Value: Sendable>(
  named name: String, within limit: Duration, _ body: @escaping @Sendable () throws(CameraError) -> Value
) async throws(CameraError) -> Value {
  let result: Result<Value, CameraError>
  do {
    result = try await withDeadline(limit) {
      await withCheckedContinuation { continuation in
        let isStarted = startThread(name: name) {
          continuation.resume(returning: Result { () throws(CameraError) in try body() })
        }
        if !isStarted { continuation.resume(returning: .failure(CameraError(.refused, "No thread is left."))) }
      }
    }
  } catch is CancellationError {
    throw CameraError.pictureUnwanted
  } catch {
    throw CameraError(
      .stuck, "A camera's driver does not answer.", remedy: "Unplug the camera, plug it in again, look at: sudo dmesg")
  }
  return try result.get()
}
