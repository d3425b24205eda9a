import System

/// What `audio test` does: records, measures, and plays back what it heard.
public struct SoundCheck: Sendable {
  /// What was found. Magnitudes are 0…1.
  public struct Report: Sendable {
    /// Which way to the devices, and why.
    public var choice: AudioChoice
    public var microphone: AudioDevice
    /// The microphone's own format, and why it was opened so.
    public var format: AudioFormat
    public var reason: String
    /// From asking for the microphone to its first samples.
    public var firstSample: Duration
    public var recorded: PCM
    public var level: Level
    public var noiseFloor: Float
    /// What a person should know, one sentence each.
    public var notices: [String]
    /// The speaker and what came of playing back; nil when it was not played.
    public var speaker: AudioDevice?
    public var playback: Playback.Report?
    /// Why it could not be played back.
    public var playbackError: AudioError?
  }

  private let sound: SoundSystem

  public init(_ sound: SoundSystem) { self.sound = sound }

  /// Records for `duration` and plays it back unless `playback` is false. Throws what kept the microphone from being heard.
  public func run(_ duration: Duration = .seconds(3), playback: Bool = true) async throws(AudioError) -> Report {
    let choice = await sound.choice()
    let asked = Monotonic.now()
    let lease = try await sound.microphone.lease(for: "the sound test")
    var firstSample: Duration?
    var recorded: [Float] = []
    var notices: [String] = []
    let rate = 16_000
    var meter = LevelMeter(rate: rate)
    let capture: Capture
    do throws(AudioError) {
      capture = try await lease.capture(Capture.Options(rate: rate))
      let wanted = duration.samples(at: rate)
      for try await event in capture {
        switch event {
        case .chunk(let chunk):
          if firstSample == nil { firstSample = Monotonic.now() - asked }
          recorded += chunk.samples
          meter.add(chunk.samples)
        case .notice(let notice): notices.append(notice.sentence)
        }
        if recorded.count >= wanted { break }
      }
    } catch {
      await lease.release()
      throw error
    }
    await lease.release()
    if meter.level.clipped > 0 {
      notices.append("\(meter.level.clipped) samples are clipped: turn the microphone down.")
    }
    if capture.device.isMuted { notices.append("\(capture.device.label) is muted.") }
    var report = Report(
      choice: choice, microphone: capture.device, format: capture.format, reason: capture.reason,
      firstSample: firstSample ?? .zero, recorded: PCM(recorded, rate: rate), level: meter.level,
      noiseFloor: meter.noiseFloor ?? 0, notices: notices)
    if !playback { return report }
    do throws(AudioError) {
      let lease = try await sound.speaker.lease(for: "the sound test")
      do throws(AudioError) {
        let playback = try await lease.open(rate: rate)
        report.speaker = playback.device
        try await playback.write(recorded)
        report.playback = try await playback.finish()
      } catch {
        await lease.release()
        throw error
      }
      await lease.release()
    } catch {
      report.playbackError = error
    }
    return report
  }
}

extension Capture.Notice {
  /// One sentence for a person.
  public var sentence: String {
    switch self {
    case .interrupted(let error): error.summary
    case .resumed(let gap): "The microphone is back after \(Int(gap.milliseconds)) ms."
    case .reopenedBecauseSilent: "The microphone delivered nothing but zeros and was opened anew."
    case .silent: "The microphone still delivers nothing but zeros: it is muted, switched off or not connected."
    case .soundReturned: "The microphone delivers sound again."
    case .overflow(let lost): "\(Int(lost.milliseconds)) ms of sound were dropped because they were not read in time."
    case .gap: "The device lost some sound."
    }
  }
}
