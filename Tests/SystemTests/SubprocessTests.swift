import Glibc
import System
import TestSupport
import Testing

/// Other programs, with real ones.
@Suite("Subprocess") struct SubprocessTests {
  let loop = EventLoop(name: "test processes")

  private func shell(_ script: String) -> Subprocess.Command { .init("sh", ["-c", script]) }

  private func run(
    _ command: Subprocess.Command, input: [UInt8] = [], outputLimit: Int = 1 << 20, deadline: Duration = .seconds(20)
  ) async throws -> Subprocess.Result {
    defer { loop.stop() }
    return try await Subprocess.run(command, input: input, outputLimit: outputLimit, deadline: deadline, loop: loop)
  }

  @Test("a program gets its input and leaves its output, its errors and its code")
  func runs() async throws {
    let result = try await run(shell("cat; echo trouble >&2; exit 3"), input: Array("in and out".utf8))
    #expect(String(decoding: result.output, as: UTF8.self) == "in and out")
    #expect(result.errorOutput == "trouble\n")
    #expect(result.exit == .code(3) && !result.isTruncated)
  }

  @Test("megabytes go through both pipes at once")
  func large() async throws {
    let input = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    let result = try await run(.init("cat"), input: input, outputLimit: input.count)
    #expect(result.output == input && result.exit.isSuccess)
  }

  @Test("output beyond the limit is cut, and the program still runs to its end")
  func truncates() async throws {
    let result = try await run(shell("head -c 3000000 /dev/zero; exit 0"), outputLimit: 1000)
    #expect(result.output.count == 1000 && result.isTruncated && result.exit.isSuccess)
  }

  @Test("a program that is not there is named with the system's reason")
  func missing() async throws {
    await #expect(throws: SystemError("start talknode-no-such-program", code: ENOENT)) {
      try await run(.init("talknode-no-such-program"))
    }
  }

  @Test("a program that does not read its input is no failure")
  func ignoresInput() async throws {
    let result = try await run(shell("exec <&-; exit 0"), input: [UInt8](repeating: 1, count: 1_000_000))
    #expect(result.exit.isSuccess)
  }

  @Test("at the deadline the program is killed, and the children it has started")
  func deadline() async throws {
    let folder = TemporaryFolder()
    await #expect(throws: SystemError("run sh", code: ETIMEDOUT)) {
      try await run(shell("sleep 3600 & echo $! > \(folder("child")); wait"), deadline: .milliseconds(300))
    }
    let child = try #require(Files.text(folder("child")).flatMap { Int32($0.trimmed) })
    #expect(await eventually { !isRunning(child) })
  }

  @Test("the caller's end is the program's end")
  func cancellation() async throws {
    let folder = TemporaryFolder()
    let work = Task { try await run(shell("echo $$ > \(folder("pid")); sleep 3600"), deadline: .seconds(3600)) }
    #expect(await eventually { Files.text(folder("pid"))?.hasSuffix("\n") == true })
    let pid = try #require(Files.text(folder("pid")).flatMap { Int32($0.trimmed) })
    work.cancel()
    await #expect(throws: SystemError("run sh", code: ECANCELED)) { try await work.value }
    #expect(await eventually { !isRunning(pid) })
  }

  @Test("what a program leaves behind in its group ends with it")
  func leftovers() async throws {
    let result = try await run(shell("sleep 3600 & echo $!"))
    let child = try #require(Int32(String(decoding: result.output, as: UTF8.self).trimmed))
    #expect(result.exit.isSuccess)
    #expect(await eventually { !isRunning(child) })
  }

  @Test("a grandchild in a session of its own can't hold the output open")
  func escaped() async throws {
    let result = try await run(shell("setsid sleep 5 & echo done"))
    #expect(String(decoding: result.output, as: UTF8.self) == "done\n")
  }

  @Test("nothing but the three pipes and the given environment reaches the program")
  func isolation() async throws {
    let descriptor = open("/dev/null", O_RDONLY)
    defer { close(descriptor) }
    let folder = TemporaryFolder()
    var command = shell("ls /proc/self/fd | wc -l; pwd; env | grep -v '^PWD=\\|^SHLVL=\\|^_='; trap")
    command.environment = ["PATH": "/usr/bin:/bin", "ONLY": "this"]
    command.workingDirectory = folder.path
    let lines = String(decoding: try await run(command).output, as: UTF8.self).split(separator: "\n").map(String.init)
    // 0, 1, 2 and the one of ls itself.
    #expect(lines.prefix(2) == ["4", folder.path])
    #expect(Set(lines.dropFirst(2)) == ["PATH=/usr/bin:/bin", "ONLY=this"])
  }

  @Test("a helper is spoken to line by line, and asked to end")
  func conversation() async throws {
    defer { loop.stop() }
    let helper = try await Subprocess.start(
      shell("trap 'echo bye; exit 7' TERM; while read line; do echo \"<$line>\"; done; sleep 3600 & wait"), loop: loop)
    for word in ["one", "two"] {
      try await helper.write(Array("\(word)\n".utf8))
      #expect(try await helper.readLine() == Array("<\(word)>".utf8))
    }
    let end = await helper.end(grace: .seconds(10))
    // The shell runs its trap when `read` has returned.
    #expect(end == .code(7))
    #expect(try await helper.readLine() == Array("bye".utf8))
    #expect(try await helper.readLine() == nil)
    await #expect(throws: SystemError.self) { try await helper.write([1]) }
  }

  @Test("one that ignores the request to end is made to")
  func stubborn() async throws {
    defer { loop.stop() }
    let helper = try await Subprocess.start(shell("trap '' TERM; echo ready; sleep 3600; sleep 3600"), loop: loop)
    #expect(try await helper.readLine() == Array("ready".utf8))
    #expect(await helper.end(grace: .milliseconds(50)) == .signal(SIGKILL))
  }

  @Test("a talkative program waits for its reader, and its line without end is refused")
  func backPressure() async throws {
    defer { loop.stop() }
    let helper = try await Subprocess.start(shell("yes | tr -d '\\n'"), loop: loop)
    await #expect(throws: SystemError("read a line of sh", code: EMSGSIZE)) {
      try await helper.readLine(limit: 1 << 20)
    }
    await helper.end(grace: .zero)
  }

  @Test("error output is read whether anybody asks or not, and only its end is kept")
  func errorTail() async throws {
    let result = try await run(shell("seq 1 20000 >&2"))
    #expect(result.errorOutput.utf8.count <= 8192 && result.errorOutput.hasSuffix("20000\n"))
  }

  /// A process that was killed and waits for its parent has ended too.
  private func isRunning(_ pid: Int32) -> Bool {
    guard let status = Files.text("/proc/\(pid)/stat") else { return false }
    return !status.contains(") Z ")
  }
}
