import Glibc
import System
import TestSupport
import Testing

@testable import talknode

/// Where a state folder's daemon is found, and that there is only one.
@Suite struct InstanceTests {
  private func environment(_ extra: [String: String] = [:]) -> Environment {
    Environment(["HOME": "/home/ada"].merging(extra) { $1 })
  }

  @Test("the user's own state folder has its socket in the runtime folder, or below itself where there is none")
  func own() {
    let session = environment(["XDG_RUNTIME_DIR": "/run/user/7"])
    let own = Instance(state: nil, environment: session)
    #expect(own.socket.hasPrefix("/run/user/7/talknode/control-") && own.socket.hasSuffix(".sock"))
    let bare = Instance(state: nil, environment: environment())
    #expect(bare.state == "/home/ada/.local/state/talknode")
    #expect(bare.socket == "/home/ada/.local/state/talknode/run/control.sock")
    let moved = environment(["XDG_STATE_HOME": "/var/ada", "XDG_RUNTIME_DIR": "/run/user/7"])
    #expect(Instance(state: nil, environment: moved).state == "/var/ada/talknode")
    // Both are the user's own, and two devices.
    #expect(Instance(state: nil, environment: moved).socket != own.socket)
    let relative = environment(["XDG_STATE_HOME": "not/absolute", "XDG_RUNTIME_DIR": "neither"])
    #expect(Instance(state: nil, environment: relative) == bare)
  }

  @Test("another state folder never meets the user's own in one socket, under whatever name it is given")
  func other() {
    let folder = TemporaryFolder()
    let session = environment(["XDG_RUNTIME_DIR": "/run/user/7"])
    let other = Instance(state: folder.path, environment: session)
    #expect(other.socket == folder.path + "/run/control.sock")
    #expect(Instance(state: folder.path + "/", environment: session) == other)
    #expect(
      Instance(state: folder.path + "/../" + folder.path.split(separator: "/").last!, environment: session) == other)
    #expect(
      Instance(state: "/home/ada/.local/state/talknode", environment: session)
        == Instance(state: nil, environment: session))
  }

  @Test("a second daemon is refused and told the pid of the first; the lock goes with its owner")
  func lock() throws {
    let folder = TemporaryFolder()
    let instance = Instance(state: folder.path, environment: environment())
    var first: StateLock? = try StateLock(instance)
    let failure = #expect(throws: Failure.self) { try StateLock(instance) }
    #expect(failure?.code == "ALREADY_RUNNING")
    #expect(failure?.summary.contains("(pid \(getpid()))") == true)
    #expect(instance.lastDaemon == RunningDaemon(pid: getpid(), socket: instance.socket))
    withExtendedLifetime(first) {}
    first = nil
    _ = try StateLock(instance)
  }

  @Test("a daemon that is refused closes nobody else's descriptor")
  func refusedLock() throws {
    let folder = TemporaryFolder()
    let instance = Instance(state: folder.path, environment: environment())
    let first = try StateLock(instance)
    let (isOver, lost, hasEnded) = (Lock(false), Lock(0), Lock(false))
    let isStarted = startThread(name: "others") {
      while !isOver.withLock({ $0 }) {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        for _ in 0..<20 { if fcntl(descriptor, F_GETFD) < 0 { lost.withLock { $0 += 1 } } }
        close(descriptor)
      }
      hasEnded.withLock { $0 = true }
    }
    #expect(isStarted)
    for _ in 0..<2000 { #expect(throws: Failure.self) { try StateLock(instance) } }
    isOver.withLock { $0 = true }
    while !hasEnded.withLock({ $0 }) { sched_yield() }
    #expect(lost.withLock { $0 } == 0)
    withExtendedLifetime(first) {}
  }

  @Test("a lock file that is damaged names nobody")
  func damaged() throws {
    let folder = TemporaryFolder()
    let instance = Instance(state: folder.path, environment: environment())
    for text in ["", "x\n/y\n", "12", "12\nrelative\n", "12\n/a\n/b\n"] {
      try Files.writeAtomically(Array(text.utf8), to: instance.lockFile)
      #expect(instance.lastDaemon == nil)
    }
  }
}
