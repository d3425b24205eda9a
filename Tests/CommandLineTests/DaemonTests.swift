import DevGateway
import GatewayProtocol
import Glibc
import System
import TestSupport
import Testing
import Transport

/// `talknode run` and the commands that talk to it.
@Suite struct DaemonTests {
  @Test("without a daemon, status is one sentence and the command that starts one")
  func noDaemon() async throws {
    try await Bed.with { bed in
      let ending = try await bed.run(["status"])
      #expect(ending.exit == .code(69))
      #expect(ending.output == "")
      #expect(ending.errors.contains("talknode is not running."))
      #expect(ending.errors.contains("talknode run"))
      let json = try await bed.run(["status", "--json"])
      #expect(json.json["error"]?["code"] == "NO_DAEMON")
    }
  }

  @Test("a daemon answers its commands until SIGTERM, then its socket is gone")
  func life() async throws {
    try await Bed.with { bed in
      let socket = bed.state() + "/run/control.sock"
      try await bed.withDaemon { daemon in
        #expect(try await bed.becomesReady())
        var status = stat()
        #expect(stat(socket, &status) == 0 && status.st_mode & 0o777 == 0o600)
        let shown = try await bed.status()
        #expect(shown["link"]?["url"]?.string == (await bed.gateway.url))
        #expect(shown["link"]?["missing"]?.array == [])
        #expect(try await bed.run(["status"]).output.contains("connected"))
        #expect(try await bed.run(["doctor"]).errors == "")
        await daemon.signal(SIGTERM)
        #expect(await daemon.waitForExit() == .code(0))
        #expect(!(await daemon.errorOutput).contains(bed.gateway.token), "a secret is in the log")
      }
      #expect(!Files.exists(socket))
      #expect(await eventually { await bed.gateway.sessions().isEmpty })
    }
  }

  @Test("a second daemon on the same state folder is refused and names the first; another folder goes beside it")
  func oneEach() async throws {
    try await Bed.with { bed in
      try await bed.withDaemon { daemon in
        let second = try await bed.run(["run"])
        #expect(second.exit == .code(75))
        #expect(second.errors.contains("(pid \(daemon.processID))"))
        try await bed.withDaemon(state: "other") { _ in
          let (one, other) = (try await bed.becomesReady(), try await bed.becomesReady(state: "other"))
          #expect(one && other)
          let ids = [try await bed.status(), try await bed.status(state: "other")].map { $0["deviceId"] }
          #expect(ids[0] != ids[1])
        }
        #expect(try await bed.becomesReady())
      }
    }
  }

  @Test("status --follow is a line a change, and ends with the daemon")
  func follow() async throws {
    try await Bed.with { bed in
      let follower = try await withFollower(bed)
      #expect(follower.output.split(separator: "\n").contains { $0.hasPrefix("ready at") })
      #expect(follower.exit != .code(0))
    }
  }

  private func withFollower(_ bed: Bed) async throws -> Bed.Ending {
    let daemon = try await bed.start(["run"])
    #expect(try await eventually { try await bed.run(["status"]).exit.isSuccess })
    let follower = try await bed.start(["status", "--follow"])
    #expect(try await follower.readLine() == Array("not paired with a gateway".utf8))
    #expect(try await bed.run(["pair", await bed.gateway.makeSetupCode(profile: .full).text]).exit == .code(0))
    await daemon.end()
    return try await Bed.ending(of: follower)
  }

  @Test("a service manager hears READY once, the state in words, and STOPPING")
  func supervised() async throws {
    try await Bed.with { bed in
      let manager = try await NotifySocket(path: bed.folder("notify"), loop: bed.loop)
      try await bed.withDaemon(environment: ["NOTIFY_SOCKET": bed.folder("notify"), "WATCHDOG_USEC": "40000"]) {
        (_: Subprocess) async throws in
        #expect(try await bed.becomesReady())
        #expect(await eventually { await manager.messages.contains { $0.contains("STATUS=ready at") } })
        #expect(await eventually { await manager.messages.filter { $0 == "WATCHDOG=1" }.count >= 3 })
      }
      let messages = await manager.messages
      await manager.end()
      #expect(messages.filter { $0.hasPrefix("READY=1") }.count == 1)
      #expect(messages.last { $0 != "WATCHDOG=1" } == "STOPPING=1")
    }
  }

