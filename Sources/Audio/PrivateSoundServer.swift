import Glibc
import System

/// A PulseAudio server without hardware, for the demonstration and the tests: a speaker whose sound can be recorded and a microphone
/// that hears what is played into it. Everything of it lies in one folder, and it serves this user's own processes only.
///
/// - sink `speaker` (48 kHz, two channels); its monitor `speaker.monitor` is what a person would have heard;
/// - sink `mic_in` (16 kHz, one channel): what is played into it is heard, in real time, by
/// - source `microphone`, the default one.
public final class PrivateSoundServer: Sendable {
  /// The address for `AudioSettings.server` and `PULSE_SERVER`.
  public let address: String
  /// Where its socket, script and log are.
  public let folder: String
  private let script: [String]
  private let process = Lock<pid_t?>(nil)

  /// The modules described above, as lines of PulseAudio's start script.
  ///
  /// Without norewinds=1 an idle null sink renders two seconds ahead, and the microphone would hear everything that much late.
  public static let standardScript = [
    "load-module module-null-sink sink_name=speaker rate=48000 channels=2 norewinds=1"
      + " sink_properties=device.description=Speaker",
    "load-module module-null-sink sink_name=mic_in rate=16000 channels=1 norewinds=1",
    "load-module module-remap-source source_name=microphone master=mic_in.monitor"
      + " source_properties=device.description=Microphone",
    "set-default-sink speaker",
    "set-default-source microphone",
  ]

  /// Nothing is started yet. `folder` is made (0700) when it is not there; its path is at most 90 bytes long, because the socket's name has to fit.
  public init(folder: String, script: [String] = PrivateSoundServer.standardScript) throws(AudioError) {
    self.folder = folder
    self.script = script
    address = "unix:\(folder)/native"
    if folder.utf8.count > 90 {
      throw AudioError(.serverUnavailable, "The folder \(folder) is too deep for a sound server's socket.")
    }
  }

  deinit {
    if let process = process.withLock({ $0 }) {
      kill(process, SIGKILL)
      waitpid(process, nil, 0)
    }
  }

  /// The running server.
  public var processID: Int32? { process.withLock { $0 } }

  /// Starts the server and returns when it answers. Throws `libraryMissing` when PulseAudio is not installed.
  public func start() async throws(AudioError) {
    do throws(SystemError) {
      try Files.makeFolder(folder + "/rt")
      let first = "load-module module-native-protocol-unix socket=\(folder)/native auth-anonymous=1"
      let text = ([first] + script).joined(separator: "\n") + "\n"
      try Files.writeAtomically(Array(text.utf8), to: folder + "/start.pa")
    } catch {
      throw AudioError(.serverUnavailable, "The private sound server has no folder: \(error).")
    }
    let child = try spawn()
    process.withLock { $0 = child }
    let limit = Monotonic.now() + .seconds(10)
    while true {
      let probe = PulseBackend(server: address)
      let answers = (try? await probe.probe()) != nil
      await probe.close()
      if answers { return }
      let hasEnded = waitpid(child, nil, WNOHANG) == child
      if hasEnded { process.withLock { $0 = nil } }
      if hasEnded || Monotonic.now() > limit {
        await stop()
        let log = (Files.text(folder + "/pulse.log") ?? "").split(separator: "\n").suffix(3).joined(separator: " | ")
        throw AudioError(.serverUnavailable, "The private sound server did not start: \(log)")
      }
      try? await Task.sleep(for: .milliseconds(20))
    }
  }

  /// Ends the server. It can be started again.
  public func stop() async { await end(with: SIGTERM) }

  /// Ends the server as a crash would.
  public func crash() async { await end(with: SIGKILL) }

  private func end(with signal: Int32) async {
    let child = process.withLock { process in
      defer { process = nil }
      return process
    }
    guard let child else { return }
    kill(child, signal)
    kill(child, SIGCONT)
    let limit = Monotonic.now() + .seconds(3)
    while waitpid(child, nil, WNOHANG) == 0 {
      if Monotonic.now() > limit { kill(child, SIGKILL) }
      try? await Task.sleep(for: .milliseconds(5))
    }
    unlink(folder + "/native")
    unlink(folder + "/rt/pid")
  }

  private func spawn() throws(AudioError) -> pid_t {
    let arguments = [
      "pulseaudio", "-n", "-F", folder + "/start.pa", "--daemonize=no", "--use-pid-file=no", "--disallow-exit",
      // Should this program be killed, the server ends by itself.
      "--exit-idle-time=60", "--realtime=no", "--high-priority=no", "--log-target=file:\(folder)/pulse.log",
    ]
    let environment = [
      "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=\(folder)", "XDG_RUNTIME_DIR=\(folder)",
      "PULSE_RUNTIME_PATH=\(folder)/rt",
      "XDG_CONFIG_HOME=\(folder)", "LANG=C",
    ]
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // This program may block or ignore signals that the server needs to be ended by.
    var none = sigset_t()
    sigemptyset(&none)
    var all = sigset_t()
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
      posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
    }
    var child: pid_t = 0
    let code = withPointers(arguments) { arguments in
      withPointers(environment) { environment in
        posix_spawnp(&child, "pulseaudio", &actions, &attributes, arguments, environment)
      }
    }
    if code == ENOENT {
      throw AudioError(.libraryMissing, "PulseAudio is not installed.", remedy: "sudo apt install pulseaudio")
    }
    if code != 0 {
      throw AudioError(.serverUnavailable, "PulseAudio did not start: \(SystemError("spawn", code: code).reason).")
    }
    return child
  }
}

/// `strings` as a C array with its terminating null.
private func withPointers<Result>(
  _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
  var pointers = strings.map { strdup($0) } + [nil]
  defer { for pointer in pointers { free(pointer) } }
  return pointers.withUnsafeMutableBufferPointer { body(UnsafePointer($0.baseAddress!)) }
}
