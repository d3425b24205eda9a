import CLinux
import Crypto
import Glibc
import System

/// One state folder and the daemon that may be running on it: how the processes of one device find each other.
struct Instance: Sendable, Equatable {
  /// Absolute, without a trailing slash.
  let state: String
  /// Where a daemon of this state folder listens.
  let socket: String

  /// The folder of `--state`, or the user's own. Only the user's own has its socket in the runtime folder, under a name made of the
  /// folder's: which one is the user's own depends on HOME and XDG_STATE_HOME too, and two state folders must never meet in one socket.
  init(state chosen: String?, environment: Environment) {
    let own = Instance.absolute(environment.stateFolder)
    state = chosen.map(Instance.absolute) ?? own
    if state == own, let runtime = environment.runtimeFolder {
      socket = runtime + "/control-" + hexadecimal(sha256(Array(state.utf8)).prefix(4)) + ".sock"
    } else {
      socket = state + "/run/control.sock"
    }
  }

  /// Makes the state folder, for its owner only.
  func makeFolder() throws(Failure) {
    do { try Files.makeFolder(state) } catch {
      throw Failure(
        "STATE_UNUSABLE", "The state folder can't be made.", cause: "\(error)",
        remedy: "Name another: talknode run --state DIR", exit: .cantCreate)
    }
  }

  var lockFile: String { state + "/daemon.lock" }
  var switches: String { state + "/switches.json" }
  var healthIndex: String { state + "/health.index" }
  var unpacked: String { state + "/unpacked" }
  var audit: String { state + "/audit.jsonl" }

  /// Resolves links as far as the path exists, so that one folder has one name.
  private static func absolute(_ path: String) -> String {
    if let resolved = Files.resolved(path) { return resolved }
    guard let slash = path.lastIndex(of: "/") else {
      // Without a current folder (it was removed) there is nothing that it could be in: making it then fails.
      guard let here = Files.resolved(".") else { return path }
      return here + (path == "." ? "" : "/" + path)
    }
    let parent = path[..<slash]
    let name = path[path.index(after: slash)...]
    if name.isEmpty { return absolute(String(parent.isEmpty ? "/" : parent)) }
    let folder = absolute(parent.isEmpty ? "/" : String(parent))
    return (folder == "/" ? "" : folder) + "/" + name
  }
}

/// What a daemon wrote about itself.
struct RunningDaemon: Sendable, Equatable {
  let pid: Int32
  let socket: String
}

extension Instance {
  /// What the last daemon of this state folder wrote; it may have ended since. Its socket is believed over the derived one: it may
  /// have been started in another session, with another XDG_RUNTIME_DIR.
  var lastDaemon: RunningDaemon? {
    guard let text = Files.text(lockFile, limit: 8192) else { return nil }
    let lines = text.split(separator: "\n")
    guard lines.count == 2, let pid = Int32(lines[0]), lines[1].hasPrefix("/") else { return nil }
    return RunningDaemon(pid: pid, socket: String(lines[1]))
  }
}

/// Holds a state folder for one daemon, by flock: the kernel gives it back however the process ends.
final class StateLock: Sendable {
  private let descriptor: Int32

  /// Takes the lock, or names the process that has it.
  init(_ instance: Instance) throws(Failure) {
    let file = instance.lockFile
    descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    if descriptor < 0 {
      let reason = String(cString: strerror(errno))
      throw Failure(
        "STATE_UNUSABLE", "The state folder can't be used.", cause: "open \(file): \(reason)",
        remedy: "talknode --help shows --state DIR, for another folder", exit: .cantCreate)
    }
    // From here on what is thrown goes through `deinit`, which closes it: closing it here too would close whose number it is by then.
    if flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      let pid = instance.lastDaemon.map { " (pid \($0.pid))" } ?? ""
      throw Failure(
        "ALREADY_RUNNING", "talknode is already running on this state folder\(pid).",
        cause: "one daemon a state folder: \(instance.state)", remedy: "talknode status", exit: .temporary)
    }
    let text = Array("\(getpid())\n\(instance.socket)\n".utf8)
    do throws(SystemError) {
      if ftruncate(descriptor, 0) != 0 { throw SystemError("truncate \(file)", code: errno) }
      try Files.write(text, to: descriptor, named: file)
    } catch {
      throw Failure("STATE_UNUSABLE", "The state folder can't be written.", cause: "\(error)", exit: .ioError)
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }
}
