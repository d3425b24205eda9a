import Audio
import Foundation
import System
import TestSupport
import Testing

/// A private sound server in a folder of its own; both are gone when the test is over.
final class TestServer: SoundPeer {
  let server: PrivateSoundServer
  let folder: TemporaryFolder
  var address: String { server.address }

  init(_ script: [String] = PrivateSoundServer.standardScript) async throws {
    #expect(ALSAConfiguration.isSet)
    folder = TemporaryFolder()
    server = try PrivateSoundServer(folder: folder.path, script: script)
    try await server.start()
  }
}

/// A server that speaks PulseAudio's protocol, with sinks `speaker` and `mic_in` and a source `microphone`.
protocol SoundPeer: Sendable {
  var address: String { get }
  /// A folder that lives as long as the server.
  var folder: TemporaryFolder { get }
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

  /// Plays a tone into the microphone with another program than ours, until the player is ended.
  func playTone(_ hertz: Int = 440, rate: Int = 48_000) async throws -> Child {
    let path = folder("tone-\(hertz)-\(rate).wav")
    _ = try await output(of: [
      "sox", "-n", "-r", "\(rate)", "-c", "1", "-b", "16", path, "synth", "120", "sine", "\(hertz)", "vol", "0.5",
    ])
    // Far ahead, so that the tone has no holes when the player is held up.
    return try Child(["paplay", "-s", address, "--device=mic_in", "--latency-msec=1000", path])
  }

  /// Records a source with another program than ours: raw s16le mono at 48 kHz.
  func record(_ source: String = "speaker.monitor") throws -> Recording {
    try Recording(address: address, source: source, path: folder("recorded-\(UInt64.random(in: 0...UInt64.max)).raw"))
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
  private let read = Lock<[UInt8]>([])

  init(address: String, source: String, path: String) throws {
    self.path = path
    child = try Child([
      "parecord", "-s", address, "--device=\(source)", "--raw", "--format=s16le", "--rate=48000", "--channels=1",
      "--latency-msec=20", path,
    ])
  }

  deinit {
    child.end()
    unlink(path)
  }

  /// Everything until now.
  var sound: PCM {
    let bytes = read.withLock { read in
      // Only what is new is read: it is asked for again and again.
      let file = open(path, O_RDONLY | O_CLOEXEC)
      if file >= 0 {
        lseek(file, off_t(read.count), SEEK_SET)
        var piece = [UInt8](repeating: 0, count: 65536)
        while case let count = Foundation.read(file, &piece, piece.count), count > 0 { read += piece[..<count] }
        close(file)
      }
      return read
    }
    return PCM(littleEndian: bytes, rate: Self.rate)
  }

  /// Waits until the recorder has begun.
  func begin() async throws { try await eventually("the recorder begins") { !self.sound.samples.isEmpty } }

  /// Waits until a sound that began has been over for a tenth of a second, and at least `seconds` of it were heard.
  func ending(of seconds: Double, amplitude: Float = 0.5) async throws -> PCM {
    try await eventually("\(seconds) s of sound and then silence are recorded") {
      let sound = self.sound
      guard let loud = sound.loudRange else { return false }
      return loud.upperBound < sound.samples.count - Self.rate / 10 && sound.secondsOfTone(amplitude) > seconds - 0.05
    }
    return sound
  }
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
func eventually(_ what: String, _ condition: () async throws -> Bool) async throws {
  // Not more often: looking is work too, and the sound servers want to run.
  let holds = try await eventually(within: .seconds(60)) {
    if try await condition() { return true }
    try await Task.sleep(for: .milliseconds(20))
    return false
  }
  if !holds { throw NeverHappened(description: "never happened: \(what)") }
}

extension PCM {
  /// The frequency by the time between rising zero crossings: the median, so that a hole in the sound changes nothing.
  var hertz: Double {
    var periods: [Double] = []
    var last: Double?
    for index in samples.indices.dropFirst() where samples[index - 1] < 0 && samples[index] >= 0 {
      let (below, above) = (Double(samples[index - 1]), Double(samples[index]))
      let crossing = Double(index - 1) - below / (above - below)
      if let last { periods.append(crossing - last) }
      last = crossing
    }
    guard periods.count > 2 else { return 0 }
    return Double(rate) / periods.sorted()[periods.count / 2]
  }

  /// How many seconds of a sine of this amplitude have as much energy. Holes in the sound do not count, what is missing or played
  /// twice does.
  func secondsOfTone(_ amplitude: Float) -> Double {
    let energy = samples.reduce(0.0) { $0 + Double($1) * Double($1) }
    return energy / Double(amplitude * amplitude / 2) / Double(rate)
  }

  /// The peak of most hundredths of a second that sound: where a sound is cut off, a resampler overshoots.
  var amplitude: Float {
    let size = rate / 100
    let peaks = stride(from: 0, to: samples.count - size, by: size)
      .map { Level(samples[$0..<($0 + size)]).peak }.filter { $0 > 0.01 }.sorted()
    return peaks.isEmpty ? 0 : peaks[peaks.count / 2]
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
  /// How many samples came, and how many of them were no zeros.
  var count = 0
  var nonZero = 0

  var samples: [Float] { chunks.flatMap(\.samples) }
  /// The notices about the microphone's coming and going. A device that lost a little sound on a busy machine is none.
  var comings: [Capture.Notice] { notices.filter { $0 != .gap } }
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
            case .chunk(let chunk):
              heard.chunks.append(chunk)
              heard.count += chunk.samples.count
              heard.nonZero += chunk.samples.count { $0 != 0 }
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
