import System

/// A way to where fixes come from. Both functions are called on the source's loop; `deliver` must be called there, too, and not from
/// within `open`.
struct FixFeed: Sendable {
  typealias Deliver = @Sendable (FeedEvent) -> Void
  let open: @Sendable (Detail, @escaping Deliver) -> Void
  let close: @Sendable () -> Void
}

/// One source of fixes: performs what its `FixWatch` decides, over its feed, on the loop.
actor FixSource {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  private let feed: FixFeed
  private var watch: FixWatch
  private var waiting: [UInt64: CheckedContinuation<Result<Fix, LocationError>, Never>] = [:]
  private var followers: [UInt64: AsyncStream<FixNews>.Continuation] = [:]
  private var lastID: UInt64 = 0
  /// Which opening of the feed what is delivered belongs to.
  private var opening: UInt64 = 0
  private var timer: (token: EventLoop.Token, due: Duration)?

  init(_ watch: FixWatch, feed: FixFeed, loop: EventLoop) {
    self.watch = watch
    self.feed = feed
    self.loop = loop
  }

  /// A fix, at the latest at `deadline` (by the monotonic clock) or the reason why there is none.
  func fix(maxAge: Duration?, detail: Detail, until deadline: Duration) async throws(LocationError) -> Fix {
    lastID += 1
    let id = lastID
    let want = FixWatch.Want(id: id, askedAt: Monotonic.now(), deadline: deadline, maxAge: maxAge, detail: detail)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        waiting[id] = continuation
        if Task.isCancelled { settle(id, .failure(.cancelled)) } else { take(.asked(want)) }
      }
    } onCancel: {
      Task { await self.withdraw(id) }
    }
    return try result.get()
  }

  private func withdraw(_ id: UInt64) {
    settle(id, .failure(.cancelled))
    take(.withdrawn(id))
  }

  private func settle(_ id: UInt64, _ result: Result<Fix, LocationError>) {
    waiting.removeValue(forKey: id)?.resume(returning: result)
  }

  /// Everything that it tells from now on; the newest 64 for a reader that is slow. The feed stays open until the stream ends.
  func follow(detail: Detail) -> AsyncStream<FixNews> {
    lastID += 1
    let id = lastID
    let (stream, continuation) = AsyncStream.makeStream(of: FixNews.self, bufferingPolicy: .bufferingNewest(64))
    continuation.onTermination = { [weak self] _ in Task { await self?.unfollow(id) } }
    followers[id] = continuation
    take(.followed(id, detail: detail))
    return stream
  }

  private func unfollow(_ id: UInt64) {
    if followers.removeValue(forKey: id) != nil { take(.unfollowed(id)) }
  }

  /// Refuses all who wait, ends all streams, and closes the feed.
  func stop() {
    take(.stopped)
    for follower in followers.values { follower.finish() }
    followers = [:]
  }

  // MARK: Performing

  private func take(_ event: FixWatch.Event) {
    for action in watch.on(event, at: Monotonic.now()) {
      switch action {
      case .open(let detail):
        opening += 1
        let number = opening
        feed.open(detail) { [weak self] event in self?.assumeIsolated { $0.delivered(event, of: number) } }
      case .close:
        opening += 1
        feed.close()
      case .answer(let id, let fix): settle(id, .success(fix))
      case .refuse(let id, let error): settle(id, .failure(error))
      case .tell(let news): for follower in followers.values { follower.yield(news) }
      }
    }
    arm()
  }

  private func delivered(_ event: FeedEvent, of number: UInt64) {
    if number == opening { take(.feed(event)) }
  }

  private func arm() {
    let due = watch.nextWake
    if timer?.due == due { return }
    if let timer { loop.cancel(timer.token) }
    timer = due.map { due in
      let token = loop.after(max(.zero, due - Monotonic.now())) { [weak self] in
        self?.assumeIsolated { source in
          source.timer = nil
          source.take(.tick)
        }
      }
      return (token, due)
    }
  }
}
