import CV4L2
import System

/// libv4lconvert: reads the formats of cameras that few programs do (Bayer patterns, RGB565, the odd orders of YUV).
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

  /// What it reads and we don't, except what only single old cameras send. Tried with version 1.22.
  static let formats: Set<PixelFormat> = Set(
    [
      "YVYU", "YV12", "NV16", "NV61", "RGBP", "RGBO", "RGB4", "BGR4", "XR24", "AR24", "BX24", "BA24", "Y16 ", "Y10B",
      "BA81", "GBRG", "GRBG", "RGGB", "HSV3", "HSV4", "M420",
    ].compactMap { PixelFormat($0) })

  static func reads(_ pixels: PixelFormat) -> Bool { formats.contains(pixels) }

  /// The frame as RGB, rows without padding. Throws `damaged` when it is too short, `formatUnsupported` when the library does not read it.
  func rgb(_ frame: Frame) throws(CameraError) -> [UInt8] {
    guard frame.size.isSane else { throw CameraError(.damaged, "The camera names an impossible size.") }
    guard let handle = withUnsafePointer(to: table, { cv4lconvert_make($0) }) else {
      throw CameraError(.formatUnsupported, "libv4lconvert can't be used.")
    }
    defer { table.v4lconvert_destroy(handle) }
    var source = Self.format(frame.format.pixels, frame.size, stride: frame.format.stride, bytes: frame.bytes.count)
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
    if Int(count) == bytes { return output }
    let reason = table.v4lconvert_get_error_message(handle).map { String(cString: $0).trimmed } ?? ""
    if reason.contains("short") || reason.contains("incomplete") {
      throw CameraError(.damaged, "The frame is too short.")
    }
    throw CameraError(.formatUnsupported, "libv4lconvert does not read \(frame.format.pixels): \(reason)")
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
