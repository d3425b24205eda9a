import Glibc
import System

/// Frames of a recording: a file of JPEGs one after the other, or a folder of JPEG files, again and again at its rate.
final class RecordedSource: FrameSource {
  let patience = FramePatience()
  private let name: String
  private let path: String
  private let rate: Double
  private let flag = StopFlag()

  /// `rate` in frames a second.
  init(name: String, path: String, rate: Double) {
    self.name = name
    self.path = path
    self.rate = max(0.1, min(rate, 240))
  }

  func start(_ wish: CaptureWish, _ sink: FrameSink) {
    let isStarted = startThread(name: "recording") { [self] in
      do throws(CameraError) {
        try play(sink)
        sink(.ended(nil))
      } catch {
        sink(.ended(error))
      }
    }
    if !isStarted { sink(.ended(CameraError(.refused, "No thread is left for the recording."))) }
  }

  func stop() { flag.raise() }

  /// Plays until it is to stop. Frame n is due n intervals after the first, so that a late one makes the next no later; what is
  /// more than a second late is not caught up with.
  private func play(_ sink: FrameSink) throws(CameraError) {
    let interval = UInt64(1e9 / rate)
    var due = Monotonic.nanoseconds()
    var sequence: UInt32 = 0
    var format: FrameFormat?
    while true {
      var recording = try Recording(path: path, name: name)
      let first = sequence
      while let jpeg = try recording.next() {
        if format == nil {
          let size = JPEGRepair.size(of: jpeg) ?? Size(0, 0)
          format = FrameFormat(.mjpeg, size, rate: rate, range: .full)
          sink(.opened(format!))
        }
        let wait = due > Monotonic.nanoseconds() ? due - Monotonic.nanoseconds() : 0
        if flag.sleep(.nanoseconds(Int64(wait))) { return }
        let now = Monotonic.nanoseconds()
        if now > due + 1_000_000_000 { due = now }
        sink(.frame(Frame(format!, jpeg, atNs: due, sequence: sequence)))
        sequence &+= 1
        due += interval
      }
      if sequence == first {
        throw CameraError(.sourceFailed, "There is no JPEG in the recording of the camera \(name).")
      }
    }
  }
}

/// A recording as it is read, a frame at a time.
struct Recording {
  private let name: String
  private var files: [String]
  private var splitter = JPEGSplitter()
  private var isSingle = false

  /// The most files of a folder that are played.
  private static let fileLimit = 100_000

  /// Throws `sourceFailed` when there is nothing to read.
  init(path: String, name: String) throws(CameraError) {
    self.name = name
    var status = stat()
    guard stat(path, &status) == 0 else {
      throw CameraError(
        .sourceFailed, "The recording of the camera \(name) can't be read: \(String(cString: strerror(errno))).",
        remedy: "Look at [camera.source.\(name)] in the settings.")
    }
    if status.st_mode & S_IFMT == S_IFDIR {
      files = Files.list(path).filter { $0.lowercased().hasSuffix(".jpg") || $0.lowercased().hasSuffix(".jpeg") }
        .prefix(Self.fileLimit).map { "\(path)/\($0)" }.reversed()
      isSingle = true
    } else {
      files = [path]
    }
  }

  /// The next frame's bytes, damaged ones too; nil at the end.
  mutating func next() throws(CameraError) -> [UInt8]? {
    if isSingle {
      guard let file = files.popLast() else { return nil }
      do { return try Files.read(file, limit: JPEGSplitter.frameLimit) } catch {
        throw CameraError(.sourceFailed, "The recording of the camera \(name) can't be read: \(error.reason).")
      }
    }
    while true {
      if let frame = splitter.next() { return frame }
      guard let bytes = try read() else { return splitter.finish() }
      splitter.feed(bytes)
    }
  }

  private var reader = FileReader()

  private mutating func read() throws(CameraError) -> [UInt8]? {
    do { return try reader.read(files[0]) } catch {
      throw CameraError(.sourceFailed, "The recording of the camera \(name) can't be read: \(error.reason).")
    }
  }
}

/// A file read piece by piece; closed with its last reader.
private final class FileReader {
  private var descriptor: Int32 = -1
  private var isAtEnd = false

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// At most 256 KiB; nil at the end.
  func read(_ path: String) throws(SystemError) -> [UInt8]? {
    if isAtEnd { return nil }
    if descriptor < 0 {
      descriptor = open(path, O_RDONLY | O_CLOEXEC)
      if descriptor < 0 { throw SystemError("open \(path)", code: errno) }
    }
    var code: Int32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: 256 << 10) { room, initialized in
      var count = -1
      repeat { count = Glibc.read(descriptor, room.baseAddress, room.count) } while count < 0 && errno == EINTR
      if count < 0 { code = errno }
      initialized = max(0, count)
    }
    if code != 0 { throw SystemError("read \(path)", code: code) }
    isAtEnd = bytes.isEmpty
    return isAtEnd ? nil : bytes
  }
}
