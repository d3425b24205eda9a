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

  init(name: String, still: [String], video: [String], loop: EventLoop) {
    self.name = name
    self.still = still
    self.video = video
    self.loop = loop
  }

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

  /// A run a frame, as long as somebody wants one.
  private func takePictures(_ sink: FrameSink) async throws(CameraError) {
    var count: UInt32 = 0
    while !Task.isCancelled {
      let process = try await begin(still)
      let bytes = await output(of: process)
      if Task.isCancelled {
        await process.end()
        return
      }
      guard let bytes else {
        await process.end()
        throw failed("it wrote over \(JPEGSplitter.frameLimit >> 20) MB")
      }
      let exit = await process.waitForExit()
      guard exit.isSuccess else { throw failed(await reason(process, exit)) }
      guard let size = JPEGRepair.size(of: bytes) else { throw failed("it wrote no JPEG") }
      deliver(bytes, size, count, sink)
      count += 1
    }
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
    if video.isEmpty {
      throw CameraError(
        .sourceFailed, "The camera \(name) takes pictures only.",
        remedy: "Set video in [camera.source.\(name)] to a program that writes JPEGs one after the other.")
    }
    let process = try await begin(video)
    var splitter = JPEGSplitter()
    var count: UInt32 = 0
    while let piece = await process.read(256 << 10) {
      splitter.feed(piece)
      while let frame = splitter.next() {
        guard let size = JPEGRepair.size(of: frame) else { continue }
        deliver(frame, size, count, sink)
        count += 1
      }
    }
    if Task.isCancelled {
      await process.end()
      return
    }
    throw failed(await reason(process, await process.waitForExit()))
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
