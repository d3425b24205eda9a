import CLinux
import Glibc

extension Subprocess {
  /// A program that runs, and this side's ends of its pipes, none of them blocking.
  struct Spawned: Sendable {
    let processID: Int32
    let processDescriptor: Int32
    let input: Int32
    let output: Int32
    let errors: Int32
  }

  /// Starts a program with no descriptors but its three pipes, default signal handling, and a process group of its own. Off the
  /// loop: looking for a program may read a slow disk.
  ///
  /// A result and no throw: after a typed throw out of a `@concurrent` function the caller's caller goes on off its actor (Swift 6.3).
  @concurrent
  static func spawn(_ command: Command) async -> Swift.Result<Spawned, SystemError> {
    Swift.Result { () throws(SystemError) in try spawnNow(command) }
  }

  private static func spawnNow(_ command: Command) throws(SystemError) -> Spawned {
    var opened: [Int32] = []
    var isDone = false
    defer { if !isDone { for descriptor in opened { close(descriptor) } } }
    func pipe() throws(SystemError) -> (read: Int32, write: Int32) {
      var ends: [Int32] = [-1, -1]
      if pipe2(&ends, O_CLOEXEC) != 0 { throw SystemError("open a pipe", code: errno) }
      opened += ends
      return (ends[0], ends[1])
    }
    let input = try pipe()
    let output = try pipe()
    let errors = try pipe()

    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    // Clear of 0, 1 and 2 first, so that no end is overwritten before it is used (a daemon may have those closed).
    let ends = [input.read, output.write, errors.write]
    var clear: [Int32] = []
    for end in ends {
      let copy = fcntl(end, F_DUPFD_CLOEXEC, 3)
      if copy < 0 { throw SystemError("open a pipe", code: errno) }
      opened.append(copy)
      clear.append(copy)
    }
    for (number, end) in clear.enumerated() { posix_spawn_file_actions_adddup2(&actions, end, Int32(number)) }
    posix_spawn_file_actions_addclosefrom_np(&actions, 3)
    if let folder = command.workingDirectory { posix_spawn_file_actions_addchdir_np(&actions, folder) }

    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
    posix_spawnattr_setpgroup(&attributes, 0)
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)

    let processID = try run(command, &actions, &attributes)
    let processDescriptor = talknode_pidfd_open(processID)
    if processDescriptor < 0 {
      let code = errno
      kill(-processID, SIGKILL)
      waitpid(processID, nil, 0)
      throw SystemError("watch \(command.program)", code: code)
    }
    isDone = true
    for descriptor in ends + clear { close(descriptor) }
    for descriptor in [input.write, output.read, errors.read] {
      _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    }
    return Spawned(
      processID: processID, processDescriptor: processDescriptor, input: input.write, output: output.read,
      errors: errors.read)
  }

  private static func run(
    _ command: Command, _ actions: inout posix_spawn_file_actions_t, _ attributes: inout posix_spawnattr_t
  ) throws(SystemError) -> Int32 {
    for text in [command.program] + command.arguments where text.utf8.contains(0) {
      throw SystemError("start \(command.program)", code: EINVAL)
    }
    var arguments = ([command.program] + command.arguments).map { strdup($0) } + [nil]
    defer { for argument in arguments { free(argument) } }
    var variables = command.environment.map { $0.map { strdup("\($0)=\($1)") } + [nil] }
    defer { for variable in variables ?? [] { free(variable) } }
    var processID: pid_t = 0
    let code =
      if variables != nil {
        posix_spawnp(&processID, command.program, &actions, &attributes, &arguments, &variables!)
      } else {
        posix_spawnp(&processID, command.program, &actions, &attributes, &arguments, environ)
      }
    if code != 0 { throw SystemError("start \(command.program)", code: code) }
    return processID
  }
}

extension Subprocess {
  /// What a program that ran to its end left.
  public struct Result: Sendable, Equatable {
    public let exit: Exit
    public let output: [UInt8]
    /// The end of its error output, at most 8 KiB.
    public let errorOutput: String
    /// There was more output than asked for; the rest was not kept.
    public let isTruncated: Bool
  }

  /// Runs a program to its end: gives it `input`, keeps at most `outputLimit` bytes of its output.
  ///
  /// Throws `ETIMEDOUT` after `deadline` and `ECANCELED` when the caller is cancelled; then the program and its children are killed.
  public static func run(
    _ command: Command, input: [UInt8] = [], outputLimit: Int = 1 << 20, deadline: Duration, loop: EventLoop
  ) async throws(SystemError) -> Result {
    let process = try await start(command, loop: loop)
    let work = Task { await process.complete(input, outputLimit) }
    do {
      return try await withTaskCancellationHandler {
        try await withDeadline(deadline) { await work.value }
      } onCancel: {
        work.cancel()
      }
    } catch {
      await process.signal(SIGKILL)
      throw SystemError("run \(command.program)", code: error is DeadlineExceeded ? ETIMEDOUT : ECANCELED)
    }
  }

  private func complete(_ input: [UInt8], _ outputLimit: Int) async -> Result {
    let feeder = Task {
      // A program that does not want its input is none the worse for it.
      if !input.isEmpty { try? await write(input) }
      closeInput()
    }
    var output: [UInt8] = []
    var isTruncated = false
    while let bytes = await read() {
      let room = outputLimit - output.count
      isTruncated = isTruncated || bytes.count > room
      output.append(contentsOf: bytes.prefix(room))
    }
    let exit = await waitForExit()
    await feeder.value
    return Result(exit: exit, output: output, errorOutput: errorOutput, isTruncated: isTruncated)
  }
}
