import Audio
import Camera
import CameraModule
import Configuration
import GatewayProtocol
import Glibc
import System

/// Cameras for the person at this machine. They need no switch and no daemon: switches are for agents.
enum CameraCommand {
  private static let device = Option("device", value: "ID", "which camera (default: the settings' one, else the first)")
  private static let width = Option("width", value: "PIXELS", "the most across (default: 1600)")
  private static let quality = Option("quality", value: "PERCENT", "the JPEG's, 5 to 100 (default: 90)")
  private static let delay = Option("delay", value: "MS", "take it so long after the camera begins, settled or not")
  private static let seconds = Option("seconds", value: "N", "how long, 0.25 to 60 (default: 3)")
  private static let silent = Option("silent", "without sound")

  static let list = Verb(
    "camera list", "the cameras of this machine", options: [.json, .config],
    notes: ["* is the one that is used when none is named."], run: runList)
  static let snap = Verb(
    "camera snap", "take a picture", operands: [Operand("FILE", "where it is written (- is standard output)")],
    options: [device, width, quality, delay, .json, .config], run: runSnap)
  static let clip = Verb(
    "camera clip", "take a clip with sound", operands: [Operand("FILE", "where it is written (- is standard output)")],
    options: [device, seconds, silent, .json, .config], run: runClip)

  // MARK: list

  private static func runList(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let settings = CameraSettings(try context.settings())
    return try await with(settings) { cameras async throws(Failure) in
      let findings: CameraList.Findings
      do throws(CameraError) { findings = try await cameras.find() } catch { throw Failure(error) }
      let preferred = try? findings.device(settings.device, isPreference: settings.device != nil)
      if context.wantsJSON {
        terminal.print([
          "devices": .array(
            findings.devices.map { device in
              JSON.object(present: [
                "id": .string(device.id), "name": .string(device.name), "kind": .string(device.kind),
                "node": device.node.map(JSON.string), "default": .bool(device == preferred),
              ])
            }), "denied": .strings(findings.denied), "stuck": .strings(findings.stuck),
          "needingLibcamera": .strings(findings.needingLibcamera),
        ])
      } else {
        terminal.print(
          table: findings.devices.map { device in
            [device == preferred ? "*" : " ", device.id, device.kind, device.name]
          })
        for node in findings.denied { terminal.note("\(node) may not be opened by this user.") }
        for node in findings.stuck { terminal.note("\(node)'s driver does not answer.") }
        for node in findings.needingLibcamera { terminal.note("\(node) needs a program: [camera.source.NAME].") }
      }
      if findings.devices.isEmpty { throw Failure(findings.absence) }
      return .ok
    }
  }

  // MARK: snap

  private static func runSnap(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    var limits = Picture.Limits(bytes: 64 << 20)
    if let number = try arguments.number(width, in: 2...16_384) { limits.width = Int(number) }
    if let number = try arguments.number(quality, in: 5...100) { limits.quality = number / 100 }
    let pause = try arguments.number(delay, in: 0...10_000).map { Duration.milliseconds(Int64($0)) }
    let request = SnapRequest(device: arguments[device], limits: limits, delay: pause, limit: .seconds(40))
    return try await with(CameraSettings(try context.settings())) { cameras async throws(Failure) in
      let picture: Picture
      do throws(CameraError) { picture = try await cameras.snap(request) } catch { throw Failure(error) }
      try write(picture.bytes, to: arguments[0]!, terminal)
      report(
        [
          "file": .string(arguments[0]!), "bytes": .int(Int64(picture.bytes.count)),
          "width": .int(Int64(picture.size.width)), "height": .int(Int64(picture.size.height)),
          "source": .string(picture.source.description), "untouched": .bool(picture.isPassedThrough),
        ], "\(picture.size), \(picture.bytes.count) bytes, from \(picture.source)", arguments, terminal)
      return .ok
    }
  }

  // MARK: clip

