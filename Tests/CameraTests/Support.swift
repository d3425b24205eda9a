import Glibc
import System
import Testing

@testable import Camera

/// The committed pictures of `samples/camera`.
enum Sample {
  static let folder =
    String(#filePath).split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/samples/camera"
  static func path(_ name: String) -> String { folder + "/" + name }
  static func bytes(_ name: String) throws -> [UInt8] { try Files.read(path(name)) }
  static func picture(_ name: String) throws -> YUVPicture {
    try TurboJPEG.shared.get().decode(JPEGRepair(try bytes(name)))
  }
  /// The whole frames of a recording.
  static func frames(_ name: String) throws -> [[UInt8]] {
    var recording = try Recording(path: path(name), name: name)
    var frames: [[UInt8]] = []
    while let frame = try recording.next() { frames.append(frame) }
    return frames
  }
}

/// How like two pictures of a size are, in dB; 100 when they are the same.
func likeness(_ left: [UInt8], _ right: [UInt8]) -> Double {
  guard left.count == right.count, !left.isEmpty else { return 0 }
  var sum = 0
  for index in left.indices {
    let difference = Int(left[index]) - Int(right[index])
    sum += difference * difference
  }
  return sum == 0 ? 100 : 10 * log10(255 * 255 * Double(left.count) / Double(sum))
}

extension YUVPicture {
  /// The brightness without what fills an odd last column and row.
  var luma: [UInt8] {
    (0..<size.height).flatMap { row in planes[0].bytes[(row * planes[0].width)..<(row * planes[0].width + size.width)] }
  }
}

/// A camera of `Cameras` that plays a sample.
func cameras(
  playing name: String, rate: Double = 60, loop: EventLoop, _ change: (inout CameraSettings) -> Void = { _ in }
) -> Cameras {
  var settings = CameraSettings()
  settings.sources = [.init(name: "sample", kind: .recording(path: Sample.path(name), rate: rate))]
  change(&settings)
  return Cameras(settings: settings, loop: loop, places: CameraPlaces(dev: "/nonexistent"))
}
