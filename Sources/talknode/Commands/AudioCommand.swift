import Audio
import GatewayProtocol
import Glibc
import System

/// `talknode audio …`: what sound there is, and whether it works. Opens the devices itself, so it needs no running talknode.
enum AudioCommand {
  private static let seconds = Option("seconds", value: "N", "end after N seconds, 1 to 3600")
  private static let silent = Option("silent", "do not play back what was heard")

  static let verbs: [Verb] = [
    Verb(
      "audio list", "the microphones and speakers, and the way to them", options: [.json, .config],
      notes: ["A device that [audio] names, or the default one, is marked with an arrow."], run: list),
    Verb(
      "audio meter", "the microphone's level as it is, until Ctrl-C", options: [seconds, .json, .config],
      notes: [
        "With --json, or into a file, a line each tenth of a second: level and peak are decibels below full scale."
      ],
      run: meter),
    Verb(
      "audio test", "hear three seconds, measure them and play them back", options: [seconds, silent, .json, .config],
      notes: ["Ends with 69 when nothing could be heard or played. What was heard is kept nowhere."], run: test),
  ]

  private static func sound(_ context: Context) throws(Failure) -> SoundSystem {
    SoundSystem(AudioSettings(try context.settings().audio))
  }

  private static func duration(_ arguments: Arguments) throws(Failure) -> Duration? {
    guard let text = arguments[seconds] else { return nil }
    guard let number = Int(text), (1...3600).contains(number) else {
      throw .usage("--seconds takes a whole number from 1 to 3600.", remedy: "--seconds 5")
    }
    return .seconds(number)
  }

  // MARK: list

  private static func list(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let sound = try sound(context)
    let choice = await sound.choice()
    let devices: [AudioDevice]
    do throws(AudioError) { devices = try await sound.devices() } catch {
      await sound.close()
      throw Failure(error)
    }
    await sound.close()
    let chosen = [devices.chosen(sound.settings.input, .input), devices.chosen(sound.settings.output, .output)]
      .compactMap { $0 }
    if context.wantsJSON {
      terminal.print([
        "backend": .string(choice.name), "reason": .string(choice.reason),
        "passedOver": .array(choice.passedOver.map { $0.error.json(named: $0.name) }),
        "devices": .array(devices.map { $0.json(isChosen: chosen.contains($0)) }),
      ])
      return .ok
    }
    terminal.print(choice.reason)
    for direction in [AudioDevice.Direction.input, .output] {
      let rows = devices.filter { $0.direction == direction }
      terminal.print(terminal.styled(direction == .input ? "Microphones" : "Speakers", .strong))
      if rows.isEmpty { terminal.print("  none") }
      terminal.print(
        table: rows.map { device in
          let marks = [
            device.isDefault ? "default" : nil, device.isMuted ? "muted" : nil,
            device.isMonitor ? "hears a speaker" : nil,
          ].compactMap { $0 }
          return [
            chosen.contains(device) ? "->" : "  ", device.name, device.label, device.format?.description ?? "",
            marks.joined(separator: ", "),
          ]
        })
    }
    for (wanted, direction) in [(sound.settings.input, AudioDevice.Direction.input), (sound.settings.output, .output)] {
      guard let wanted, devices.chosen(wanted, direction) == nil else { continue }
      terminal.note(
        "talknode: [audio] names the \(direction.noun) \"\(wanted)\", which fits none of these, or several.")
    }
    return .ok
  }

  // MARK: meter

  private static func meter(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let limit = try duration(arguments)
    let sound = try sound(context)
    let loop = context.loop()
    defer { loop.stop() }
    let signals: Signals
    do { signals = try Signals([SIGINT, SIGTERM], loop: loop) } catch {
      throw Failure("SYSTEM", "The signals can't be watched.", cause: "\(error)", exit: .system)
    }
    await signals.start()
    let result = await measure(sound, for: limit, untilFirstOf: signals.stream, context)
    await signals.stop()
    await sound.close()
    try result.get()
    return .ok
  }

  private static func measure(
    _ sound: SoundSystem, for limit: Duration?, untilFirstOf signals: AsyncStream<Int32>, _ context: Context
  ) async -> Result<Void, Failure> {
    let terminal = context.terminal
    do throws(AudioError) {
      let lease = try await sound.microphone.lease(for: "the level meter")
      let capture = try await lease.capture(Capture.Options(rate: 16_000, chunk: .milliseconds(100)))
      terminal.note("\(capture.device.label): \(capture.reason)")
      // A Ctrl-C gives the microphone back; what it had heard until then is still shown.
      let end = Task {
        for await _ in signals { return await capture.stop() }
      }
      defer { end.cancel() }
      let showsLines = context.wantsJSON || !terminal.isInteractive
      var left = limit.map { max(1, $0.samples(at: 16_000) / 1600) }
      events: for try await event in capture {
        switch event {
        case .notice(let notice):
          if showsLines { terminal.note(notice.sentence) } else { terminal.noteOver(notice.sentence) }
        case .chunk(let chunk):
          if context.wantsJSON {
            terminal.print(chunk.level.json)
          } else if showsLines {
            terminal.print(chunk.level.sentence)
          } else {
            terminal.noteInPlace("\(bar(chunk.level))  \(chunk.level.sentence)")
          }
          left = left.map { $0 - 1 }
          if left == 0 { break events }
        }
      }
      if !showsLines { terminal.note("") }
      await lease.release()
      return .success(())
    } catch {
      return .failure(Failure(error))
    }
  }