  @Test("nonsense on the control socket is answered or cut off, and the daemon goes on")
  func hostileClients() async throws {
    try await Bed.with { bed in
      try await bed.withDaemon { _ in
        let socket = bed.state() + "/run/control.sock"
        for line in [
          "", "nonsense", "{}", #"{"v":2,"op":"status"}"#, #"{"v":1,"op":"fly"}"#, #"{"v":1,"op":"invoke"}"#,
        ] {
          let connection = try await UnixConnection.connect(path: socket, loop: bed.loop, timeout: .seconds(5))
          try await connection.writeLine(Array(line.utf8))
          let answer = try JSON(parsing: try #require(try await connection.readLine(limit: 65536)))
          #expect(answer["ok"] == false && answer["error"]?["summary"] != nil, "\(line)")
          await connection.close()
        }
        let talker = try await UnixConnection.connect(path: socket, loop: bed.loop, timeout: .seconds(5))
        try? await talker.writeLine([UInt8](repeating: 0x20, count: 2 << 20))
        let answer = try? await talker.readLine(limit: 65536)
        #expect((answer ?? nil) == nil)
        var guests: [UnixConnection] = []
        for _ in 0..<40 {
          guests.append(try await UnixConnection.connect(path: socket, loop: bed.loop, timeout: .seconds(5)))
        }
        let last = try await guests[39].readLine(limit: 65536)
        #expect(last.map { String(decoding: $0, as: UTF8.self) }?.contains("BUSY") == true)
        for guest in guests { await guest.close() }
        #expect(try await eventually { try await bed.run(["status"]).exit.isSuccess })
      }
    }
  }

  @Test("SIGHUP reads the settings anew; wrong ones change nothing")
  func reload() async throws {
    try await Bed.with { bed in
      try bed.folder.write("home/.config/talknode/config.toml", "[node]\ndisplay_name = \"before\"\n")
      try await bed.withDaemon { daemon in
        #expect(try await bed.becomesReady())
        #expect(try await bed.status()["displayName"] == "before")
        try bed.folder.write("home/.config/talknode/config.toml", "[node]\ndisplay_name = 7\n")
        await daemon.signal(SIGHUP)
        #expect(await eventually { await daemon.errorOutput.contains("config.toml:2:1") })
        #expect(try await bed.status()["displayName"] == "before")
        try bed.folder.write("home/.config/talknode/config.toml", "[node]\ndisplay_name = \"after\"\n")
        await daemon.signal(SIGHUP)
        #expect(try await eventually { try await bed.status()["displayName"] == "after" })
        #expect(try await bed.becomesReady())
        #expect(try await bed.run(["invoke", "device.info"]).json["deviceName"] == "after")
        // What is read and says the same disturbs nobody: results under way would be lost.
        let since = try await bed.status()["link"]?["node"]
        try bed.folder.write(
          "home/.config/talknode/config.toml", "[node]\ndisplay_name = \"after\"\n[log]\nlevel = \"debug\"\n")
        await daemon.signal(SIGHUP)
        try await Task.sleep(for: .milliseconds(300))
        #expect(try await bed.status()["link"]?["node"] == since)
        #expect(await !daemon.errorOutput.contains("after a restart"))
        // What only a new start takes over is named.
        try bed.folder.write(
          "home/.config/talknode/config.toml",
          "[node]\ndisplay_name = \"after\"\n[camera]\nwarm = 5\n[location]\nround_to_meters = 500\n")
        await daemon.signal(SIGHUP)
        #expect(await eventually { await daemon.errorOutput.contains("Counts after a restart: camera.warm. ") })
      }
    }
  }

  @Test("a setting that can't be read keeps the daemon from starting, and says where it stands")
  func wrongSettings() async throws {
    try await Bed.with { bed in
      try bed.folder.write("mine.toml", "[log]\nlevle = \"info\"\nlevel = \"loud\"\n")
      let ending = try await bed.run(["run", "--config", bed.folder("mine.toml")])
      #expect(ending.exit == .code(78))
      #expect(ending.errors.contains("mine.toml:3:1: log.level must be one of"))
      #expect(ending.errors.contains("Did you mean level?"))
      let shown = try await bed.run(["config", "show", "--origin", "--config", bed.folder("mine.toml")])
      #expect(shown.exit == .code(78))
      #expect(shown.output.contains("log.level = \"info\""))
    }
  }
}

/// The service manager's end of sd_notify(3). It reads all the time, as the kernel keeps only some ten messages.
actor NotifySocket {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let descriptor: Int32
  private var watch: EventLoop.Token?
  private(set) var messages: [String] = []

  init(path: String, loop: EventLoop) async throws {
    self.loop = loop
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    if code != 0 { throw SystemError("bind \(path)", code: errno) }
    begin()
  }

  private func begin() {
    watch = loop.watch(descriptor, .readable) { [unowned self] _ in self.assumeIsolated { $0.read() } }
  }

  private func read() {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = Glibc.read(descriptor, &buffer, buffer.count)
    if count > 0 { messages.append(String(decoding: buffer.prefix(count), as: UTF8.self)) }
  }

  func end() {
    if let watch { loop.unwatch(watch) }
    close(descriptor)
  }
}
