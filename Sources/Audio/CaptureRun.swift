import System

/// Performs what a `CaptureMachine` decides: opens and closes the microphone, waits, and ends the buffer.
actor CaptureRun {
  private let backend: any CaptureBackend
  private let device: String?
  private let options: Capture.Options
  private let buffer: CaptureBuffer
  private var machine: CaptureMachine
  private var stream: (any InputStream)?
  private var pipe: CapturePipe?
  private var position = 0
  private var opener: CheckedContinuation<Result<any InputStream, AudioError>, Never>?
  private var timer: Task<Void, Never>?
  private var watch: Task<Void, Never>?
  /// The opening or closing under way: they follow each other.
  private var busy: Task<Void, Never>?
  private var ended: [CheckedContinuation<Void, Never>] = []
  private var hasEnded = false

  /// No samples for this long means that the device, its driver or its server is stuck.
  static let patience: Duration = .seconds(2)

  init(
    backend: any CaptureBackend, device: String?, options: Capture.Options, buffer: CaptureBuffer,
    rules: CaptureMachine.Rules
  ) {
    self.backend = backend
    self.device = device
    self.options = options
    self.buffer = buffer
    machine = CaptureMachine(rules: rules)
  }

  /// Opens the microphone for the first time.
  func begin() async throws(AudioError) -> any InputStream {
    let result = await withCheckedContinuation { continuation in
      opener = continuation
      handle(.begin)
    }
    return try result.get()
  }

  /// Ends the capture; returns when the microphone is closed.
  func stop() async {
    handle(.stop)
    if hasEnded { return }
    await withCheckedContinuation { ended.append($0) }
  }

  private func handle(_ event: CaptureMachine.Event) {
    let actions = machine.on(event, at: Monotonic.now())
    for action in actions { perform(action) }
  }

  private func perform(_ action: CaptureMachine.Action) {
    switch action {
    case .open(let number, let name): open(number, name ?? device)
    case .close: close()
    case .wake(let delay):
      timer?.cancel()
      timer = Task { [weak self] in
        try? await Task.sleep(for: delay)
        if !Task.isCancelled { await self?.handle(.woke) }
      }
    case .notice(let notice): buffer.add(.notice(notice))
    case .end(let error): end(error)
    }
  }

  private func open(_ number: Int, _ name: String?) {
    let pipe = CapturePipe(options: options, buffer: buffer, position: position) { [weak self] finding in
      Task { await self?.found(finding, number) }
    }
    self.pipe = pipe
    let previous = busy
    busy = Task {
      // A card that only one may open is free again when the stream before is closed.
      await previous?.value
      guard self.pipe === pipe else { return }
      do throws(AudioError) {
        let stream = try await backend.openInput(name) { pipe.deliver($0) }
        await opened(stream, pipe, number)
      } catch {
        handle(.openFailed(number, error))
        answerOpener(unless: error)
      }
    }
  }

  private func opened(_ stream: any InputStream, _ pipe: CapturePipe, _ number: Int) async {
    // The capture may have been stopped, or have gone on to another opening, in the meantime.
    guard self.pipe === pipe, !hasEnded else { return await stream.close() }
    do throws(AudioError) {
      try pipe.begin(rate: stream.format.rate)
    } catch {
      await stream.close()
      handle(.openFailed(number, error))
      return answerOpener(unless: error)
    }
    self.stream = stream
    handle(.opened(number, device: stream.device.name))
    opener?.resume(returning: .success(stream))
    opener = nil
    watchForStandstill(pipe, number)
  }

  /// The first opener is told of a failure when the machine has given up, not at each try.
  private func answerOpener(unless error: AudioError) {
    guard machine.phase == .ended, let opener else { return }
    self.opener = nil
    opener.resume(returning: .failure(error))
  }

  private func found(_ finding: CapturePipe.Finding, _ number: Int) {
    switch finding {
    case .samples: handle(.samples(number))
    case .onlyZeros:
      // What a speaker plays is silent as long as it plays nothing; opening it anew would lose the beginning of what it plays next.
      if stream?.device.isMonitor != true { handle(.onlyZeros(number)) }
    case .sound: handle(.sound(number))
    case .ended(let error): handle(.lost(number, error))
    }
  }

  private func watchForStandstill(_ pipe: CapturePipe, _ number: Int) {
    watch?.cancel()
    watch = Task { [weak self] in
      while !Task.isCancelled {
        try? await Task.sleep(for: .milliseconds(500))
        if Task.isCancelled { return }
        if pipe.quiet > Self.patience {
          let stuck = AudioError(.deviceStuck, "The microphone has stopped delivering sound.")
          await self?.handle(.lost(number, stuck))
          return
        }
      }
    }
  }

  private func close() {
    watch?.cancel()
    watch = nil
    if let pipe { position = pipe.finish() }
    pipe = nil
    guard let stream else { return }
    self.stream = nil
    let previous = busy
    busy = Task {
      await previous?.value
      await stream.close()
    }
  }

  private func end(_ error: AudioError?) {
    timer?.cancel()
    buffer.end(error)
    let last = busy
    Task {
      await last?.value
      finishEnd()
    }
    if let opener {
      self.opener = nil
      opener.resume(returning: .failure(error ?? AudioError(.stopped, "The capture was stopped before it began.")))
    }
  }

  private func finishEnd() {
    hasEnded = true
    for waiter in ended { waiter.resume() }
    ended = []
  }
}