  /// The level from 60 dB below full scale up to it, with the peak as a line.
  static func bar(_ level: Level, width: Int = 40) -> String {
    func place(_ magnitude: Float) -> Int {
      min(width, max(0, Int((Level.decibels(magnitude) + 60) / 60 * Double(width))))
    }
    let (full, peak) = (place(level.rms), place(level.peak))
    return String((0..<width).map { $0 < full ? "#" : $0 == peak - 1 ? "|" : "." })
  }

  // MARK: test

  private static func test(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let duration = try duration(arguments) ?? .seconds(3)
    let sound = try sound(context)
    terminal.note("Say something: \(Int(duration.inSeconds)) seconds are recorded, then played back.")
    let report: SoundCheck.Report
    do throws(AudioError) {
      report = try await SoundCheck(sound).run(duration, playback: !arguments.has(silent))
    } catch {
      await sound.close()
      throw Failure(error)
    }
    await sound.close()
    if context.wantsJSON { terminal.print(report.json) } else { show(report, terminal) }
    return report.playbackError == nil && report.level.peak > 0 ? .ok : .unavailable
  }

  private static func show(_ report: SoundCheck.Report, _ terminal: Terminal) {
    var rows = [
      ["way", report.choice.reason], ["microphone", "\(report.microphone.label)  (\(report.microphone.name))"],
      ["opened", report.reason], ["first sound", "after \(Int(report.firstSample.milliseconds)) ms"],
      ["level", report.level.sentence], ["noise floor", inDecibels(report.noiseFloor)],
    ]
    if let speaker = report.speaker { rows.append(["speaker", "\(speaker.label)  (\(speaker.name))"]) }
    if let playback = report.playback {
      let start = playback.startLatency.map { ", began after \(Int($0.milliseconds)) ms" } ?? ""
      rows.append(["played", "\(seconds(playback.heard)) s\(start)"])
      if playback.preRoll.duration > .zero {
        rows.append(
          ["before it", "\(Int(playback.preRoll.duration.milliseconds)) ms of silence: \(playback.preRoll.reason)"])
      }
    }
    terminal.print(table: rows)
    for notice in report.notices { terminal.note(notice) }
    if let error = report.playbackError { terminal.show(Failure(error)) }
  }

  private static func seconds(_ duration: Duration) -> String { "\((duration.milliseconds / 100).rounded() / 10)" }
}

/// Rounded: nobody hears a tenth of a decibel.
private func inDecibels(_ magnitude: Float) -> String { "\(Int(Level.decibels(magnitude).rounded())) dB" }
private func tenths(_ magnitude: Float) -> JSON { .double((Level.decibels(magnitude) * 10).rounded() / 10) }

extension Level {
  fileprivate var sentence: String {
    "\(inDecibels(rms)), peak \(inDecibels(peak))" + (clipped > 0 ? ", \(clipped) samples clipped" : "")
  }
  fileprivate var json: JSON {
    ["level": tenths(rms), "peak": tenths(peak), "clipped": .int(Int64(clipped))]
  }
}

extension AudioFormat {
  fileprivate var json: JSON {
    ["rate": .int(Int64(rate)), "channels": .int(Int64(channels)), "sample": .string(sample.rawValue)]
  }
}

extension AudioDevice {
  fileprivate func json(isChosen: Bool) -> JSON {
    .object(present: [
      "direction": .string(direction.rawValue), "name": .string(name), "label": .string(label),
      "backend": .string(backend), "chosen": .bool(isChosen), "default": .bool(isDefault),
      "monitor": .bool(isMonitor), "muted": .bool(isMuted), "suspended": .bool(isSuspended),
      "connection": .string(connection.rawValue), "format": format?.json,
    ])
  }
}

extension AudioError {
  fileprivate func json(named name: String? = nil) -> JSON {
    .object(present: [
      "name": name.map(JSON.string), "code": .string(code.rawValue), "summary": .string(summary),
      "remedy": remedy.map(JSON.string),
    ])
  }
}

extension SoundCheck.Report {
  fileprivate var json: JSON {
    .object(present: [
      "backend": .string(choice.name), "reason": .string(choice.reason), "microphone": microphone.json(isChosen: true),
      "format": format.json, "opened": .string(reason), "firstSampleMs": .int(Int64(firstSample.milliseconds)),
      "seconds": .double(recorded.duration.inSeconds), "level": tenths(level.rms), "peak": tenths(level.peak),
      "clipped": .int(Int64(level.clipped)), "noiseFloor": tenths(noiseFloor), "notices": .strings(notices),
      "speaker": speaker?.json(isChosen: true),
      "playback": playback.map { playback in
        .object(present: [
          "heardMs": .int(Int64(playback.heard.milliseconds)),
          "preRollMs": .int(Int64(playback.preRoll.duration.milliseconds)),
          "preRollReason": .string(playback.preRoll.reason),
          "startMs": playback.startLatency.map { .int(Int64($0.milliseconds)) },
          "starvations": .int(Int64(playback.starvations)),
        ])
      },
      "playbackError": playbackError?.json(),
    ])
  }
}
