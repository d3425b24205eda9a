import System

/// Frames of a program's: one JPEG a run for pictures, a stream of JPEGs for clips. What CSI sensors that need libcamera are read with.
final class ProgramSource: FrameSource {
  /// libcamera's programs look at the scene for some seconds before they take a picture.
  let patience = FramePatience(opening: .seconds(25), frame: .seconds(25))
  private let name: String
  private let still: [String]
  private let video: [String]
  private let loop: EventLoop
  private let work = Lock<(task: Task<Void, Never>?, isStopped: Bool)>((nil, false))
  private let wants: AsyncStream<Void>
  private let wanted: AsyncStream<Void>.Continuation

  /// How long a program may take to end when it has written all, and when it is asked to: less than a feed waits for its source.
  private static let parting: Duration = .seconds(1)

  init(name: String, still: [String], video: [String], loop: EventLoop) {
    self.name = name
    self.still = still
    self.video = video
    self.loop = loop
    (wants, wanted) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
  }

  /// A picture is a run of the program, with its light and its seconds: none is made that nobody asked for.
  func isOnDemand(_ wish: CaptureWish) -> Bool { wish.purpose == .picture }
  func want() { wanted.yield() }

  func start(_ wish: CaptureWish, _ sink: FrameSink) {
    let isMotion = wish.purpose == .motion
    let task = Task {
      let end: CameraError?
      do throws(CameraError) {
        if isMotion { try await stream(sink) } else { try await takePictures(sink) }
        end = nil
      } catch {
        end = Task.isCancelled ? nil : error
      }
      sink(.ended(end))
    }
    let isStopped = work.withLock { work in
      work.task = task
      return work.isStopped
    }
    if isStopped { task.cancel() }
  }

  func stop() {
    let task = work.withLock { work in
      work.isStopped = true
      return work.task
    }
    task?.cancel()
  }

  /// A run a frame, as often as somebody wants one.
  private func takePictures(_ sink: FrameSink) async throws(CameraError) {
    var count: UInt32 = 0
    var another = wants.makeAsyncIterator()
    repeat {
      guard
        let (bytes, size) = try await running(
          still, { process async throws(CameraError) in try await picture(process) })
      else { return }
      deliver(bytes, size, count, sink)
      count &+= 1
    } while await another.next() != nil
  }

  /// The one picture a program writes; nil when it is not wanted any more.
  private func picture(_ process: Subprocess) async throws(CameraError) -> ([UInt8], Size)? {
    let bytes = await output(of: process)
    if Task.isCancelled { return nil }
    guard let bytes else { throw failed("it wrote over \(JPEGSplitter.frameLimit >> 20) MB") }
    let exit = await exit(of: process)
    if Task.isCancelled { return nil }
    // One that has written its picture and lingers has done what it was to do.
    if let exit, !exit.isSuccess { throw failed(await reason(process, exit)) }
    guard let size = JPEGRepair.size(of: bytes) else { throw failed("it wrote no JPEG") }
    return (bytes, size)
  }

  /// Starts a program, and sees to it that it has ended when `body` has, however that ends.
  private func running<Value>(
    _ command: [String], _ body: (Subprocess) async throws(CameraError) -> Value
  ) async throws(CameraError) -> Value {
    let process = try await begin(command)
    let result: Result<Value, CameraError>
    do throws(CameraError) { result = .success(try await body(process)) } catch { result = .failure(error) }
    await process.end(grace: Self.parting)
    return try result.get()
  }

  /// How a program ended that has closed its output; nil when it goes on all the same, or nobody waits for it any more.
  private func exit(of process: Subprocess) async -> Subprocess.Exit? {
    try? await withDeadline(Self.parting) { await process.waitForExit() }
  }

  /// All a program writes; nil when it is too much.
  private func output(of process: Subprocess) async -> [UInt8]? {
    var bytes: [UInt8] = []
    while let piece = await process.read() {
      bytes += piece
      if bytes.count > JPEGSplitter.frameLimit { return nil }
    }
    return bytes
  }

  private func stream(_ sink: FrameSink) async throws(CameraError) {
    try await running(video) { process async throws(CameraError) in try await film(process, sink) }
  }

  /// Passes frames on until the program's output ends, which is an error, or they are not wanted any more.
  private func film(_ process: Subprocess, _ sink: FrameSink) async throws(CameraError) {
    var splitter = JPEGSplitter()
    var count: UInt32 = 0
    while let piece = await process.read(256 << 10) {
      splitter.feed(piece)
      while let frame = splitter.next() {
        guard let size = JPEGRepair.size(of: frame) else { continue }
        deliver(frame, size, count, sink)
        count &+= 1
      }
    }
    if Task.isCancelled { return }
    guard let exit = await exit(of: process) else { throw failed("it closed its output") }
    throw failed(await reason(process, exit))
  }

  private func deliver(_ bytes: [UInt8], _ size: Size, _ count: UInt32, _ sink: FrameSink) {
    let format = FrameFormat(.jpeg, size, range: .full)
    if count == 0 { sink(.opened(format)) }
    sink(.frame(Frame(format, bytes, atNs: Monotonic.nanoseconds(), sequence: count)))
  }

  private func begin(_ command: [String]) async throws(CameraError) -> Subprocess {
    guard let program = command.first else { throw failed("no command is set") }
    do throws(SystemError) {
      let process = try await Subprocess.start(
        Subprocess.Command(program, Array(command.dropFirst())), loop: loop)
      await process.closeInput()
      return process
    } catch {
      throw failed("\(program): \(error.reason)")
    }
  }

  private func reason(_ process: Subprocess, _ exit: Subprocess.Exit) async -> String {
    let said = await process.errorOutput.split(whereSeparator: \.isNewline).last.map { ": " + $0.trimmed.prefix(200) }
    return exit.inWords + (said ?? "")
  }

  private func failed(_ why: String) -> CameraError {
    CameraError(
      .sourceFailed, "The program of the camera \(name) gave no picture: \(why).",
      remedy: "Run it by hand: \(still.first ?? name); it is set in [camera.source.\(name)].")
  }
}
