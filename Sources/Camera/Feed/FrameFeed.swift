import System

/// One camera: performs what its `FeedMachine` decides, and hands its frames to all who have subscribed.
///
/// Pinned to a loop. Threads and programs of sources deliver to it in order; nothing waits for them without a deadline.
actor FrameFeed {
  nonisolated let loop: EventLoop
  nonisolated let name: String
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private let makeSource: @Sendable () -> any FrameSource
  private let use: @Sendable (Bool) -> Void
  private let warm: Duration
  private var machine: FeedMachine
  private var source: (any FrameSource)?
  /// Which opening an event belongs to: what a closed source says late is nobody's.
  private var opening: UInt64 = 0
  private var last: FeedMachine.Subscriber = 0
  private var openers: [FeedMachine.Subscriber: CheckedContinuation<Result<Share, CameraError>, Never>] = [:]
  private var queues: [FeedMachine.Subscriber: FrameQueue] = [:]
  private var watchdog: EventLoop.Token?
  private var lingering: EventLoop.Token?
  private var closers: [CheckedContinuation<Void, Never>] = []
  private var startedNs: UInt64 = 0

  /// What a subscriber gets. It gets the queue itself: the camera may have failed before it goes on, and the queue says why.
  private typealias Share = (format: FrameFormat, queue: FrameQueue, startedNs: UInt64)

  /// Whether the source makes a frame only when asked to, and whether it is about to.
  private var isOnDemand = false
  private var isFrameDue = false

  /// How long a camera may take to close before nobody waits for it any more.
  private static let closing: Duration = .seconds(2)

  /// `use` is called when the camera begins and ends to stream. `filmsApart`: see `FeedMachine`.
  init(
    name: String, warm: Duration, filmsApart: Bool = false, loop: EventLoop, use: @escaping @Sendable (Bool) -> Void,
    source: @escaping @Sendable () -> any FrameSource
  ) {
    self.name = name
    self.loop = loop
    self.warm = warm
    self.use = use
    makeSource = source
    machine = FeedMachine(name: name, stays: warm > .zero, filmsApart: filmsApart)
  }

  /// Frames from now on, in the format the camera was opened with for whoever came first. Throws why it can't be opened.
  func subscribe(_ wish: CaptureWish) async throws(CameraError) -> FrameSubscription {
    last += 1
    let subscriber = last
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        openers[subscriber] = continuation
        handle(.subscribe(subscriber, wish))
      }
    } onCancel: {
      loop.perform { [weak self] in self?.assumeIsolated { $0.giveUp(subscriber) } }
    }
    let share = try result.get()
    return FrameSubscription(
      format: share.format, queue: share.queue, startedNs: share.startedNs,
      end: { [weak self, loop] in loop.perform { [weak self] in self?.assumeIsolated { $0.leave(subscriber) } } })
  }

  /// Fails whoever has frames of it, and closes it; returns when it is closed, or is not in good time.
  func stop() async {
    handle(.stop)
    if case .closing(isOverdue: false) = machine.phase { await withCheckedContinuation { closers.append($0) } }
  }

  /// Whether it streams to somebody.
  var isInUse: Bool { machine.isServing }

  private static let cancelled = CameraError.pictureUnwanted

  private func giveUp(_ subscriber: FeedMachine.Subscriber) {
    guard let opener = openers.removeValue(forKey: subscriber) else { return }
    opener.resume(returning: .failure(Self.cancelled))
    handle(.unsubscribe(subscriber))
  }

  private func leave(_ subscriber: FeedMachine.Subscriber) {
    queues.removeValue(forKey: subscriber)?.end(nil)
    handle(.unsubscribe(subscriber))
  }

  // MARK: The machine

  private func handle(_ event: FeedMachine.Event) {
    for action in machine.on(event) { perform(action) }
    if case .closing(isOverdue: false) = machine.phase { return }
    let waiting = closers
    closers = []
    for closer in waiting { closer.resume() }
  }

  private func perform(_ action: FeedMachine.Action) {
    switch action {
    case .open(let wish): open(wish)
    case .close:
      endLingering()
      source?.stop()
      watch(Self.closing, .closeOverdue)
    case .serve(let subscriber, let format):
      endLingering()
      let queue = makeQueue()
      queues[subscriber] = queue
      openers.removeValue(forKey: subscriber)?.resume(returning: .success((format, queue, startedNs)))
    case .fail(let subscriber, let error):
      openers.removeValue(forKey: subscriber)?.resume(returning: .failure(error))
      queues.removeValue(forKey: subscriber)?.end(error)
    case .linger:
      lingering = loop.after(warm) { [weak self] in self?.assumeIsolated { $0.handle(.lingered) } }
    }
  }

  private func makeQueue() -> FrameQueue {
    guard isOnDemand else { return FrameQueue() }
    return FrameQueue { [weak self, loop] in
      loop.perform { [weak self] in self?.assumeIsolated { $0.askForFrame() } }
    }
  }

  private func open(_ wish: CaptureWish) {
    opening += 1
    let opening = opening
    let source = makeSource()
    self.source = source
    isOnDemand = source.isOnDemand(wish)
    isFrameDue = true
    watch(source.patience.opening, .overdue)
    use(true)
    source.start(
      wish,
      FrameSink { [weak self, loop] event, taken in
        loop.perform { [weak self] in
          taken()
          self?.assumeIsolated { $0.took(event, opening) }
        }
      })
  }

  private func took(_ event: SourceEvent, _ opening: UInt64) {
    guard opening == self.opening, let source else { return }
    switch event {
    case .opened(let format):
      // One that is being closed may still say so: it is the closing that is waited for then.
      guard machine.phase == .opening else { return }
      watch(source.patience.frame, .overdue)
      startedNs = 0
      handle(.opened(format))
    case .frame(let frame):
      if startedNs == 0 { startedNs = frame.atNs }
      if case .streaming = machine.phase { watch(source.patience.frame, .overdue) }
      for queue in queues.values { queue.add(frame) }
      guard isOnDemand, case .streaming = machine.phase else { return }
      isFrameDue = false
      unwatch()
      askForFrame()
    case .ended(let error):
      self.source = nil
      unwatch()
      use(false)
      handle(.ended(error))
    }
  }

  /// Asks for a frame when somebody waits for one and none is on its way.
  private func askForFrame() {
    guard isOnDemand, !isFrameDue, let source, case .streaming = machine.phase else { return }
    guard queues.values.contains(where: \.isAwaited) else { return }
    isFrameDue = true
    watch(source.patience.frame, .overdue)
    source.want()
  }

  private func watch(_ time: Duration, _ event: FeedMachine.Event) {
    unwatch()
    watchdog = loop.after(time) { [weak self] in self?.assumeIsolated { $0.handle(event) } }
  }

  private func unwatch() {
    if let watchdog { loop.cancel(watchdog) }
    watchdog = nil
  }

  private func endLingering() {
    if let lingering { loop.cancel(lingering) }
    lingering = nil
  }
}
