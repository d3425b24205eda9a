import Glibc
import System

@testable import Camera

/// ffmpeg's own conversion of a raw frame to RGB: its library, for the program's start takes 5 s where all is emulated.
struct FFmpegScaler {
  private typealias Format = @convention(c) (UnsafePointer<CChar>) -> Int32
  private typealias Lines = @convention(c) (UnsafeMutablePointer<Int32>, Int32, Int32) -> Int32
  private typealias Planes =
    @convention(c) (
      UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, Int32, Int32, UnsafeMutablePointer<UInt8>?,
      UnsafePointer<Int32>
    ) -> Int32
  private typealias Open =
    @convention(c) (
      Int32, Int32, Int32, Int32, Int32, Int32, Int32, OpaquePointer?, OpaquePointer?, UnsafePointer<Double>?
    ) -> OpaquePointer?
  private typealias Scale =
    @convention(c) (
      OpaquePointer, UnsafePointer<UnsafeMutablePointer<UInt8>?>, UnsafePointer<Int32>, Int32, Int32,
      UnsafePointer<UnsafeMutablePointer<UInt8>?>, UnsafePointer<Int32>
    ) -> Int32
  private typealias Close = @convention(c) (OpaquePointer?) -> Void

  private static let bicubic: Int32 = 4
  /// Its loops read and write whole registers.
  private static let margin = 64

  private let format: Format
  private let lines: Lines
  private let planes: Planes
  private let open: Open
  private let scale: Scale
  private let close: Close

  init() throws {
    let library = try SharedLibrary("libswscale.so.6", "libswscale.so.7", "libswscale.so.8", "libswscale.so.9")
    // dlsym looks in the libraries that one stands on too.
    func function<Function>(_ name: String, as type: Function.Type) throws -> Function {
      guard let symbol = dlsym(library.handle, name) else {
        throw SharedLibrary.Absence(library: "libswscale", reason: "has no \(name)")
      }
      return unsafeBitCast(symbol, to: type)
    }
    format = try function("av_get_pix_fmt", as: Format.self)
    lines = try function("av_image_fill_linesizes", as: Lines.self)
    planes = try function("av_image_fill_pointers", as: Planes.self)
    open = try function("sws_getContext", as: Open.self)
    scale = try function("sws_scale", as: Scale.self)
    close = try function("sws_freeContext", as: Close.self)
  }

  /// A frame whose rows follow each other without a gap; nil when ffmpeg does not have its format.
  func rgb(_ frame: Frame) -> [UInt8]? {
    guard let name = frame.format.pixels.ffmpeg else { return nil }
    let (width, height) = (Int32(frame.size.width), Int32(frame.size.height))
    let (source, target) = (format(name), format("rgb24"))
    guard let context = open(width, height, source, width, height, target, Self.bicubic, nil, nil, nil) else {
      return nil
    }
    defer { close(context) }
    var bytes = frame.planar + [UInt8](repeating: 0, count: Self.margin)
    var picture = [UInt8](repeating: 0, count: frame.size.area * 3 + Self.margin)
    let rows = bytes.withUnsafeMutableBufferPointer { bytes in
      picture.withUnsafeMutableBufferPointer { picture in
        let (from, to) = (layout(source, frame.size, bytes), layout(target, frame.size, picture))
        return scale(context, from.planes, from.lines, 0, height, to.planes, to.lines)
      }
    }
    return rows == height ? Array(picture.dropLast(Self.margin)) : nil
  }

  private func layout(
    _ format: Int32, _ size: Size, _ bytes: UnsafeMutableBufferPointer<UInt8>
  ) -> (planes: [UnsafeMutablePointer<UInt8>?], lines: [Int32]) {
    var lines = [Int32](repeating: 0, count: 4)
    var planes = [UnsafeMutablePointer<UInt8>?](repeating: nil, count: 4)
    _ = self.lines(&lines, format, Int32(size.width))
    _ = self.planes(&planes, format, Int32(size.height), bytes.baseAddress, lines)
    return (planes, lines)
  }
}
