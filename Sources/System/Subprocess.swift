import CLinux
import Glibc

/// A program that this one runs, with pipes to its standard streams, on an event loop.
///
/// Made, used and let go on that loop only; its handlers are called there. It is in a process group of its own and is killed with all
/// of that group when it is let go. It inherits the environment and nothing else: no descriptor beyond the three, no blocked signal.
public final class Subprocess {
  /// How a process ended.
  public enum Exit: Sendable, Equatable, CustomStringConvertible {
    case code(Int32)
    case signal(Int32)
    public var description: String {
      switch self {
      case .code(let code): "exit code \(code)"
      case .signal(let signal): "signal \(signal)"
      }
    }
  }

  /// What happens to it, in the order of happening.
  public enum Event: Sendable {
    /// Bytes from its standard output.
    case output([UInt8])
    /// Bytes from its standard error.
    case diagnostics([UInt8])
    /// Everything that was written has been taken by the pipe.
    case drained
    /// It is gone, and all that it wrote has been delivered. The last event.
    case exited(Exit)
  }

  public let processID: Int32
  private let loop: EventLoop
  private let handler: (Event) -> Void
  private var exitDescriptor: Int32
  private var input: Int32
  private var output: Int32
  private var diagnostics: Int32
  private var watches: [Int32: EventLoop.Token] = [:]
  private var pending: [UInt8] = []
  private var written = 0
  private var closesWhenDrained = false
  private var hasExited = false

  // A child that has closed its end must not end this program.
  private static let ignoresBrokenPipes: Void = { _ = Glibc.signal(SIGPIPE, SIG_IGN) }()

  /// Runs `command`, whose first word is searched for in PATH. Throws the system's reason when it can't be started.
  public init(_ command: [String], loop: EventLoop, handler: @escaping (Event) -> Void) throws(SystemError) {
    loop.checkIsolated()
    _ = Subprocess.ignoresBrokenPipes
    var pipes: [[Int32]] = []
    func closeAll() { for descriptor in pipes.joined() where descriptor >= 0 { close(descriptor) } }
    for _ in 0..<3 {
      var ends: [Int32] = [-1, -1]
      if pipe2(&ends, O_CLOEXEC) != 0 {
        let code = errno
        closeAll()
        throw SystemError("pipe", code: code)
      }
      pipes.append(ends)
    }
    let (process, code) = Subprocess.spawn(command, input: pipes[0][0], output: pipes[1][1], diagnostics: pipes[2][1])
    if code != 0 {
      closeAll()
      throw SystemError("run \(command.first ?? "")", code: code)
    }
    close(pipes[0][0])
    close(pipes[1][1])
    close(pipes[2][1])
    processID = process
    self.loop = loop
    self.handler = handler
    (input, output, diagnostics) = (pipes[0][1], pipes[1][0], pipes[2][0])
    for descriptor in [input, output, diagnostics] { _ = fcntl(descriptor, F_SETFL, O_NONBLOCK) }
    exitDescriptor = pidfd_open(process, 0)
    for descriptor in [output, diagnostics] {
      watches[descriptor] = loop.watch(descriptor, .readable) { [unowned self] _ in self.read(descriptor) }
    }
    watches[exitDescriptor] = loop.watch(exitDescriptor, .readable) { [unowned self] _ in self.reap() }
  }

  deinit {
    for token in watches.values { loop.unwatch(token) }
    for descriptor in [input, output, diagnostics, exitDescriptor] where descriptor >= 0 { close(descriptor) }
    if hasExited { return }
    Glibc.kill(-processID, SIGKILL)
    let process = processID
    // Killed, it is gone in a moment; the loop need not wait for that.
    _ = startThread(name: "reap") { waitpid(process, nil, 0) }
  }

  /// Where `program` would be run from: a path as it is, a name searched for in PATH. Nil when nothing that may be run is there.
  public static func locate(_ program: String) -> String? {
    if program.contains("/") { return access(program, X_OK) == 0 ? program : nil }
    // What execvp(3) does: the one use of the environment that a child's start can't do without.
    let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
    return path.split(separator: ":").map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
  }

