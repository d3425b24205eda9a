import EncoderProtocol
import Glibc
import System

/// `talknode-encoder`, a program of its own that makes one MP4: its memory and its crashes are not this program's.
///
/// Every step has a deadline: an encoder that crashes or hangs is ended, and the clip with it. Nothing is queued here: a frame's
/// `write` returns when the encoder has taken it, so who makes frames faster must leave some out. Pinned to `loop`.
public actor EncoderProcess: ClipWriter {
  /// How long the encoder may take for a step.
  public struct Limits: Sendable {
    /// To start and open its codecs.
    public var start: Duration
    /// To take a frame or some sound.
    public var step: Duration
    /// To end the clip and hand it over.
    public var finish: Duration
    public init(
      start: Duration = .seconds(10), step: Duration = .seconds(10), finish: Duration = .seconds(25)
    ) {
      self.start = start
      self.step = step
      self.finish = finish
    }
  }

  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let program: String?
  private let limits: Limits
  private var process: Subprocess?
  private var reader = EncoderMessageReader(longest: 0)
  private var replies: [EncoderReply] = []
  private var isOver = false
  /// The encoder that is used, by libavcodec's name: `libx264`. Nil before `begin`.
  public private(set) var encoderName: String?

  /// The process that encodes; nil when there is none.
  public var processID: Int32? { process?.processID }

  /// `program` nil: the one that belongs to this program.
  public init(program: String? = nil, limits: Limits = Limits(), loop: EventLoop) {
    self.program = program ?? Self.installedProgram()
    self.limits = limits
    self.loop = loop
  }

  /// Where the encoder of this program is: beside it when it was just built, else in its installation's libexec. Nil when it is at neither
  /// place.
  public static func installedProgram() -> String? {
    var buffer = [CChar](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
    if count <= 0 { return nil }
    let own = String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard let slash = own.lastIndex(of: "/") else { return nil }
    let folder = own[..<slash]
    return ["\(folder)/talknode-encoder", "\(folder)/../libexec/talknode/talknode-encoder"]
      .first { access($0, X_OK) == 0 }
  }

  /// What there is to say where it is not.
  public static let notInstalled = CameraError(
    .missing, "Clips need talknode-encoder, which is not installed with this program.",
    remedy: "Install all of TalkNode again: sudo make install")

  // MARK: ClipWriter

  public func begin(_ format: ClipFormat) async throws(CameraError) {
    precondition(process == nil, "a writer makes one clip")
    // Cancelled before it began: who begins may have been left behind at a deadline, and not know it yet.
    if isOver { throw Self.over }
    let order = ClipOrder(format)
    if let fault = order.fault {
      isOver = true
      throw CameraError(.encodingFailed, "Such a clip can't be made: \(fault).")
    }
    guard let program else {
      isOver = true
      throw Self.notInstalled
    }
    reader = EncoderMessageReader(longest: EncoderReply.longest(maxBytes: format.maxBytes))
    do {
      let command = Subprocess.Command(program, environment: Self.environment())
      process = try await Subprocess.start(command, loop: loop)
    } catch {
      isOver = true
      throw CameraError(
        .missing, "\(program), which makes clips, can't be started: \(error.reason).",
        remedy: "Install all of TalkNode again: sudo make install")
    }
    // Cancelled while it started, when there was no process to end yet.
    if isOver {
      await kill()
      throw Self.over
    }
    try await send(.begin(order), limits.start)
    guard case .ready(let name) = try await reply(limits.start) else { throw await broken("answers something else") }
    encoderName = name
  }

  /// Takes I420 in rows without padding, of the clip's size, or a JPEG of any size.
  public func write(frame: Frame) async throws(CameraError) {
    try await send(.frame(frame.format.pixels.isJPEG ? .jpeg : .i420, at: frame.atNs, frame.bytes), limits.step)
  }

  public func write(sound: [Int16], atNs: UInt64) async throws(CameraError) {
    let bytes = sound.withUnsafeBytes { Array($0) }
    try await send(.sound(at: atNs, bytes), limits.step)
  }

  public func finish() async throws(CameraError) -> [UInt8] {
    try await send(.finish, limits.finish)
    guard case .movie(let bytes) = try await reply(limits.finish) else { throw await broken("answers something else") }
    isOver = true
    if let process { await process.end() }
    process = nil
    return bytes
  }

  public func cancel() async {
    isOver = true
    await kill()
  }

  // MARK: The process

  private static let over = CameraError(.stopped, "The clip is over.")

  private func send(_ request: EncoderRequest, _ limit: Duration) async throws(CameraError) {
    guard let process, !isOver else { throw Self.over }
    let bytes = request.message.wire
    do {
      try await withDeadline(limit) { try await process.write(bytes) }
    } catch {
      throw await failure(error, limit)
    }
  }

  private func reply(_ limit: Duration) async throws(CameraError) -> EncoderReply {
    guard let process, !isOver else { throw Self.over }
    do {
      let reply = try await withDeadline(limit) { [self] in try await next(process) }
      if case .failed(let kind, let reason) = reply { throw await refused(kind, reason) }
      return reply
    } catch let error as CameraError {
      throw error
    } catch {
      throw await failure(error, limit)
    }
  }

  private func next(_ process: Subprocess) async throws -> EncoderReply {
    while replies.isEmpty {
      guard let bytes = await process.read() else { throw SystemError("read from the encoder", code: EPIPE) }
      try take(bytes)
    }
    return replies.removeFirst()
  }

  private func take(_ bytes: [UInt8]) throws(EncoderProtocolError) {
    var failure: EncoderProtocolError?
    bytes.withUnsafeBytes { bytes in
      do throws(EncoderProtocolError) {
        for message in try reader.feed(bytes) { replies.append(try EncoderReply(message)) }
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
  }

  /// What a failed step means. The encoder is ended.
  private func failure(_ error: any Error, _ limit: Duration) async -> CameraError {
    switch error {
    case is DeadlineExceeded:
      return await broken("has not answered for \(Int(limit.inSeconds)) s")
    case is CancellationError:
      isOver = true
      await kill()
      return CameraError.clipUnwanted
    case let error as EncoderProtocolError:
      return await broken("answers with \(error)")
    default:
      // It has gone; before that it may have said why.
      return await gone()
    }
  }

  private func gone() async -> CameraError {
    guard let process else { return Self.over }
    let reason = try? await withDeadline(limits.step) { [self] in
      while true {
        let reply = try await next(process)
        if case .failed(let kind, let reason) = reply { return (kind, reason) }
      }
    }
    if let (kind, reason) = reason { return await refused(kind, reason) }
    isOver = true
    let exit = await process.end(grace: .zero)
    let last = await process.errorOutput.split(separator: "\n").last.map(String.init)
    self.process = nil
    // What ld.so ends with when a library is missing.
    if exit == .code(127) {
      return CameraError(
        .missing, "talknode-encoder, which makes clips, can't run here\(last.map { ": \($0)" } ?? "").",
        remedy: "Install the libraries it needs: sudo apt-get install ffmpeg")
    }
    return CameraError(.encodingFailed, "The encoder ended in the middle of the clip (\(exit.inWords)).")
  }

  private func refused(_ kind: EncoderReply.Failure, _ reason: String) async -> CameraError {
    isOver = true
    await kill()
    return switch kind {
    case .tooLarge:
      CameraError(
        .tooLarge, "The clip is larger than is accepted.", remedy: "Ask for a shorter one (durationMs).")
    case .noEncoder: CameraError(.missing, "No clip can be made: \(reason).")
    case .badInput, .encoding: CameraError(.encodingFailed, "The clip can't be encoded: \(reason).")
    }
  }

  private func broken(_ what: String) async -> CameraError {
    isOver = true
    await kill()
    return CameraError(.encodingFailed, "The encoder \(what). It was ended, and there is no clip.")
  }

  private func kill() async {
    guard let process else { return }
    self.process = nil
    await process.signal(SIGKILL)
  }

  /// Nothing of this program's but what the loader and the sanitizers need.
  private static func environment() -> [String: String] {
    var variables: [String: String] = ["PATH": "/usr/bin:/bin"]
    for name in ["LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "LLVM_PROFILE_FILE"] {
      if let value = getenv(name) { variables[name] = String(cString: value) }
    }
    return variables
  }
}

extension ClipOrder {
  init(_ format: ClipFormat) {
    // A camera that promises nothing sensible is taken for one of 30 frames a second; the frames' own times count anyway.
    let isSane = format.fps.isFinite && (0.1...1000).contains(format.fps)
    self.init(
      width: format.width, height: format.height, milliframes: Int((isSane ? format.fps : 30) * 1000),
      milliseconds: Int(min(format.duration.milliseconds, 1e9)), maxBytes: min(format.maxBytes, Int(UInt32.max)),
      sampleRate: format.audio?.sampleRate ?? 0, channels: format.audio?.channels ?? 1,
      prefersHardware: format.prefersHardware)
  }
}
