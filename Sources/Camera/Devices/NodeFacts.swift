/// What a V4L2 node says of itself (VIDIOC_QUERYCAP), and whether that is a camera.
struct NodeFacts: Sendable, Equatable {
  var driver: String
  var card: String
  /// Of this node: `device_caps` where the driver gives them, for `capabilities` speak for all nodes of the device together.
  var capabilities: UInt32

  enum Verdict: Sendable, Equatable {
    case camera
    /// A sensor whose raw data only libcamera makes pictures of.
    case needsLibcamera
    case noCamera
  }

  /// Drivers of decoders, encoders and scalers that look like a capture device on one side.
  private static let processors: Set<String> = ["bcm2835-codec", "bcm2835-isp", "pispbe", "rpivid", "rpi-hevc-dec"]
  /// The receivers of CSI sensors on Raspberry Pi: they stream what only libcamera can develop.
  private static let receivers: Set<String> = ["unicam", "rp1-cfe"]

  func verdict(captures: UInt32, streams: UInt32, excluded: UInt32) -> Verdict {
    guard capabilities & captures != 0, capabilities & streams != 0, capabilities & excluded == 0 else {
      return .noCamera
    }
    // A driver may add its instance: `bcm2835-codec-decode`, `pispbe-input`.
    func isOne(of names: Set<String>) -> Bool { names.contains { driver == $0 || driver.hasPrefix($0 + "-") } }
    if isOne(of: Self.processors) { return .noCamera }
    return isOne(of: Self.receivers) ? .needsLibcamera : .camera
  }
}
