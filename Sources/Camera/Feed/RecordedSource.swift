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
      var recording = try Recording(path: path, name: name, until: flag)
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
      if flag.isRaised { return }
      if sequence == first {
        throw CameraError(.sourceFailed, "There is no JPEG in the recording of the camera \(name).")
      }
    }
  }
}

/// A recording as it is read, a frame at a time.
struct Recording {
  private let name: String
  private let flag: StopFlag?
  private var files: [String]
  private var splitter = JPEGSplitter()
  private var isSingle = false
  private var reader: FileReader?

  /// The most files of a folder that are played.
  private static let fileLimit = 100_000

  /// `flag`, once raised, ends it. Throws `sourceFailed` when there is nothing to read.
  init(path: String, name: String, until flag: StopFlag? = nil) throws(CameraError) {
    self.name = name
    self.flag = flag
    if Files.isFolder(path) {
      files = Files.list(path).filter { $0.lowercased().hasSuffix(".jpg") || $0.lowercased().hasSuffix(".jpeg") }
        .prefix(Self.fileLimit).map { "\(path)/\($0)" }.reversed()
      isSingle = true
    } else {
      files = []
      reader = try open(path)
    }
  }

  /// The next frame's bytes, damaged ones too; nil at the end, and once it is to end.
  mutating func next() throws(CameraError) -> [UInt8]? {
    if isSingle {
      guard let file = files.popLast() else { return nil }
      return try whole(file)
    }
    while true {
      if let frame = splitter.next() { return frame }
      // A file may be long and hold no frame.
      if isOver { return nil }
      guard let bytes = try read(reader!) else { return splitter.finish() }
      splitter.feed(bytes)
    }
  }

  private var isOver: Bool { flag?.isRaised == true }

  private func whole(_ file: String) throws(CameraError) -> [UInt8]? {
    let reader = try open(file)
    var bytes: [UInt8] = []
    while let piece = try read(reader) {
      bytes += piece
      if bytes.count > JPEGSplitter.frameLimit { throw unreadable("\(file) is too large") }
      if isOver { return nil }
    }
    return bytes
  }

  private func open(_ path: String) throws(CameraError) -> FileReader {
    do { return try FileReader(path) } catch {
      throw unreadable(error.code == EINVAL ? "\(path) is neither a file nor a folder" : error.reason)
    }
  }

  private func read(_ reader: FileReader) throws(CameraError) -> [UInt8]? {
    do { return try reader.read() } catch { throw unreadable(error.reason) }
  }

  private func unreadable(_ why: String) -> CameraError {
    CameraError(
      .sourceFailed, "The recording of the camera \(name) can't be read: \(why).",
      remedy: "Look at [camera.source.\(name)] in the settings.")
  }
}

/// A file read piece by piece; closed with its last reader.
private final class FileReader {
  private let path: String
  private let descriptor: Int32

  /// Only of a file with an end: throws `EINVAL` for a pipe or a device.
  init(_ path: String) throws(SystemError) {
    self.path = path
    // A pipe that nobody writes to would be waited for here.
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    if descriptor < 0 { throw SystemError("open \(path)", code: errno) }
    var status = stat()
    if fstat(descriptor, &status) != 0 { throw SystemError("open \(path)", code: errno) }
    if status.st_mode & S_IFMT != S_IFREG { throw SystemError("read \(path), which is no file", code: EINVAL) }
  }

  deinit { close(descriptor) }

  /// At most 256 KiB; nil at the end.
  func read() throws(SystemError) -> [UInt8]? {
    var code: Int32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: 256 << 10) { room, initialized in
      var count = -1
      repeat { count = Glibc.read(descriptor, room.baseAddress, room.count) } while count < 0 && errno == EINTR
      if count < 0 { code = errno }
      initialized = max(0, count)
    }
    if code != 0 { throw SystemError("read \(path)", code: code) }
    return bytes.isEmpty ? nil : bytes
  }
}