  /// Bytes that wait to be taken by the pipe.
  public var pendingBytes: Int { pending.count - written }

  /// Writes to its standard input; what the pipe does not take at once waits here. `drained` follows when all is taken. Nothing
  /// happens when the input is closed.
  public func write(_ bytes: [UInt8]) {
    if input < 0 || closesWhenDrained { return }
    pending += bytes
    flush()
  }

  /// Ends its standard input after what has been written.
  public func closeInput() {
    closesWhenDrained = true
    flush()
  }

  /// Sends a signal to it and to all that it has started.
  public func signal(_ number: Int32) { if !hasExited { Glibc.kill(-processID, number) } }

  private func flush() {
    while input >= 0 && written < pending.count {
      let count = pending.withUnsafeBytes { Glibc.write(input, $0.baseAddress! + written, $0.count - written) }
      if count < 0 && errno == EINTR { continue }
      if count < 0 && errno == EAGAIN {
        if watches[input] == nil {
          watches[input] = loop.watch(input, .writable) { [unowned self] _ in self.flush() }
        }
        return
      }
      if count < 0 { return closeDescriptor(&input) }
      written += count
    }
    pending.removeAll(keepingCapacity: pending.capacity <= 1 << 20)
    written = 0
    if input < 0 { return }
    if let token = watches.removeValue(forKey: input) { loop.unwatch(token) }
    if closesWhenDrained { closeDescriptor(&input) }
    handler(.drained)
  }

  private func closeDescriptor(_ descriptor: inout Int32) {
    if descriptor < 0 { return }
    if let token = watches.removeValue(forKey: descriptor) { loop.unwatch(token) }
    close(descriptor)
    descriptor = -1
  }

  /// Delivers what is there. False at the end of the stream.
  @discardableResult
  private func read(_ descriptor: Int32) -> Bool {
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = Glibc.read(descriptor, &chunk, chunk.count)
      if count < 0 && errno == EINTR { continue }
      if count < 0 && errno == EAGAIN { return true }
      if count <= 0 {
        if descriptor == output { closeDescriptor(&output) } else { closeDescriptor(&diagnostics) }
        return false
      }
      handler(descriptor == output ? .output(Array(chunk[..<count])) : .diagnostics(Array(chunk[..<count])))
      // The handler may have let go of what it reads from.
      if descriptor != output && descriptor != diagnostics { return false }
      if count < chunk.count { return true }
    }
  }

  private func reap() {
    var status: Int32 = 0
    if waitpid(processID, &status, WNOHANG) != processID { return }
    hasExited = true
    for descriptor in [output, diagnostics] where descriptor >= 0 { while read(descriptor), hasMore(descriptor) {} }
    closeDescriptor(&input)
    closeDescriptor(&output)
    closeDescriptor(&diagnostics)
    closeDescriptor(&exitDescriptor)
    let signal = status & 0x7F
    handler(.exited(signal == 0 ? .code(status >> 8 & 0xFF) : .signal(signal)))
  }

  private func hasMore(_ descriptor: Int32) -> Bool {
    var one = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&one, 1, 0) == 1 && one.revents & Int16(POLLIN) != 0
  }

  private static func spawn(_ command: [String], input: Int32, output: Int32, diagnostics: Int32) -> (pid_t, Int32) {
    guard let program = command.first else { return (0, ENOENT) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for (descriptor, number) in [(input, STDIN_FILENO), (output, STDOUT_FILENO), (diagnostics, STDERR_FILENO)] {
      posix_spawn_file_actions_adddup2(&actions, descriptor, number)
    }
    // Not everything in this process was opened with O_CLOEXEC by us: libraries open descriptors, too.
    posix_spawn_file_actions_addclosefrom_np(&actions, 3)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    var all = sigset_t()
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setpgroup(&attributes, 0)
    posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
    var words: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var process: pid_t = 0
    let code = posix_spawnp(&process, program, &actions, &attributes, &words, talknode_environment())
    return (process, code)
  }
}
