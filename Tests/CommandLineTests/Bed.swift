import DevGateway
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing
import Transport

/// A gateway on loopback and the built program beside it, with folders of their own.
final class Bed: Sendable {
  let folder = TemporaryFolder()
  let loop = EventLoop(name: "test")
  let gateway: DevGateway

  /// How one run of the program ended.
  struct Ending: Sendable {
    let exit: Subprocess.Exit
    let output: String
    let errors: String
    var json: JSON { (try? JSON(parsing: output)) ?? .null }
  }

  /// Runs `body` with a running gateway, and ends it.
  static func with(
    tls: Bool = false, autoApprove: Bool = true, _ body: (Bed) async throws -> Void
  ) async throws {
    var options = DevGateway.Options()
    options.autoApprove = autoApprove
    if tls { options.tls = try .selfSigned(names: ["127.0.0.1"]) }
    let bed = Bed(options)
    try await bed.gateway.start()
    do { try await body(bed) } catch {
      await bed.end()
      throw error
    }
    await bed.end()
  }

  private init(_ options: DevGateway.Options) { gateway = DevGateway(options: options, loop: loop) }

  private func end() async {
    await gateway.stop()
    loop.stop()
  }

  /// A state folder of the test's own.
  func state(_ name: String = "state") -> String { folder(name) }

  /// A file that holds the gateway's token.
  func tokenFile() throws -> String {
    try folder.write("token", gateway.token + "\n")
    return folder("token")
  }

  /// Starts the program on a state folder. It must be ended.
  func start(
    _ words: [String], state: String = "state", environment extra: [String: String] = [:]
  ) async throws -> Subprocess {
    try await Subprocess.start(
      .init(Program.path, words + ["--state", folder(state)], environment: Program.environment(folder, extra)),
      loop: loop)
  }

  /// Runs the program to its end.
  func run(
    _ words: [String], state: String = "state", environment extra: [String: String] = [:], input: String = ""
  ) async throws -> Ending {
    let process = try await start(words, state: state, environment: extra)
    return try await Self.ending(of: process, input: input)
  }

  static func ending(of process: Subprocess, input: String = "") async throws -> Ending {
    do {
      return try await withDeadline(.seconds(60)) {
        if !input.isEmpty { try await process.write(Array(input.utf8)) }
        await process.closeInput()
        var output: [UInt8] = []
        while let bytes = await process.read() { output += bytes }
        let exit = await process.waitForExit()
        return Ending(
          exit: exit, output: String(decoding: output, as: UTF8.self), errors: await process.errorOutput)
      }
    } catch {
      await process.end()
      throw error
    }
  }

  /// Starts `run` for this gateway, and ends it after `body`. `gateway` false starts it without naming one.
  func withDaemon(
    state: String = "state", pairs: Bool = true, settings: String? = nil, environment: [String: String] = [:],
    _ body: (Subprocess) async throws -> Void
  ) async throws {
    var words = ["run"]
    if let settings { words += ["--config", settings] }
    if pairs { words += ["--gateway", await gateway.url, "--token-file", try tokenFile()] }
    let daemon = try await start(words, state: state, environment: environment)
    do {
      let isUp = try await eventually { try await run(["status"], state: state).exit.isSuccess }
      let errors = await daemon.errorOutput
      try #require(isUp, "the daemon did not come up: \(errors)")
      try await body(daemon)
    } catch {
      await daemon.end()
      throw error
    }
    await daemon.end()
  }

  func status(state: String = "state") async throws -> JSON { try await run(["status", "--json"], state: state).json }

  func becomesReady(state: String = "state") async throws -> Bool {
    if try await eventually(within: .seconds(20), { try await status(state: state)["ready"] == true }) { return true }
    print("not ready: \(try await status(state: state).text)")
    return false
  }
}

/// The built program.
enum Program {
  /// It lies beside the test bundle.
  static let path: String = {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = buffer.withUnsafeMutableBytes {
      readlink("/proc/self/exe", $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
    }
    let bundle = String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
    return bundle[...(bundle.lastIndex(of: "/") ?? bundle.startIndex)] + "talknode"
  }()

  /// Nothing of the person who runs the tests: no session, no settings. What the sanitizers are told goes on.
  static func environment(_ folder: TemporaryFolder, _ extra: [String: String]) -> [String: String] {
    var variables = ["HOME": folder("home"), "PATH": "/usr/bin:/bin", "TMPDIR": folder.path]
    for name in ["TSAN_OPTIONS", "ASAN_OPTIONS", "LLVM_PROFILE_FILE", "LD_LIBRARY_PATH"] {
      if let value = getenv(name) { variables[name] = String(cString: value) }
    }
    return variables.merging(extra) { $1 }
  }
}
