import CV4L2
import System

/// libv4lconvert: reads the formats of cameras that few programs do (Bayer patterns, RGB565).
///
/// Not its YUV formats, for it takes each of them for full range: cameras' are not, and what is then cut off can't be brought back.
// @unchecked Sendable: the table is filled once and only read after that; each conversion has a handle of its own.
final class V4LConvert: @unchecked Sendable {
  private let table: cv4lconvert

  static let shared: Result<V4LConvert, CameraError> = Result { () throws(CameraError) in try V4LConvert() }

  private init() throws(CameraError) {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libv4lconvert.so.0")
      var table = cv4lconvert()
      if let missing = cv4lconvert_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libv4lconvert.so.0", reason: "it has no \(String(cString: missing))")
      }
      self.table = table
    } catch {
      throw CameraError(
        .missing, "This camera's format needs libv4lconvert: \(error.library): \(error.reason).",
        remedy: "sudo apt install libv4lconvert0")
    }
  }

  /// What it reads and we don't, with the bits a pixel has; except what only single old cameras send, and HSV, which none does and which it
  /// reads wrong. Tried with version 1.22.
  private static let bitsOfPixel: [PixelFormat: Int] = {
    var bitsOfPixel: [PixelFormat: Int] = [:]
    func add(_ names: [String], bits: Int) {
      for name in names { if let pixels = PixelFormat(name) { bitsOfPixel[pixels] = bits } }
    }
    add(["RGBP"], bits: 16)
    add(["RGB4", "BGR4", "XR24", "AR24", "BX24", "BA24"], bits: 32)
    add(["BA81", "GBRG", "GRBG", "RGGB"], bits: 8)
    return bitsOfPixel
  }()

  static var formats: Set<PixelFormat> { Set(bitsOfPixel.keys) }
  static func reads(_ pixels: PixelFormat) -> Bool { bitsOfPixel[pixels] != nil }

  /// The frame as RGB, rows without padding. Throws `damaged` when it is too short, `formatUnsupported` when the library does not read it.
  func rgb(_ frame: Frame) throws(CameraError) -> [UInt8] {
    guard frame.size.isSane else { throw CameraError(.damaged, "The camera names an impossible size.") }
    guard let bits = Self.bitsOfPixel[frame.format.pixels] else {
      throw CameraError(.formatUnsupported, "The format \(frame.format.pixels) is not read here.")
    }
    let stride = max(frame.format.stride, (frame.size.width * bits + 7) / 8)
    // Checked here, for the library reads on over the end of some formats' frames.
    guard stride <= 1 << 20, frame.bytes.count >= stride * frame.size.height else {
      throw CameraError(.damaged, "The frame is too short.")
    }
    guard let handle = withUnsafePointer(to: table, { cv4lconvert_make($0) }) else {
      throw CameraError(.formatUnsupported, "libv4lconvert can't be used.")
    }
    defer { table.v4lconvert_destroy(handle) }
    var source = Self.format(frame.format.pixels, frame.size, stride: stride, bytes: frame.bytes.count)
    let bytes = frame.size.area * 3
    var target = Self.format(.rgb24, frame.size, stride: frame.size.width * 3, bytes: bytes)
    var count: Int32 = -1
    // The library takes its source as writable and, for some formats, does write there.
    var input = frame.bytes
    let output = [UInt8](unsafeUninitializedCapacity: bytes) { room, initialized in
      count = input.withUnsafeMutableBufferPointer { input in
        table.v4lconvert_convert(
          handle, &source, &target, input.baseAddress, Int32(input.count), room.baseAddress, Int32(bytes))
      }
      initialized = Int(count) == bytes ? bytes : 0
    }
    if Int(count) == bytes { return frame.format.pixels == Self.rgb565 ? Self.filled(output) : output }
    let reason = table.v4lconvert_get_error_message(handle).map { String(cString: $0).trimmed } ?? ""
    throw CameraError(.formatUnsupported, "libv4lconvert does not read \(frame.format.pixels): \(reason)")
  }

  private static let rgb565 = PixelFormat("RGBP")

  /// The lower bits, which it leaves at 0, from the upper ones, so that white is white: 5, 6 and 5 bits are 8 each.
  private static func filled(_ rgb: [UInt8]) -> [UInt8] {
    var rgb = rgb
    rgb.withUnsafeMutableBufferPointer { bytes in
      for at in Swift.stride(from: 0, to: bytes.count - 2, by: 3) {
        bytes[at] |= bytes[at] >> 5
        bytes[at + 1] |= bytes[at + 1] >> 6
        bytes[at + 2] |= bytes[at + 2] >> 5
      }
    }
    return rgb
  }

  private static func format(_ pixels: PixelFormat, _ size: Size, stride: Int, bytes: Int) -> v4l2_format {
    var format = v4l2_format()
    format.type = V4L2_BUF_TYPE_VIDEO_CAPTURE.rawValue
    format.fmt.pix.width = UInt32(size.width)
    format.fmt.pix.height = UInt32(size.height)
    format.fmt.pix.pixelformat = pixels.rawValue
    format.fmt.pix.field = V4L2_FIELD_NONE.rawValue
    format.fmt.pix.bytesperline = UInt32(stride)
    format.fmt.pix.sizeimage = UInt32(bytes)
    return format
  }
}
