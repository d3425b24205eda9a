import CLinux
import Glibc

/// Signals as an ordinary stream of numbers.
///
/// A handler may do next to nothing, so it writes the number into a pipe that the event loop reads. signalfd(2) is no way out: it
/// wants the signals blocked in every thread, and a child process would inherit that.
public actor Signals {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private let readEnd: Int32
  private let signals: [Int32]
  private var token: EventLoop.Token?
  private let continuation: AsyncStream<Int32>.Continuation
  /// Each signal as it comes; one that comes again before it is read may be merged.
  public nonisolated let stream: AsyncStream<Int32>

  /// Takes over `signals` for the whole process until `stop()`. One at a time.
  public init(_ signals: [Int32], loop: EventLoop) throws(SystemError) {
    var ends: [Int32] = [0, 0]
    if pipe2(&ends, O_CLOEXEC | O_NONBLOCK) != 0 { throw SystemError("pipe", code: errno) }
    readEnd = ends[0]
    self.signals = signals
    self.loop = loop
    (stream, continuation) = AsyncStream.makeStream(of: Int32.self, bufferingPolicy: .bufferingNewest(16))
    let old = signalPipe
    signalPipe = ends[1]
    if old >= 0 { close(old) }
    for signal in signals { install(signal) { writeSignal($0) } }
  }

  /// Begins the reading.
  public func start() {
    if token == nil {
      token = loop.watch(readEnd, .readable) { [weak self] _ in self?.assumeIsolated { $0.read() } }
    }
  }

  /// Gives the signals back to the system and ends the stream.
  public func stop() {
    for signal in signals { Glibc.signal(signal, SIG_DFL) }
    if let token {
      loop.unwatch(token)
      close(readEnd)
    }
    token = nil
    continuation.finish()
  }

  private func read() {
    var numbers = [UInt8](repeating: 0, count: 64)
    let count = Glibc.read(readEnd, &numbers, numbers.count)
    if count > 0 { for number in numbers.prefix(count) { continuation.yield(Int32(number)) } }
  }

  /// A write to a peer that has gone is an error of that write, not the end of the program. A handler of its own and not SIG_IGN,
  /// which child processes would inherit.
  public static func surviveBrokenPipes() { install(SIGPIPE) { _ in } }
}

private func install(_ signal: Int32, _ handler: @escaping @convention(c) (Int32) -> Void) {
  var action = sigaction()
  action.__sigaction_handler.sa_handler = handler
  action.sa_flags = Int32(bitPattern: UInt32(SA_RESTART))
  sigaction(signal, &action, nil)
}

// nonisolated(unsafe): written before the handlers are installed, and an Int32 is read whole by them.
private nonisolated(unsafe) var signalPipe: Int32 = -1

private func writeSignal(_ signal: Int32) {
  let saved = errno
  var number = UInt8(truncatingIfNeeded: signal)
  _ = write(signalPipe, &number, 1)
  errno = saved
}
