import CLinux
import Glibc

/// Another program, run with pipes for its input and its outputs, in a process group of its own.
///
/// Pinned to `loop`; nothing blocks it. What the program writes is read only as far as somebody reads it (`read`, `readLine`), so that
/// a talkative one waits instead of filling memory; of its error output the last lines are kept for messages. It lives until
/// its program ends: whoever starts one ends it with `end` or waits for its exit. When the program ends, whatever is left of its process
/// group is killed, so that no helper of a helper stays behind.
public actor Subprocess {
  /// What to run.
  public struct Command: Sendable, Equatable {
    /// A path, or a name that is looked for in PATH.
    public var program: String
    public var arguments: [String]
    /// The whole environment; nil = this program's own.
    public var environment: [String: String]?
    public var workingDirectory: String?

    public init(
      _ program: String, _ arguments: [String] = [], environment: [String: String]? = nil,
      workingDirectory: String? = nil
    ) {
      self.program = program
      self.arguments = arguments
      self.environment = environment
      self.workingDirectory = workingDirectory
    }
  }

  /// How a program ended.
  public enum Exit: Sendable, Equatable {
    case code(Int32)
    case signal(Int32)
    public var isSuccess: Bool { self == .code(0) }
  }

  public nonisolated let command: Command
  public nonisolated let loop: EventLoop
  public nonisolated let processID: Int32
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private let processDescriptor: Int32
  private var processWatch: EventLoop.Token?
  private var exit: Exit?
  private var exitWaiters: [CheckedContinuation<Exit, Never>] = []

  private var input: Pipe
  private var pendingInput: (bytes: [UInt8], offset: Int, done: CheckedContinuation<SystemError?, Never>)?
  private var output: Pipe
  private var buffer: [UInt8] = []
  private var reader: CheckedContinuation<Void, Never>?
  private var errors: Pipe
  private var errorBytes: [UInt8] = []

  private struct Pipe {
    var descriptor: Int32
    var watch: EventLoop.Token?
    var isOpen: Bool { descriptor >= 0 }
  }

  /// Output that is read ahead of its reader.
  private static let readAhead = 256 << 10
  private static let errorLimit = 8 << 10

  /// Starts a program. Throws `ENOENT`, `EACCES`, … when it can't be started.
  public static func start(_ command: Command, loop: EventLoop) async throws(SystemError) -> Subprocess {
    let spawned = try await spawn(command).get()
    let process = Subprocess(command, spawned, loop)
    await process.begin()
    return process
  }

  private init(_ command: Command, _ spawned: Spawned, _ loop: EventLoop) {
    self.command = command
    self.loop = loop
    processID = spawned.processID
    processDescriptor = spawned.processDescriptor
    input = Pipe(descriptor: spawned.input)
    output = Pipe(descriptor: spawned.output)
    errors = Pipe(descriptor: spawned.errors)
  }

  // Nothing is watched any more, or the watches would hold it; of an output that nobody read, the pipe is left.
  deinit {
    // The loop ended before the program.
    if exit == nil { close(processDescriptor) }
    for pipe in [input, output, errors] where pipe.isOpen { close(pipe.descriptor) }
  }

  private func begin() {
    // The handlers hold the actor: it lives until the program has ended.
    // Writing to a program that has ended shall be an error on this thread, not a signal for the whole program.
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    processWatch = loop.watch(processDescriptor, .readable) { _ in self.assumeIsolated { $0.reap() } }
    watchOutput()
    errors.watch = loop.watch(errors.descriptor, .readable) { _ in self.assumeIsolated { $0.readErrors() } }
  }

  // MARK: The end

  /// Waits for the program's end.
  public func waitForExit() async -> Exit {
    if let exit { return exit }
    return await withCheckedContinuation { waiter in
      // Looked at again: the runtime may have let others run since.
      if let exit { return waiter.resume(returning: exit) }
      exitWaiters.append(waiter)
    }
  }

  /// Asks the program and its children to end (SIGTERM), and makes them after `grace` (SIGKILL).
  @discardableResult
  public func end(grace: Duration = .seconds(2)) async -> Exit {
    if let exit { return exit }
    signal(SIGTERM)
    let timer = loop.after(grace) { [weak self] in self?.assumeIsolated { $0.signal(SIGKILL) } }
    let exit = await waitForExit()
    loop.cancel(timer)
    return exit
  }

  /// Sends a signal to the program and its children. Nothing happens when it has ended.
  public func signal(_ number: Int32) {
    // The id is safe to use until the program is reaped, which happens here only.
    if exit == nil { kill(-processID, number) }
  }

  private func reap() {
    var information = siginfo_t()
    // First without reaping: its group can't be another's while it is not reaped.
    guard waitid(P_PID, id_t(processID), &information, WEXITED | WNOHANG | WNOWAIT) == 0 else {
      return ended(.signal(SIGKILL))
    }
    if information._sifields._sigchld.si_pid == 0 { return }
    kill(-processID, SIGKILL)
    var status: Int32 = 0
    waitpid(processID, &status, WNOHANG)
    ended(status & 0x7F == 0 ? .code((status >> 8) & 0xFF) : .signal(status & 0x7F))
  }

  private func ended(_ exit: Exit) {
    self.exit = exit
    if let processWatch { loop.unwatch(processWatch) }
    processWatch = nil
    close(processDescriptor)
    closeInput()
    readErrors()
    shut(&errors)
    wakeReader()
    let waiters = exitWaiters
    exitWaiters = []
    for waiter in waiters { waiter.resume(returning: exit) }
  }

  private func shut(_ pipe: inout Pipe) {
    guard pipe.isOpen else { return }
    if let watch = pipe.watch { loop.unwatch(watch) }
    close(pipe.descriptor)
    pipe = Pipe(descriptor: -1)
  }

  // MARK: Input

  /// Writes to the program's input; returns when all of it is in the pipe. One writer at a time. Throws `EPIPE` when the program does not
  /// read any more.
  public func write(_ bytes: [UInt8]) async throws(SystemError) {
    precondition(pendingInput == nil, "two writers on one subprocess")
    guard input.isOpen else { throw SystemError("write to \(command.program)", code: EPIPE) }
    let failure: SystemError? = await withCheckedContinuation { done in
      pendingInput = (bytes, 0, done)
      writeMore()
    }
    if let failure { throw failure }
  }

  /// Ends the program's input.
  public func closeInput() {
    shut(&input)
    finishWrite(SystemError("write to \(command.program)", code: EPIPE))
  }

  private func writeMore() {
    guard var pending = pendingInput else { return }
    while pending.offset < pending.bytes.count {
      let count = pending.bytes.withUnsafeBytes {
        Glibc.write(input.descriptor, $0.baseAddress! + pending.offset, $0.count - pending.offset)
      }
      if count < 0 && errno == EINTR { continue }
      if count < 0 && errno == EAGAIN {
        pendingInput = pending
        if input.watch == nil {
          input.watch = loop.watch(input.descriptor, .writable) { _ in self.assumeIsolated { $0.writeMore() } }
        }
        return
      }
      if count < 0 { return finishWrite(SystemError("write to \(command.program)", code: errno)) }
      pending.offset += count
    }
    finishWrite(nil)
  }

  private func finishWrite(_ failure: SystemError?) {
    if let watch = input.watch { loop.unwatch(watch) }
    input.watch = nil
    let pending = pendingInput
    pendingInput = nil
    pending?.done.resume(returning: failure)
  }

  // MARK: Output

  /// The next bytes of the program's output, at most `limit`; nil at its end. One reader at a time. A reader that is cancelled gets
  /// nil.
  public func read(_ limit: Int = 65536) async -> [UInt8]? {
    while buffer.isEmpty {
      guard await more() else { return nil }
    }
    return take(min(limit, buffer.count))
  }

  /// The next line of the program's output without its end; nil at the end of the output. Throws `EMSGSIZE` for a line of over
  /// `limit` bytes, after which the output can't be read on. One reader at a time.
  public func readLine(limit: Int = 1 << 20) async throws(SystemError) -> [UInt8]? {
    var searched = 0
    while true {
      if let end = buffer[searched...].firstIndex(of: 0x0A) {
        var line = take(end + 1)
        line.removeLast()
        return line
      }
      searched = buffer.count
      if searched > limit { throw SystemError("read a line of \(command.program)", code: EMSGSIZE) }
      guard await more(over: searched) else { return buffer.isEmpty ? nil : take(buffer.count) }
    }
  }

  /// The last lines of its error output, for a message; at most 8 KiB.
  public var errorOutput: String { String(decoding: errorBytes, as: UTF8.self) }

  private func take(_ count: Int) -> [UInt8] {
    let taken = Array(buffer[..<count])
    buffer.removeFirst(count)
    watchOutput()
    return taken
  }

  /// Waits until there are more than `count` bytes in the buffer; false when there will be none.
  private func more(over count: Int = 0) async -> Bool {
    if !output.isOpen || Task.isCancelled { return false }
    if buffer.count > count { return true }
    if exit != nil {
      // All is in the pipe by now. Its end is not waited for: a program that left its group may hold it open for ever.
      if Self.read(output.descriptor, into: &buffer) != true { shut(&output) }
      return buffer.count > count
    }
    precondition(reader == nil, "two readers on one subprocess")
    watchOutput(atLeast: count + 1)
    await withTaskCancellationHandler {
      await withCheckedContinuation { reader = $0 }
    } onCancel: {
      Task { await self.wakeReader() }
    }
    return buffer.count > count
  }

  private func wakeReader() {
    reader?.resume()
    reader = nil
  }

  /// Watches the output as long as the buffer has room.
  private func watchOutput(atLeast least: Int = 0) {
    guard output.isOpen, output.watch == nil, buffer.count < max(Self.readAhead, least) else { return }
    output.watch = loop.watch(output.descriptor, .readable) { _ in self.assumeIsolated { $0.readOutput() } }
  }

  private func readOutput() {
    switch Self.read(output.descriptor, into: &buffer) {
    case .some(true): break
    case .some(false): shut(&output)
    case nil: return
    }
    if let watch = output.watch, buffer.count >= Self.readAhead {
      loop.unwatch(watch)
      output.watch = nil
    }
    wakeReader()
  }

  private func readErrors() {
    // One read a turn, so that a program that floods its error output leaves the others of this loop their turn.
    guard errors.isOpen, let isOpen = Self.read(errors.descriptor, into: &errorBytes) else { return }
    if errorBytes.count > Self.errorLimit { errorBytes.removeFirst(errorBytes.count - Self.errorLimit) }
    if !isOpen { shut(&errors) }
  }

  /// Appends what is there; false at the end, nil when nothing is there now.
  private static func read(_ descriptor: Int32, into buffer: inout [UInt8]) -> Bool? {
    while true {
      let count = withUnsafeTemporaryAllocation(byteCount: 65536, alignment: 1) { chunk in
        let count = Glibc.read(descriptor, chunk.baseAddress, chunk.count)
        if count > 0 { buffer.append(contentsOf: chunk[..<count]) }
        return count
      }
      if count > 0 { return true }
      if count == 0 { return false }
      if errno == EAGAIN { return nil }
      if errno != EINTR { return false }
    }
  }
}
