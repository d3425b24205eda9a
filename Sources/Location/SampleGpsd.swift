import Glibc
import System

/// A gpsd of one's own, without a receiver: fed by gpsfake with recorded logs, one for each receiver it is to have. For the demo, the
/// tests and the bench.
///
/// Listens on 127.0.0.1 only. Its logs are repeated for ever.
public actor SampleGpsd {
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  public private(set) var port: UInt16
  public var address: GpsdAddress { GpsdAddress(host: "127.0.0.1", port: port) }

  private let logs: [String]
  private let pace: Duration
  private let isPortGiven: Bool
  private var process: Subprocess?
  /// gpsfake is in one or the other, by release.
  private static let remedy = "sudo apt install gpsd gpsd-clients gpsd-tools"

  /// `pace` is the time from one sentence to the next. `port` 0 takes a free one. Without logs it is a bare gpsd that has no receiver.
  public init(logs: [String], pace: Duration = .milliseconds(100), port: UInt16 = 0, loop: EventLoop) {
    self.logs = logs
    self.pace = pace
    self.port = port
    isPortGiven = port != 0
    self.loop = loop
  }

  /// Returns when it answers, at most after some 10 s.
  public func start() async throws(LocationError) {
    // Another program may take the port between our look and gpsd's.
    for attempt in 1...3 {
      if !isPortGiven { port = Self.freePort() }
      let process = try await launch()
      if await answers(process) {
        self.process = process
        return
      }
      let said = await process.errorOutput
      await process.end(grace: .milliseconds(500))
      if attempt == 3 || isPortGiven {
        throw LocationError(
          .unavailable, "gpsfake does not start. \(said.trimmed)", remedy: Self.remedy)
      }
    }
  }

  private func launch() async throws(LocationError) -> Subprocess {
    var command: Subprocess.Command
    if logs.isEmpty {
      let path = "/usr/sbin/gpsd"
      command = Subprocess.Command(
        Files.exists(path) ? path : "gpsd",
        ["-N", "-S", "\(port)", "-F", "/tmp/talknode-gpsd-\(getpid())-\(port).sock"])
    } else {
      // -n: reads without waiting for a client, so that the receivers are there when one comes.
      command = Subprocess.Command(
        "gpsfake", ["-n", "-q", "-P", "\(port)", "-c", "\(pace.inSeconds)"] + logs)
    }
    do throws(SystemError) { return try await Subprocess.start(command, loop: loop) } catch {
      throw LocationError(
        .unavailable, "\(command.program) can't be started: \(error.reason).",
        remedy: Self.remedy)
    }
  }

  /// Waits until somebody listens and has all the receivers.
  private func answers(_ process: Subprocess) async -> Bool {
    let end = Monotonic.now() + .seconds(10)
    while Monotonic.now() < end {
      if await Self.isReady(port, receivers: logs.count) { return true }
      if Glibc.kill(process.processID, 0) != 0 { return false }
      do { try await Task.sleep(for: .milliseconds(20)) } catch { return false }
    }
    return false
  }

  /// Ends it and its gpsd.
  public func stop() async {
    await process?.end(grace: .seconds(1))
    sweep()
  }

  /// Ends it at once, as a crash does.
  public func kill() async {
    await process?.signal(SIGKILL)
    _ = await process?.waitForExit()
    sweep()
  }

  /// What gpsfake and gpsd leave behind.
  private func sweep() {
    if let process { unlink("/tmp/gpsfake-\(process.processID).sock") }
    unlink("/tmp/talknode-gpsd-\(getpid())-\(port).sock")
    process = nil
  }

  // MARK: Ports

  private static func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return address
  }

  /// A port of 127.0.0.1 that nobody uses now; 0 when there is none.
  public static func freePort() -> UInt16 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    if descriptor < 0 { return 0 }
    defer { close(descriptor) }
    var address = loopback(0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    return withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        if bind(descriptor, pointer, length) != 0 || getsockname(descriptor, pointer, &length) != 0 { return }
      }
      return UInt16(bigEndian: pointer.pointee.sin_port)
    }
  }

  /// Whether somebody at that port of this machine knows as many receivers. Takes 0.2 s at most.
  @concurrent private static func isReady(_ port: UInt16, receivers: Int) async -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    if descriptor < 0 { return false }
    defer { close(descriptor) }
    var address = loopback(port)
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    let question = Array("?DEVICES;\n".utf8)
    if code != 0 || write(descriptor, question, question.count) != question.count { return false }
    var answer = ""
    let end = Monotonic.now() + .milliseconds(200)
    while Monotonic.now() < end {
      var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&wait, 1, 200) == 1 else { return false }
      var bytes = [UInt8](repeating: 0, count: 16384)
      let count = read(descriptor, &bytes, bytes.count)
      if count <= 0 { return false }
      answer += String(decoding: bytes[..<count], as: UTF8.self)
      guard let list = answer.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(#"{"class":"DEVICES""#) })
      else {
        continue
      }
      return list.split(separator: #""path":"#).count > receivers
    }
    return false
  }
}
