import Audio
import GatewayProtocol
import Glibc
import System
import Transport

/// Push-to-talk on a sound server without hardware: how soon the microphone hears, how soon what was said is handed over, how soon it is silent.
extension Section {
  static let talk = Section(name: "talk") { options in
    let bed = try await TalkBed(options)
    do {
      let figures = try await bed.measure(options)
      await bed.close()
      return figures
    } catch {
      await bed.close()
      throw error
    }
  }
}

/// The daemon with a microphone that hears faint noise, a recogniser that answers at once, and an ear at its speaker.
private final class TalkBed: Sendable {
  private let bed: TestBed
  private let server: PrivateSoundServer
  private let noise: Task<Void, any Error>
  private let handed: Lock<Duration?>
  private let control: Control
  private let notices: Notices

  init(_ options: Options) async throws {
    let handed = Lock<Duration?>(nil)
    self.handed = handed
    bed = try await TestBed(options, allow: []) { settings in
      settings.agent = { turn in
        handed.withLock { $0 = Monotonic.now() }
        return [.say("All right.")]
      }
    }
    server = try PrivateSoundServer(folder: bed.folder + "/sound")
    try await server.start()
    let address = server.address
    noise = Task { try await Self.makeNoise(address) }
    let settings = """
      [audio]
      backend = "pulse"
      server = "\(address)"
      [talk]
      transcriber = "command"
      command = ["\(CommandLine.arguments[0])", "\(Part.recogniser.rawValue)"]
      speak_answers = false
      gateway_voice = false
      cues = false
      """
    _ = try await bed.startNode(awaiting: nil, settings: settings)
    control = try await Control(bed)
    notices = try await Notices(bed)
  }

  func close() async {
    noise.cancel()
    await bed.close()
    await server.stop()
  }

  /// A room in which nobody speaks: a microphone that hears exact silence counts as broken.
  private static func makeNoise(_ address: String) async throws {
    let sound = SoundSystem(AudioSettings(backend: .pulse, output: "mic_in", server: address, preRoll: .zero))
    let lease = try await sound.speaker.lease(for: "noise")
    let playback = try await lease.open(rate: 16_000)
    let second = (0..<16_000).map { _ in Float.random(in: -0.003...0.003) }
    while !Task.isCancelled { try await playback.write(second) }
    await lease.release()
    await sound.close()
  }

  func measure(_ options: Options) async throws -> [Figure] {
    let keys = try await measureKeys(options)
    var figures = [
      Figure(
        "key down (control socket) to the first sound heard, p50", unit: "ms", value: keys.down.median,
        target: .atMost(60), comparison: try await parecord(options), note: "its 20 ms of sound included"),
      Figure("… p95", unit: "ms", value: keys.down.quantile(0.95), target: .atMost(120)),
      Figure(
        "key up to the words at the gateway", unit: "ms", value: keys.up.median, target: .atMost(20),
        note: "with a recogniser that answers at once; p95 \(Report.text(keys.up.quantile(0.95), "ms"))"),
    ]
    figures.append(try await processorWhileCapturing(options))
    figures.append(try await silence(options))
    figures.append(try await idle(options))
    return figures
  }

  // MARK: The key

  private func measureKeys(_ options: Options) async throws -> (down: Samples, up: Samples) {
    var down = Samples()
    var up = Samples()
    for round in 0..<(options.times(60) + 1) {
      let start = Monotonic.now()
      let heard = try await notices.first("level", since: start) { try await self.control.ask("start") }
      try await Task.sleep(for: .milliseconds(400))
      handed.withLock { $0 = nil }
      let end = Monotonic.now()
      _ = try await control.ask("stop")
      let limit = end + .seconds(10)
      while handed.withLock({ $0 }) == nil {
        if Monotonic.now() > limit { throw BenchError("what was said did not reach the gateway") }
        try await Task.sleep(for: .milliseconds(1))
      }
      // The first loads libraries and starts the recogniser.
      if round > 0 {
        down.add((heard - start).milliseconds)
        up.add((handed.withLock { $0 ?? end } - end).milliseconds)
      }
      try await notices.until(phase: "idle")
    }
    return (down, up)
  }

  /// PulseAudio's own recorder, from the start of its process to its first sound.
  private func parecord(_ options: Options) async throws -> (String, Double)? {
    guard access("/usr/bin/parecord", X_OK) == 0 else { return nil }
    var times = Samples()
    for _ in 0..<options.times(20) {
      times.add(
        try await firstOutput(
          Subprocess.Command("parecord", ["--server=\(server.address)", "--raw", "--latency-msec=20"]), bed.loop))
    }
    return ("parecord", times.median)
  }

  // MARK: What it costs

  /// The daemon's share of a core while it hears and passes on; the recogniser's own work is its own.
  private func processorWhileCapturing(_ options: Options) async throws -> Figure {
    _ = try await control.ask("start")
    try await Task.sleep(for: .seconds(1))
    let seconds = options.isQuick ? 5 : 30
    let before = Machine.processorTime(of: bed.process)
    try await Task.sleep(for: .seconds(seconds))
    let used = Machine.processorTime(of: bed.process) - before
    _ = try await control.ask("cancel")
    try await notices.until(phase: "idle")
    return Figure(
      "processor while capturing", unit: "% of a core", value: used.milliseconds / Double(seconds) / 10,
      target: .atMost(3), note: "over \(seconds) s, sound converted to 16 kHz and handed to a recogniser")
  }

