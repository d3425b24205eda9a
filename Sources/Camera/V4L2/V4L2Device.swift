import CV4L2
import Glibc
import System

/// An open V4L2 node. Used by one thread at a time; every call may block as long as the driver likes.
final class V4L2Device {
  let path: String
  let descriptor: Int32
  let places: CameraPlaces

  /// Opens a node. Throws `notPermitted`, `busy`, `unplugged` or `refused`.
  init(_ path: String, places: CameraPlaces) throws(CameraError) {
    self.path = path
    self.places = places
    descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
    if descriptor < 0 { throw Self.failure(errno, path, "opened", places) }
  }

  deinit { close(descriptor) }

  /// What it says of itself; nil when it is no V4L2 node.
  func facts() -> NodeFacts? {
    var answer = v4l2_capability()
    guard cv4l2_querycap(descriptor, &answer) == 0 else { return nil }
    let own = answer.capabilities & kCV4L2CapDeviceCaps != 0
    return NodeFacts(
      driver: text(of: answer.driver), card: text(of: answer.card),
      capabilities: own ? answer.device_caps : answer.capabilities)
  }

  /// The formats it offers, in its order; at most 256.
  func formats() -> [PixelFormat] {
    var found: [PixelFormat] = []
    for index in 0..<256 as Range<UInt32> {
      var answer = v4l2_fmtdesc()
      answer.index = index
      answer.type = V4L2_BUF_TYPE_VIDEO_CAPTURE.rawValue
      guard cv4l2_enum_fmt(descriptor, &answer) == 0 else { break }
      found.append(PixelFormat(rawValue: answer.pixelformat))
    }
    return found
  }

  /// Formats with their sizes and the most frames a second of each.
  func modes(of formats: [PixelFormat]) -> [CaptureMode] {
    formats.flatMap { pixels in
      let sizes = sizes(of: pixels)
      if sizes.isEmpty { return [CaptureMode(pixels, nil, rate: nil)] }
      return sizes.map { CaptureMode(pixels, $0, rate: rate(of: pixels, $0)) }
    }
  }

  /// Sizes that cameras commonly have, for those that take any within bounds.
  private static let common = [
    Size(320, 240), Size(640, 360), Size(640, 480), Size(800, 600), Size(1024, 768), Size(1280, 720), Size(1280, 960),
    Size(1600, 900), Size(1600, 1200), Size(1920, 1080), Size(2560, 1440), Size(3840, 2160),
  ]

  private func sizes(of pixels: PixelFormat) -> [Size] {
    var found: [Size] = []
    for index in 0..<128 as Range<UInt32> {
      var answer = v4l2_frmsizeenum()
      answer.index = index
      answer.pixel_format = pixels.rawValue
      guard cv4l2_enum_framesizes(descriptor, &answer) == 0 else { break }
      if answer.type == V4L2_FRMSIZE_TYPE_DISCRETE.rawValue {
        found.append(Size(Int(answer.discrete.width), Int(answer.discrete.height)))
        continue
      }
      let bounds = answer.stepwise
      func fits(_ value: Int, _ least: UInt32, _ most: UInt32, _ step: UInt32) -> Bool {
        value >= least && value <= most && (value - Int(least)) % Int(max(step, 1)) == 0
      }
      found += Self.common.filter {
        fits($0.width, bounds.min_width, bounds.max_width, bounds.step_width)
          && fits($0.height, bounds.min_height, bounds.max_height, bounds.step_height)
      }
      let largest = Size(Int(bounds.max_width), Int(bounds.max_height))
      if largest.isSane && !found.contains(largest) { found.append(largest) }
      break
    }
    return found.filter(\.isSane)
  }

  /// The most frames a second at a size; nil when it does not say.
  private func rate(of pixels: PixelFormat, _ size: Size) -> Double? {
    var best: Double?
    for index in 0..<64 as Range<UInt32> {
      var answer = v4l2_frmivalenum()
      answer.index = index
      answer.pixel_format = pixels.rawValue
      answer.width = UInt32(size.width)
      answer.height = UInt32(size.height)
      guard cv4l2_enum_frameintervals(descriptor, &answer) == 0 else { break }
      let isDiscrete = answer.type == V4L2_FRMIVAL_TYPE_DISCRETE.rawValue
      let interval = isDiscrete ? answer.discrete : answer.stepwise.min
      if interval.numerator > 0 { best = max(best ?? 0, Double(interval.denominator) / Double(interval.numerator)) }
      if !isDiscrete { break }
    }
    return best
  }

  // MARK: What went wrong

  static func notPermitted(_ node: String) -> CameraError {
    var status = stat()
    var group = "video"
    if stat(node, &status) == 0, let entry = getgrgid(status.st_gid) { group = String(cString: entry.pointee.gr_name) }
    return CameraError(
      .notPermitted, "This user may not open \(node), which belongs to the group \(group).",
      remedy: "sudo usermod -aG \(group) \"$USER\", then log in again")
  }

  /// `what` completes "can't be …".
  func failure(_ code: Int32, _ what: String) -> CameraError { Self.failure(code, path, what, places) }

  static func failure(_ code: Int32, _ path: String, _ what: String, _ places: CameraPlaces) -> CameraError {
    switch code {
    case EACCES, EPERM: return notPermitted(path)
    case EBUSY:
      let holders = DeviceHolder.of(path, proc: places.proc)
      let who = holders.isEmpty ? "another program" : holders.map(\.description).joined(separator: ", ")
      return CameraError(
        .busy, "The camera \(path) is in use by \(who).",
        remedy: "Close it there, or choose another camera: talknode camera list")
    case ENODEV, ENXIO, ENOENT:
      return CameraError(.unplugged, "The camera \(path) is gone.", remedy: "Plug it in again: talknode camera list")
    default:
      return CameraError(.refused, "The camera \(path) can't be \(what): \(String(cString: strerror(code))).")
    }
  }
}

extension NodeFacts {
  var verdict: Verdict {
    verdict(
      captures: kCV4L2CapVideoCapture, streams: kCV4L2CapStreaming,
      excluded: kCV4L2CapVideoM2M | kCV4L2CapMetaCapture | kCV4L2CapVideoOutput)
  }
}

/// The text in a fixed array of the kernel's.
func text<Tuple>(of tuple: Tuple) -> String {
  withUnsafeBytes(of: tuple) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
}
