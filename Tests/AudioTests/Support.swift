import Audio
import Foundation
import System
import Testing

/// A private sound server in a folder of its own; both are gone when the test is over.
final class TestServer: SoundPeer {
  let server: PrivateSoundServer
  var address: String { server.address }
  var folder: String { server.folder }

  init(_ script: [String] = PrivateSoundServer.standardScript) async throws {
    server = try PrivateSoundServer(folder: temporaryFolder(), script: script)
    try await server.start()
  }

  deinit {
    if let process = server.processID { kill(process, SIGKILL) }
    try? Files.removeTree(folder)
  }
}

/// A server that speaks PulseAudio's protocol, with sinks `speaker` and `mic_in` and a source `microphone`.
protocol SoundPeer: Sendable {
  var address: String { get }
  /// A folder that lives as long as the server.
  var folder: String { get }
}

extension SoundPeer {
  /// A sound system on this server.
  func system(_ change: (inout AudioSettings) -> Void = { _ in }) -> SoundSystem {
    var settings = AudioSettings(backend: .pulse, server: address)
    change(&settings)
    return SoundSystem(settings)
  }

  /// What `pactl` prints.
  @discardableResult
  func pactl(_ arguments: String...) async throws -> String {
    try await output(of: ["pactl", "-s", address] + arguments)
  }

  /// Whether any program records; modules that do so are not counted.
  var isRecording: Bool {
    get async throws { try await pactl("list", "short", "source-outputs").contains("protocol-native") }
  }

  /// Plays a tone into the microphone (or another sink) with another program than ours, until the player is ended.
  func playTone(_ hertz: Double = 440, seconds: Int = 30, into sink: String = "mic_in", rate: Int = 48_000) throws
    -> Child
  {
    let path = folder + "/tone-\(hertz)-\(rate)-\(seconds).wav"
    if !Files.exists(path) {
      let second = PCM.tone(hertz, seconds: Double(seconds), rate: rate, amplitude: 0.5)
      try Files.writeAtomically(AudioFile.wav(second), to: path)
    }
    return try Child(["paplay", "-s", address, "--device=\(sink)", "--latency-msec=50", path])
  }

  /// Records a source with another program than ours: raw s16le mono at 48 kHz.
  func record(_ source: String = "speaker.monitor") throws -> Recording {
    try Recording(address: address, source: source, path: folder + "/recorded-\(UInt64.random(in: 0...UInt64.max)).raw")
  }
}

/// A child process that is ended with its owner.
final class Child: Sendable {
  let process = Process()

  init(_ arguments: [String], environment: [String: String] = [:], output: FileHandle? = nil) throws {
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = output ?? FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
  }

  deinit { end() }

  func end() {
    if process.isRunning {
      // Not SIGTERM: paplay plays to the end then.
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }
  }
}

/// What `parecord` hears.
final class Recording: Sendable {
  static let rate = 48_000
  private let child: Child
  private let path: String

  init(address: String, source: String, path: String) throws {
    self.path = path
    child = try Child([
      "parecord", "-s", address, "--device=\(source)", "--raw", "--format=s16le", "--rate=48000", "--channels=1",
      "--latency-msec=10", path,
    ])
  }

  deinit {
    child.end()
    unlink(path)
  }

  /// Everything until now.
  var sound: PCM { PCM(littleEndian: (try? Files.read(path)) ?? [], rate: Self.rate) }

  /// Waits until the recorder has begun.
  func begin() async throws { try await eventually("the recorder begins") { !self.sound.samples.isEmpty } }
}

func temporaryFolder() -> String {
  var template = Array("/tmp/talknode-audio-XXXXXX".utf8CString)
  return String(cString: mkdtemp(&template)!)
}

func output(of arguments: [String], environment: [String: String] = [:]) async throws -> String {
  let pipe = Pipe()
  let child = try Child(arguments, environment: environment, output: pipe.fileHandleForWriting)
  try pipe.fileHandleForWriting.close()
  return try await withCheckedThrowingContinuation { continuation in
    DispatchQueue.global().async {
      continuation.resume(
        with: Result { String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self) })
      child.end()
    }
  }
}

struct NeverHappened: Error, CustomStringConvertible {
  let description: String
}

/// Waits until `condition` holds; throws after a limit that is only ever reached by a failure.
func eventually(
  _ what: String, within limit: Duration = .seconds(15), _ condition: () async throws -> Bool
) async throws {
  let end = ContinuousClock.now + limit
  while try await !condition() {
    if ContinuousClock.now > end { throw NeverHappened(description: "never happened: \(what)") }
    try await Task.sleep(for: .milliseconds(10))
  }
}

extension PCM {
  /// The frequency by rising zero crossings, over the part that is not silent.
  var hertz: Double {
    var rising: [Int] = []
    for index in samples.indices.dropFirst() where samples[index - 1] < 0 && samples[index] >= 0 {
      rising.append(index)
    }
    guard rising.count > 2 else { return 0 }
    return Double(rising.count - 1) * Double(rate) / Double(rising.last! - rising.first!)
  }

  /// Index of the first and last sample louder than a hundredth of full scale.
  var loudRange: ClosedRange<Int>? {
    guard let first = samples.firstIndex(where: { abs($0) > 0.01 }) else { return nil }
    return first...samples.lastIndex { abs($0) > 0.01 }!
  }
}

/// What a capture gave until now.
struct Heard {
  var chunks: [Capture.Chunk] = []
  var notices: [Capture.Notice] = []
  var error: AudioError?
  var hasEnded = false

  var samples: [Float] { chunks.flatMap(\.samples) }
}

/// Reads a capture in the background.
final class Listener: Sendable {
  private let heard = Lock(Heard())
  private let task: Task<Void, Never>

  init(_ capture: Capture) {
    task = Task { [heard] in
      do throws(AudioError) {
        for try await event in capture {
          heard.withLock { heard in
            switch event {
            case .chunk(let chunk): heard.chunks.append(chunk)
            case .notice(let notice): heard.notices.append(notice)
            }
          }
        }
      } catch {
        heard.withLock { $0.error = error }
      }
      heard.withLock { $0.hasEnded = true }
    }
  }

  deinit { task.cancel() }

  var now: Heard { heard.withLock { $0 } }

  func whole() async -> Heard {
    await task.value
    return now
  }
}

/// What `body` throws; nil when it succeeds.
func failure(_ body: () async throws(AudioError) -> Void) async -> AudioError? {
  do throws(AudioError) { try await body() } catch { return error }
  return nil
}