  private static func runClip(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let length = Duration.milliseconds(Int64((try arguments.number(seconds, in: 0.25...60) ?? 3) * 1000))
    let settings = try context.settings()
    let request = ClipRequest(device: arguments[device], duration: length, maxBytes: 256 << 20)
    return try await with(CameraSettings(settings)) { cameras async throws(Failure) in
      let sound = arguments.has(silent) ? nil : SoundSystem(AudioSettings(settings.audio))
      let clip: Clip
      do throws(CameraError) {
        let writer = try ClipWriters.maker(cameras.loop)()
        clip = try await cameras.clip(request, to: writer, sound: await microphone(sound, terminal))
      } catch {
        await sound?.close()
        throw Failure(error)
      }
      await sound?.close()
      try write(clip.bytes, to: arguments[0]!, terminal)
      report(
        [
          "file": .string(arguments[0]!), "bytes": .int(Int64(clip.bytes.count)),
          "width": .int(Int64(clip.size.width)), "height": .int(Int64(clip.size.height)),
          "frames": .int(Int64(clip.frames)), "framesDropped": .int(Int64(clip.framesDropped)),
          "hasAudio": .bool(clip.hasSound),
        ],
        "\(clip.size), \(clip.frames) frames, \(clip.bytes.count) bytes, \(clip.hasSound ? "with sound" : "silent")",
        arguments, terminal)
      return .ok
    }
  }

  /// The microphone; nil, with a word why, when there is none.
  private static func microphone(
    _ sound: SoundSystem?, _ terminal: Terminal
  ) async throws(CameraError) -> MicrophoneSound? {
    guard let sound else { return nil }
    do throws(CameraError) { return try await MicrophoneSound.opened(sound) } catch {
      guard error.code == .soundFailed else { throw error }
      terminal.note("The clip is silent: \(error.summary)")
      return nil
    }
  }

  // MARK: What they share

  /// Runs `body`, and closes the cameras after it. Ctrl-C cancels it first: no light may stay on, and no program of a camera's behind.
  private static func with(
    _ settings: CameraSettings, _ body: @escaping @Sendable (Cameras) async throws(Failure) -> ExitStatus
  ) async throws(Failure) -> ExitStatus {
    let loop = EventLoop(name: "io")
    defer { loop.stop() }
    let signals: Signals
    do { signals = try Signals([SIGINT, SIGTERM], loop: loop) } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    await signals.start()
    let cameras = Cameras(settings: settings, loop: loop)
    let work = Task { () -> Result<ExitStatus, Failure> in
      do throws(Failure) { return .success(try await body(cameras)) } catch { return .failure(error) }
    }
    let watch = Task {
      for await _ in signals.stream { work.cancel() }
    }
    let result = await work.value
    await cameras.close()
    await signals.stop()
    await watch.value
    // What was finished at the last moment is finished.
    if work.isCancelled, case .failure = result { return .interrupted }
    return try result.get()
  }

  private static func write(_ bytes: [UInt8], to path: String, _ terminal: Terminal) throws(Failure) {
    if path == "-" { return terminal.print(bytes: bytes) }
    do { try Files.writeAtomically(bytes, to: path) } catch {
      throw Failure("OUT", "The file can't be written.", cause: "\(error)", exit: .cantCreate)
    }
  }

  private static func report(_ json: JSON, _ line: String, _ arguments: Arguments, _ terminal: Terminal) {
    // Standard output may be the picture itself.
    if arguments[0] == "-" { return terminal.note(arguments.has(.json) ? json.text : line) }
    if arguments.has(.json) { terminal.print(json) } else { terminal.print("\(arguments[0]!): \(line)") }
  }
}

extension Arguments {
  /// An option's number within bounds; nil when it was not given.
  fileprivate func number(_ option: Option, in range: ClosedRange<Double>) throws(Failure) -> Double? {
    guard let text = self[option] else { return nil }
    guard let number = Double(text), range.contains(number) else {
      let bounds = [range.lowerBound, range.upperBound].map { $0 == $0.rounded() ? "\(Int($0))" : "\($0)" }
      throw .usage("--\(option.name) takes \(bounds[0]) to \(bounds[1]).")
    }
    return number
  }
}

extension Failure {
  init(_ error: CameraError) {
    let exit: ExitStatus =
      switch error.code {
      case .notPermitted, .microphoneNotPermitted: .noPermission
      case .unknownCamera: .data
      case .busy, .timedOut, .microphoneBusy: .temporary
      default: .unavailable
      }
    self.init(error.code.rawValue, error.summary, remedy: error.remedy, exit: exit)
  }
}
