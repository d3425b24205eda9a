import System

/// Frames on their way to one reader. At most 4 wait (a raw frame has megabytes); when the reader is slower the oldest go, for it is the newest that count.
final class FrameQueue: Sendable {
  private struct State {
    var frames: [Frame] = []
    var isOver = false
    var error: CameraError?
    var reader: CheckedContinuation<Result<Frame?, CameraError>, Never>?
  }
  private let state = Lock(State())
  private static let bound = 4
  private let onWait: (@Sendable () -> Void)?

  /// `onWait` is called when the reader waits for a frame, on the reader's thread.
  init(onWait: (@Sendable () -> Void)? = nil) { self.onWait = onWait }

  /// Whether its reader waits for a frame.
  var isAwaited: Bool { state.withLock { $0.reader != nil } }

  func add(_ frame: Frame) {
    let reader = state.withLock { state -> CheckedContinuation<Result<Frame?, CameraError>, Never>? in
      if state.isOver { return nil }
      if let reader = state.reader {
        state.reader = nil
        return reader
      }
      if state.frames.count >= Self.bound { state.frames.removeFirst() }
      state.frames.append(frame)
      return nil
    }
    reader?.resume(returning: .success(frame))
  }

  /// No more frames; the reader is told why. Frames that wait are still read before.
  func end(_ error: CameraError?) {
    let reader = state.withLock { state -> CheckedContinuation<Result<Frame?, CameraError>, Never>? in
      if state.isOver { return nil }
      state.isOver = true
      state.error = error
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume(returning: error.map(Result.failure) ?? .success(nil))
  }

  /// The next frame; nil when there will be none. One reader at a time; one that is cancelled gets nil.
  func next() async throws(CameraError) -> Frame? {
    let result: Result<Frame?, CameraError> = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let ready = state.withLock { state -> Result<Frame?, CameraError>? in
          if !state.frames.isEmpty { return .success(state.frames.removeFirst()) }
          if state.isOver { return state.error.map(Result.failure) ?? .success(nil) }
          if Task.isCancelled { return .success(nil) }
          precondition(state.reader == nil, "two readers on one subscription")
          state.reader = continuation
          return nil
        }
        if let ready { continuation.resume(returning: ready) } else { onWait?() }
      }
    } onCancel: {
      wake()
    }
    return try result.get()
  }

  private func wake() {
    let reader = state.withLock { state in
      defer { state.reader = nil }
      return state.reader
    }
    reader?.resume(returning: .success(nil))
  }

  /// Forgets what waits, so that the next frame is a new one.
  func clear() { state.withLock { $0.frames.removeAll(keepingCapacity: true) } }
}

/// One reader's share of a camera's frames, until `end()` or until nobody refers to it any more.
///
/// Bounded: a slow reader loses the oldest frames. A camera that goes away, or is silent for too long, ends it with the reason.
public final class FrameSubscription: Sendable {
  /// What the camera was opened with.
  public let format: FrameFormat
  /// When the camera's first frame was taken, in nanoseconds of the monotonic clock; 0 when it has not come yet.
  public let startedNs: UInt64
  private let queue: FrameQueue
  private let leave: @Sendable () -> Void

  init(format: FrameFormat, queue: FrameQueue, startedNs: UInt64, end: @escaping @Sendable () -> Void) {
    self.format = format
    self.queue = queue
    self.startedNs = startedNs
    leave = end
  }

  deinit { leave() }

  /// The next frame; nil after `end()` or for a task that is cancelled. Throws why there will be none. One reader at a time.
  public func next() async throws(CameraError) -> Frame? { try await queue.next() }

  /// Gives the frames up: the camera is closed when nobody else has them.
  public func end() { leave() }
}
