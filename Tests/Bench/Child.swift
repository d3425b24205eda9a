import CLinux
import Glibc
import System

/// A process this one has started. Ended with it when it is let go.
// @unchecked Sendable: `id` and `output` do not change; `hasEnded` is behind a lock.
final class Child: @unchecked Sendable {
  let id: pid_t
  /// The read end of its standard output; -1 when that is thrown away.
  private let output: Int32
  private let hasEnded = Lock(false)

  /// Starts a program. Its standard error is thrown away unless the environment says BENCH_VERBOSE.
  init(_ program: String, _ arguments: [String], environment: [String: String] = [:], readsOutput: Bool = false) throws
  {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    var pipe: [Int32] = [-1, -1]
    if readsOutput {
      guard pipe2(&pipe, Int32(O_CLOEXEC)) == 0 else { throw BenchError("no pipe: \(errno)") }
      posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO)
    } else {
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
    }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    if getenv("BENCH_VERBOSE") == nil {
      posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
    }

    let inherited = ["PATH", "HOME", "LANG", "TZ", "BENCH_VERBOSE"]
    var all: [String] = inherited.compactMap { name in getenv(name).map { "\(name)=\(String(cString: $0))" } }
    all += environment.map { "\($0.key)=\($0.value)" }
    let code = withCStrings([program] + arguments) { argv in
      withCStrings(all) { envp in
        var id = pid_t()
        let code = posix_spawnp(&id, program, &actions, nil, argv, envp)
        return (code, id)
      }
    }
    output = pipe[0]
    id = code.1
    if pipe[1] >= 0 { close(pipe[1]) }
    guard code.0 == 0 else {
      // `deinit` comes next, and there is no process to end: the signal would go to this one's whole group.
      hasEnded.withLock { $0 = true }
      throw BenchError("\(program) can't be started: \(String(cString: strerror(code.0)))")
    }
  }

  deinit {
    kill()
    if output >= 0 { close(output) }
  }

  /// Its next line of output; nil at the end. Blocks.
  func readLine() -> String? {
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while read(output, &byte, 1) == 1 {
      if byte == 0x0A { return String(decoding: line, as: UTF8.self) }
      line.append(byte)
    }
    return line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
  }

  /// Waits for its end and gives the exit code; a signal gives 128 and more. Blocks.
  @discardableResult func wait() -> Int32 {
    var status: Int32 = 0
    while waitpid(id, &status, 0) < 0 && errno == EINTR {}
    hasEnded.withLock { $0 = true }
    return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
  }

  /// Ends it, hard, and waits for that.
  func kill() {
    if hasEnded.withLock({ $0 }) { return }
    Glibc.kill(id, SIGKILL)
    wait()
  }

  /// Runs a program to its end; milliseconds from its start to its end.
  static func milliseconds(_ program: String, _ arguments: [String], environment: [String: String] = [:]) throws
    -> Double
  {
    let start = Monotonic.now()
    let child = try Child(program, arguments, environment: environment)
    let code = child.wait()
    let time = (Monotonic.now() - start).milliseconds
    if code != 0 { throw BenchError("\(program) \(arguments.joined(separator: " ")) ended with \(code)") }
    return time
  }
}

/// Calls `body` with a null-terminated array of C strings, as exec wants it.
private func withCStrings<Result>(
  _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
  var pointers: [UnsafeMutablePointer<CChar>?] = strings.map { strdup($0) } + [nil]
  defer { for pointer in pointers { free(pointer) } }
  return body(&pointers)
}
