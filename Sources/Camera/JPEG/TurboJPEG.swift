import CTurboJPEG
import System

/// libjpeg-turbo: decodes, scales while decoding, and encodes. Each call has a handle of its own, so any thread may call.
// @unchecked Sendable: the table is filled once and only read after that.
final class TurboJPEG: @unchecked Sendable {
  private let table: cturbojpeg

  static let shared: Result<TurboJPEG, CameraError> = Result { () throws(CameraError) in try TurboJPEG() }

  private init() throws(CameraError) {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libturbojpeg.so.0")
      var table = cturbojpeg()
      if let missing = cturbojpeg_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libturbojpeg.so.0", reason: "it has no \(String(cString: missing))")
      }
      self.table = table
    } catch {
      throw CameraError(
        .missing, "Pictures can't be made without libjpeg-turbo: \(error.library): \(error.reason).",
        remedy: "sudo apt install libturbojpeg0")
    }
  }

  /// A picture coded in so many scans is an attack on the decoder's time (TJFLAG_LIMITSCANS: 500).
  private static let decodeFlags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS

  // MARK: Decoding

  /// Decodes a cleaned frame. With `least` the picture is scaled down by a fraction of eighths in the decoder, which costs less than
  /// decoding all, and stays at least that large. Throws `damaged` for what does not decode cleanly.
  func decode(_ jpeg: JPEGRepair, least: Size? = nil) throws(CameraError) -> YUVPicture {
    guard let handle = table.tjInitDecompress() else { throw failure(nil) }
    defer { _ = table.tjDestroy(handle) }
    let size = scaled(jpeg.size, toAtLeast: least)
    guard let sampling = sampling(of: jpeg, handle) else { return try planes(rgb: rgb(jpeg, size, handle), size) }
    var code: Int32 = -1
    let picture = YUVPicture.made(size, sampling) { planes in
      var targets: [UnsafeMutablePointer<UInt8>?] = planes.map(\.baseAddress)
      code = table.tjDecompressToYUVPlanes(
        handle, jpeg.bytes, UInt(jpeg.bytes.count), &targets, Int32(size.width), nil, Int32(size.height),
        Self.decodeFlags)
      if code != 0 && isOnlyPadded(handle) { code = 0 }
      // Never show memory that was not written.
      if code != 0 { for plane in planes { plane.update(repeating: 0) } }
    }
    if code != 0 { throw failure(handle) }
    return picture
  }

  /// The brightness at an eighth of the size: enough to see whether the whole frame decodes, and how light it is.
  func thumbnail(_ jpeg: JPEGRepair) throws(CameraError) -> YUVPicture.Plane {
    guard let handle = table.tjInitDecompress() else { throw failure(nil) }
    defer { _ = table.tjDestroy(handle) }
    let size = Size((jpeg.size.width + 7) / 8, (jpeg.size.height + 7) / 8)
    var code: Int32 = -1
    let bytes = [UInt8](unsafeUninitializedCapacity: size.area) { room, initialized in
      code = table.tjDecompress2(
        handle, jpeg.bytes, UInt(jpeg.bytes.count), room.baseAddress, Int32(size.width), Int32(size.width),
        Int32(size.height), Int32(TJPF_GRAY.rawValue), Self.decodeFlags | TJFLAG_FASTDCT)
      if code != 0 && isOnlyPadded(handle) { code = 0 }
      initialized = code == 0 ? size.area : 0
    }
    if code != 0 { throw failure(handle) }
    return YUVPicture.Plane(size: size, bytes: bytes)
  }

  /// The sampling when the planes can be had as they are; nil for a picture that is stored in another way.
  private func sampling(of jpeg: JPEGRepair, _ handle: tjhandle) -> YUVPicture.Sampling? {
    var (width, height, sampling, space): (Int32, Int32, Int32, Int32) = (0, 0, -1, -1)
    let code = table.tjDecompressHeader3(
      handle, jpeg.bytes, UInt(jpeg.bytes.count), &width, &height, &sampling, &space)
    guard code == 0, width == Int32(jpeg.size.width), height == Int32(jpeg.size.height) else { return nil }
    guard space == Int32(TJCS_YCbCr.rawValue) || space == Int32(TJCS_GRAY.rawValue) else { return nil }
    return YUVPicture.Sampling(rawValue: sampling)
  }

  private func rgb(_ jpeg: JPEGRepair, _ size: Size, _ handle: tjhandle) throws(CameraError) -> [UInt8] {
    var code: Int32 = -1
    let bytes = [UInt8](unsafeUninitializedCapacity: size.area * 3) { room, initialized in
      code = table.tjDecompress2(
        handle, jpeg.bytes, UInt(jpeg.bytes.count), room.baseAddress, Int32(size.width), Int32(size.width * 3),
        Int32(size.height), Int32(TJPF_RGB.rawValue), Self.decodeFlags)
      if code != 0 && isOnlyPadded(handle) { code = 0 }
      initialized = code == 0 ? size.area * 3 : 0
    }
    if code != 0 { throw failure(handle) }
    return bytes
  }

  /// The smallest of the decoder's scaled sizes that is not below `least`.
  private func scaled(_ size: Size, toAtLeast least: Size?) -> Size {
    guard let least else { return size }
    var count: Int32 = 0
    guard let factors = table.tjGetScalingFactors(&count) else { return size }
    var best = size
    for index in 0..<Int(count) {
      let (over, under) = (Int(factors[index].num), Int(factors[index].denom))
      let candidate = Size((size.width * over + under - 1) / under, (size.height * over + under - 1) / under)
      if candidate.width >= least.width && candidate.height >= least.height && candidate < best { best = candidate }
    }
    return best
  }

  /// Some cameras fill the space before the end mark: the first thing the decoder complained of comes after the whole picture.
  private func isOnlyPadded(_ handle: tjhandle) -> Bool {
    guard table.tjGetErrorCode(handle) == Int32(TJERR_WARNING.rawValue) else { return false }
    return words(handle).hasSuffix("extraneous bytes before marker 0xd9")
  }

  // MARK: Encoding

  /// A JPEG of the picture. `quality` 1…100.
  func encode(_ picture: YUVPicture, quality: Int) throws(CameraError) -> [UInt8] {
    guard let handle = table.tjInitCompress() else { throw failure(nil) }
    defer { _ = table.tjDestroy(handle) }
    var out: UnsafeMutablePointer<UInt8>?
    var count: UInt = 0
    var sources = [UnsafePointer<UInt8>?](repeating: nil, count: 3)
    func nest(_ index: Int) -> Int32 {
      if index == picture.planes.count {
        return table.tjCompressFromYUVPlanes(
          handle, &sources, Int32(picture.size.width), nil, Int32(picture.size.height), picture.sampling.rawValue, &out,
          &count, Int32(max(1, min(quality, 100))), 0)
      }
      return picture.planes[index].bytes.withUnsafeBufferPointer {
        sources[index] = $0.baseAddress
        return nest(index + 1)
      }
    }
    let code = nest(0)
    defer { table.tjFree(out) }
    guard code == 0, let out else { throw failure(handle) }
    return Array(UnsafeBufferPointer(start: out, count: Int(count)))
  }

  /// The planes of an RGB picture with rows of `stride` bytes, colours at full resolution.
  func planes(
    rgb: [UInt8], _ size: Size, stride: Int? = nil, isBGR: Bool = false
  ) throws(CameraError) -> YUVPicture {
    guard let handle = table.tjInitCompress() else { throw failure(nil) }
    defer { _ = table.tjDestroy(handle) }
    let stride = stride ?? size.width * 3
    precondition(rgb.count >= stride * (size.height - 1) + size.width * 3)
    var code: Int32 = -1
    let picture = YUVPicture.made(size, .s444) { planes in
      var targets: [UnsafeMutablePointer<UInt8>?] = planes.map(\.baseAddress)
      code = table.tjEncodeYUVPlanes(
        handle, rgb, Int32(size.width), Int32(stride), Int32(size.height),
        Int32(isBGR ? TJPF_BGR.rawValue : TJPF_RGB.rawValue), &targets, nil, YUVPicture.Sampling.s444.rawValue, 0)
      if code != 0 { for plane in planes { plane.update(repeating: 0) } }
    }
    if code != 0 { throw failure(handle) }
    return picture
  }

  /// The picture as RGB, rows without padding; colours are repeated rather than blended where there are fewer of them.
  func rgb(_ picture: YUVPicture) throws(CameraError) -> [UInt8] {
    guard let handle = table.tjInitDecompress() else { throw failure(nil) }
    defer { _ = table.tjDestroy(handle) }
    let count = picture.size.area * 3
    var code: Int32 = -1
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { room, initialized in
      var sources = [UnsafePointer<UInt8>?](repeating: nil, count: 3)
      func nest(_ index: Int) -> Int32 {
        if index == picture.planes.count {
          return table.tjDecodeYUVPlanes(
            handle, &sources, nil, picture.sampling.rawValue, room.baseAddress, Int32(picture.size.width),
            Int32(picture.size.width * 3), Int32(picture.size.height), Int32(TJPF_RGB.rawValue), TJFLAG_FASTUPSAMPLE)
        }
        return picture.planes[index].bytes.withUnsafeBufferPointer {
          sources[index] = $0.baseAddress
          return nest(index + 1)
        }
      }
      code = nest(0)
      initialized = code == 0 ? count : 0
    }
    if code != 0 { throw failure(handle) }
    return bytes
  }

  private func words(_ handle: tjhandle?) -> String {
    table.tjGetErrorStr2(handle).map { String(cString: $0) } ?? "no reason given"
  }

  private func failure(_ handle: tjhandle?) -> CameraError {
    CameraError(.damaged, "The picture does not decode: \(words(handle)).")
  }
}
