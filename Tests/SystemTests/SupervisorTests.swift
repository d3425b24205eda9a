import Glibc
import System
import TestSupport
import Testing

@Suite("Supervisor") struct SupervisorTests {
  @Test("without a service manager there is nobody to tell")
  func none() {
    #expect(Supervisor(environment: [:]) == nil)
    #expect(Supervisor(environment: ["NOTIFY_SOCKET": "vsock:2:1"]) == nil)
  }

  @Test("the watch is kept for the process it is meant for")
  func watchdog() {
    var environment = ["NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "20000000"]
    #expect(Supervisor(environment: environment)?.aliveInterval == .seconds(10))
    environment["WATCHDOG_PID"] = "1"
    #expect(Supervisor(environment: environment)?.aliveInterval == nil)
    environment["WATCHDOG_PID"] = String(getpid())
    #expect(Supervisor(environment: environment)?.aliveInterval == .seconds(10))
    environment["WATCHDOG_USEC"] = "soon"
    #expect(Supervisor(environment: environment)?.aliveInterval == nil)
  }

  @Test("a service manager on a real socket is told, by path and by abstract name", arguments: [false, true])
  func tells(abstract: Bool) throws {
    let folder = TemporaryFolder()
    let name = abstract ? "@" + folder("notify") : folder("notify")
    let manager = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    defer { close(manager) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let path = abstract ? [0] + name.utf8.dropFirst() : Array(name.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(manager, $0, socklen_t(2 + path.count)) }
    }
    try #require(bound == 0)
    let supervisor = try #require(Supervisor(environment: ["NOTIFY_SOCKET": name]))
    func told() -> String {
      var bytes = [UInt8](repeating: 0, count: 512)
      let count = recv(manager, &bytes, 512, 0)
      return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }
    supervisor.ready(status: "connected\nto atlas")
    supervisor.status("idle")
    supervisor.alive()
    supervisor.stopping()
    #expect(
      [told(), told(), told(), told()] == [
        "READY=1\nSTATUS=connected to atlas", "STATUS=idle", "WATCHDOG=1", "STOPPING=1",
      ])
  }
}
