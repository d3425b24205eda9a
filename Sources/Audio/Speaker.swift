import System

/// The owner of the speaker. Whoever wants to be heard takes a lease; the second asker is told who has it.
public actor Speaker {
  private let sound: SoundSystem.Core
  private var ownership = Ownership()
  private var current: Playback?
  /// Counts `hush`, so that a sound that is still being opened then does not begin after it.
  private var hushes = 0

  init(sound: SoundSystem.Core) { self.sound = sound }

  /// Takes the speaker for `holder` (a few words that a person understands, "an answer"), without opening it yet.
  /// Throws `speakerBusy`.
  public func lease(for holder: String) throws(AudioError) -> SpeakerLease {
    switch ownership.take(holder) {
    case .granted(let ticket): return SpeakerLease(speaker: self, ticket: ticket, holder: holder)
    case .heldBy(let other):
      throw AudioError(.speakerBusy, "The speaker is in use by \(other).", remedy: "Stop that first.")
    }
  }

  /// Who has the speaker.
  public var holder: String? { ownership.holder }

  /// Silences whatever plays, whoever plays it, within 100 ms; what is still being opened does not begin.
  /// The holder's playback ends as stopped.
  public func hush() async {
    hushes += 1
    await current?.stop()
  }

  fileprivate func release(_ ticket: Ownership.Ticket) async {
    guard ownership.isHeld(by: ticket) else { return }
    let playing = current
    current = nil
    _ = ownership.release(ticket)
    await playing?.stop()
  }

  fileprivate func open(_ ticket: Ownership.Ticket, rate: Int) async throws(AudioError) -> Playback {
    guard ownership.isHeld(by: ticket) else { throw Self.givenBack }
    await current?.stop()
    current = nil
    let hushes = hushes
    let choice = await sound.choice()
    guard let backend = choice.backend else { throw choice.error }
    let playback: Playback
    do throws(AudioError) {
      playback = try await open(on: backend, rate: rate)
    } catch {
      let others = [AudioError.Code.deviceBusy, .serverUnavailable, .deviceStuck]
      guard others.contains(error.code), let other = await sound.other(than: backend) else { throw error }
      do throws(AudioError) { playback = try await open(on: other, rate: rate) } catch _ { throw error }
    }
    guard ownership.isHeld(by: ticket), hushes == self.hushes else {
      await playback.stop()
      throw Self.givenBack
    }
    current = playback
    return playback
  }

  private static let givenBack = AudioError(.stopped, "The speaker was silenced or given back before it was open.")

  private func open(on backend: any AudioBackend, rate: Int) async throws(AudioError) -> Playback {
    let (reports, tell) = AsyncStream.makeStream(of: OutputEvent.self, bufferingPolicy: .bufferingNewest(64))
    let stream = try await openPatiently(backend) { event in
      tell.yield(event)
      if event.isLast { tell.finish() }
    }
    do throws(AudioError) {
      let preRoll = PreRoll(for: stream.device, setting: sound.settings.preRoll)
      let playback = try Playback(stream: stream, rate: rate, preRoll: preRoll, reports: reports)
      await playback.begin()
      return playback
    } catch {
      await stream.stop()
      throw error
    }
  }

  /// Three tries on a busy device, as a capture makes them.
  private func openPatiently(
    _ backend: any AudioBackend, report: @escaping @Sendable (OutputEvent) -> Void
  ) async throws(AudioError) -> any OutputStream {
    let rules = CaptureMachine.Rules()
    for _ in 1..<rules.busyTries {
      do throws(AudioError) {
        return try await backend.openOutput(sound.settings.output, report: report)
      } catch {
        if error.code != .deviceBusy { throw error }
        try? await Task.sleep(for: rules.busyPause)
      }
    }
    return try await backend.openOutput(sound.settings.output, report: report)
  }
}

extension OutputEvent {
  fileprivate var isLast: Bool {
    switch self {
    case .finished, .ended: true
    case .started, .starved: false
    }
  }
}

/// The right to the speaker, until `release()` or until nobody refers to it any more.
public final class SpeakerLease: Sendable {
  private let speaker: Speaker
  private let ticket: Ownership.Ticket
  public let holder: String

  fileprivate init(speaker: Speaker, ticket: Ownership.Ticket, holder: String) {
    self.speaker = speaker
    self.ticket = ticket
    self.holder = holder
  }

  deinit {
    let (speaker, ticket) = (speaker, ticket)
    Task { await speaker.release(ticket) }
  }

  /// Opens the speaker for samples at `rate`. A playback that this lease still had is stopped.
  public func open(rate: Int) async throws(AudioError) -> Playback { try await speaker.open(ticket, rate: rate) }

  /// Plays a whole sound and returns when it has been heard.
  @discardableResult
  public func play(_ sound: PCM) async throws(AudioError) -> Playback.Report {
    let playback = try await open(rate: sound.rate)
    try await playback.write(sound.samples)
    return try await playback.finish()
  }

  /// Silences what plays and gives the speaker back.
  public func release() async { await speaker.release(ticket) }
}
