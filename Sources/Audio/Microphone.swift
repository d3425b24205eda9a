import System

/// The owner of the microphone. Whoever wants to hear takes a lease; the second asker is told who has it.
public actor Microphone {
  private let sound: SoundSystem.Core
  private var ownership = Ownership()

  init(sound: SoundSystem.Core) { self.sound = sound }

  /// Takes the microphone for `holder` (a few words that a person understands, "push-to-talk"), without opening it yet.
  /// Throws `microphoneBusy`.
  public func lease(for holder: String) throws(AudioError) -> MicrophoneLease {
    switch ownership.take(holder) {
    case .granted(let ticket): return MicrophoneLease(microphone: self, ticket: ticket, holder: holder)
    case .heldBy(let other):
      throw AudioError(.microphoneBusy, "The microphone is in use by \(other).", remedy: "Stop that first.")
    }
  }

  /// Who has the microphone.
  public var holder: String? { ownership.holder }

  private static let givenBack = AudioError(.stopped, "The microphone was given back before it was open.")

  fileprivate func release(_ ticket: Ownership.Ticket) { _ = ownership.release(ticket) }

  /// `register` learns of each run before it begins, so that a release in the middle of opening reaches it.
  fileprivate func capture(
    _ ticket: Ownership.Ticket, _ options: Capture.Options, register: @Sendable (CaptureRun) -> Bool
  ) async throws(AudioError) -> Capture {
    guard ownership.isHeld(by: ticket) else { throw Self.givenBack }
    let choice = await sound.choice()
    guard let backend = choice.backend else { throw choice.error }
    do throws(AudioError) {
      return try await capture(from: backend, options, register)
    } catch {
      // Another program may hold the card itself while a sound server could share it, and the other way round.
      let others = [AudioError.Code.deviceBusy, .serverUnavailable, .deviceStuck]
      guard others.contains(error.code), let other = await sound.other(than: backend) else { throw error }
      do throws(AudioError) { return try await capture(from: other, options, register) } catch _ { throw error }
    }
  }

  private func capture(
    from backend: any AudioBackend, _ options: Capture.Options, _ register: @Sendable (CaptureRun) -> Bool
  ) async throws(AudioError) -> Capture {
    let buffer = CaptureBuffer(rate: options.rate, bound: options.bound)
    var rules = CaptureMachine.Rules()
    rules.returnGrace = sound.settings.returnGrace
    let run = CaptureRun(
      backend: backend, device: sound.settings.input, options: options, buffer: buffer, rules: rules)
    guard register(run) else { throw Self.givenBack }
    let stream = try await run.begin()
    let conversion =
      stream.format.rate == options.rate ? "no conversion" : "converted to \(options.rate) Hz by libsamplerate"
    return Capture(
      device: stream.device, format: stream.format, reason: "\(stream.reason); \(conversion)", options: options,
      buffer: buffer, run: run)
  }
}

/// The right to the microphone, until `release()` or until nobody refers to it any more.
public final class MicrophoneLease: Sendable {
  private struct State {
    var run: CaptureRun?
    var isReleased = false
    var ending: Task<Void, Never>?
  }
  private let microphone: Microphone
  private let ticket: Ownership.Ticket
  public let holder: String
  private let state = Lock(State())

  fileprivate init(microphone: Microphone, ticket: Ownership.Ticket, holder: String) {
    self.microphone = microphone
    self.ticket = ticket
    self.holder = holder
  }

  deinit {
    let (microphone, ticket, run) = (microphone, ticket, state.withLock { $0.run })
    Task {
      await run?.stop()
      await microphone.release(ticket)
    }
  }

  /// Opens the microphone and returns when it is open. A capture that this lease still had is stopped first.
  ///
  /// Throws `deviceNotFound`, `deviceBusy` (after three tries), `deviceRefused`, `deviceStuck`, `notPermitted`, `serverUnavailable`,
  /// `libraryMissing`, or `stopped` when the lease was released in the meantime.
  public func capture(_ options: Capture.Options = Capture.Options()) async throws(AudioError) -> Capture {
    await state.withLock { $0.run }?.stop()
    return try await microphone.capture(ticket, options) { run in
      state.withLock { state in
        if state.isReleased { return false }
        state.run = run
        return true
      }
    }
  }

  /// Stops the capture, also one that is still opening, and gives the microphone back. Whoever calls it again waits for the same end:
  /// the device is closed before somebody else has it.
  public func release() async {
    let ending = state.withLock { state in
      if let ending = state.ending { return ending }
      state.isReleased = true
      let (microphone, ticket, run) = (microphone, ticket, state.run)
      state.run = nil
      let ending = Task {
        await run?.stop()
        await microphone.release(ticket)
      }
      state.ending = ending
      return ending
    }
    await ending.value
  }
}