  /// From the request for silence to the last sound at the speaker's monitor.
  private func silence(_ options: Options) async throws -> Figure {
    let ear = SoundSystem(AudioSettings(backend: .pulse, input: "speaker.monitor", server: server.address))
    var times = Samples()
    let text = Array(repeating: "This goes on and on, and then it goes on.", count: 50).joined(separator: " ")
    for _ in 0..<options.times(30) {
      let reading = try await Control(bed)
      async let end = reading.ask("listen", ["text": .string(text)])
      let lease = try await ear.microphone.lease(for: "the ear")
      let capture = try await lease.capture(Capture.Options(rate: 16_000))
      var asked: Duration?
      var last: Duration?
      var spoken = 0
      for try await case .chunk(let chunk) in capture {
        let isLoud = chunk.level.peak > 0.01
        let chunkEnd = chunk.at + .milliseconds(20)
        if let asked {
          if isLoud { last = chunkEnd }
          if chunk.at > asked + .milliseconds(600) { break }
        } else if isLoud {
          spoken += 1
          if spoken == 40 {
            asked = Monotonic.now()
            _ = try await control.ask("hush")
          }
        }
      }
      await capture.stop()
      await lease.release()
      _ = try await end
      if let asked { times.add(max(0, ((last ?? asked) - asked).milliseconds)) }
    }
    await ear.close()
    return Figure(
      "hush to silence at the speaker", unit: "ms", value: times.median, target: .atMost(100),
      note: "worst \(Report.text(times.quantile(1), "ms"))")
  }

  /// After all of that, with nobody talking: how often the threads that sound and speech have are woken.
  private func idle(_ options: Options) async throws -> Figure {
    let threads = Machine.threads(of: bed.process).filter { ["pulse", "espeak-ng", "pocketsphinx"].contains($0.value) }
    let seconds = options.isQuick ? 5 : 30
    try await Task.sleep(for: .seconds(2))
    let before = Machine.sleeps(of: bed.process)
    try await Task.sleep(for: .seconds(seconds))
    let after = Machine.sleeps(of: bed.process)
    let count = threads.keys.reduce(0) { $0 + (after[$1] ?? 0) - (before[$1] ?? 0) }
    return Figure(
      "wake-ups by sound and speech while idle", unit: "/min", value: Double(count) * 60 / Double(seconds),
      target: .atMost(0), note: "threads: \(threads.values.sorted().joined(separator: " "))")
  }
}

/// Milliseconds from the start of a program to its first output.
func firstOutput(_ command: Subprocess.Command, _ loop: EventLoop) async throws -> Double {
  let start = Monotonic.now()
  let process = try await Subprocess.start(command, loop: loop)
  let bytes = await process.read()
  let time = (Monotonic.now() - start).milliseconds
  await process.signal(SIGKILL)
  _ = await process.waitForExit()
  if bytes == nil { throw BenchError("\(command.program) gave nothing: \(await process.errorOutput)") }
  return time
}

/// The daemon's control socket, one request at a time.
private struct Control: Sendable {
  private let connection: UnixConnection

  init(_ bed: TestBed) async throws {
    connection = try await UnixConnection.connect(
      path: bed.state + "/run/control.sock", loop: bed.loop, timeout: .seconds(5))
  }

  @discardableResult
  func ask(_ what: String, _ more: [String: JSON] = [:]) async throws -> JSON {
    let members: [String: JSON] = ["v": 1, "op": "talk", "do": .string(what)]
    try await connection.writeLine(JSON.object(members.merging(more) { $1 }).encoded())
    guard let line = try await connection.readLine(limit: 1 << 20) else { throw BenchError("the daemon hung up") }
    let answer = try JSON(parsing: line)
    guard answer["ok"]?.bool == true else { throw BenchError("\(what): \(answer.text)") }
    return answer["result"] ?? .null
  }
}

/// What the daemon tells of a capture, with the time each came.
private actor Notices {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  private let connection: UnixConnection
  private var phase = "idle"
  private var newest: [String: Duration] = [:]

  init(_ bed: TestBed) async throws {
    loop = bed.loop
    connection = try await UnixConnection.connect(
      path: bed.state + "/run/control.sock", loop: bed.loop, timeout: .seconds(5))
    try await connection.writeLine(JSON.object(["v": 1, "op": "watch-talk"]).encoded())
    Task { await read() }
  }

  private func read() async {
    while let line = try? await connection.readLine(limit: 1 << 20) {
      guard let event = (try? JSON(parsing: line))?["event"] else { continue }
      if let phase = event["phase"]?.string { self.phase = phase }
      for name in (event.object ?? [:]).keys where newest[name] == nil { newest[name] = Monotonic.now() }
    }
  }

  /// When the first notice of a kind came after `body` was begun.
  func first(_ kind: String, since start: Duration, _ body: @Sendable () async throws -> Void) async throws -> Duration
  {
    newest = [:]
    try await body()
    try await wait { newest[kind] != nil }
    return newest[kind] ?? start
  }

  func until(phase: String) async throws { try await wait { self.phase == phase } }

  private func wait(_ condition: () -> Bool) async throws {
    let limit = Monotonic.now() + .seconds(30)
    while !condition() {
      if Monotonic.now() > limit { throw BenchError("the daemon tells nothing of what was asked for") }
      try await Task.sleep(for: .milliseconds(1))
    }
  }
}

/// A recogniser that has always understood, at once: what is left is the daemon's own time.
enum InstantRecogniser {
  static func run() {
    func say(_ json: JSON) { try? Files.write(json.encoded() + [0x0A], to: STDOUT_FILENO, named: "stdout") }
    say(["type": "ready", "audio": "pcm"])
    while let line = readLine() {
      guard let message = try? JSON(parsing: Array(line.utf8)), message["type"] == "finish" else { continue }
      say(["type": "final", "id": message["id"] ?? "1", "text": "turn on the light"])
    }
  }
}
