import System

/// One clip being made: frames and sound come in side by side and go to the writer one after the other.
final class ClipRecorder: Sendable {
  private enum Piece: Sendable {
    case frame(Frame)
    case sound([Int16], atNs: UInt64)
    case framesEnded(CameraError?)
    case soundEnded
  }

  private let request: ClipRequest
  private let writer: any ClipWriter
  private let sound: (any ClipSound)?
  private let target: Size
  private let lengthNs: UInt64
  private let prefersHardware: Bool
  /// Frames on their way to the writer. At most 8 (of up to 4 MB each): when the encoder is slower than the camera, frames are left out.
  private let waiting = Lock(0)
  private static let bound = 8
  /// What comes sooner after a frame is left out.
  private static let leastIntervalNs: UInt64 = 1_000_000
  /// How long sound may come after the last frame.
  private static let soundPatience: Duration = .milliseconds(500)

  init(
    _ request: ClipRequest, _ writer: any ClipWriter, _ sound: (any ClipSound)?, _ size: Size, prefersHardware: Bool
  ) {
    self.request = request
    self.writer = writer
    self.sound = sound
    self.prefersHardware = prefersHardware
    let goal = Picture.goal(size, request.width)
    target = Size(max(2, goal.width / 2 * 2), max(2, goal.height / 2 * 2))
    lengthNs = UInt64(request.duration.milliseconds * 1e6)
  }

  func run(_ frames: FrameSubscription) async throws(CameraError) -> Clip {
    try await writer.begin(
      ClipFormat(
        width: target.width, height: target.height, fps: frames.format.rate ?? 30, audio: sound?.format,
        maxBytes: request.maxBytes, duration: request.duration, prefersHardware: prefersHardware))
    let first = try await first(of: frames, after: Monotonic.nanoseconds())
    let beginNs = first.frame.atNs
    let (pieces, into) = AsyncStream.makeStream(of: Piece.self)
    let filming = Task { @concurrent [self] in await film(frames, from: beginNs, into) }
    let listening = Task { @concurrent [self] in await listen(into) }
    defer {
      filming.cancel()
      listening.cancel()
      into.finish()
    }
    var (count, dropped) = (0, 0)
    var timeline = sound.map { SoundTimeline($0.format, beginNs: beginNs, lengthNs: lengthNs) }
    var lastNs: UInt64?
    func show(_ frame: InspectedFrame) async throws(CameraError) {
      // Times grow, by more than the clip's own clock may round away: frames that were handed over in a burst, or from before the clip,
      // are as good as one.
      guard frame.frame.atNs >= (lastNs.map { $0 + Self.leastIntervalNs } ?? beginNs) else {
        dropped += 1
        return
      }
      lastNs = frame.frame.atNs
      let at = frame.frame.atNs - beginNs
      count += 1
      var picture = try frame.upright(least: target)
      let bytes = picture.i420(target)
      picture.recycle()
      try await writer.write(
        frame: Frame(
          FrameFormat(.yuv420, target, stride: target.width), bytes, atNs: at,
          sequence: UInt32(truncatingIfNeeded: count)
        ))
    }
    try await show(first)
    var (framesOver, soundOver) = (false, sound == nil)
    var overtime: Task<Void, Never>?
    defer { overtime?.cancel() }
    for await piece in pieces {
      switch piece {
      case .frame(let frame):
        waiting.withLock { $0 -= 1 }
        do throws(CameraError) { try await show(InspectedFrame(frame)) } catch {
          guard error.code == .damaged else { throw error }
          dropped += 1
        }
      case .sound(let samples, let atNs):
        let at = timeline?.atNs ?? 0
        if let fitting = timeline?.add(samples, atNs: atNs), !fitting.isEmpty {
          try await writer.write(sound: fitting, atNs: at)
        }
        if timeline?.isComplete == true { soundOver = true }
      case .framesEnded(let error):
        if let error { throw error }
        framesOver = true
        overtime = Task {
          try? await Task.sleep(for: Self.soundPatience)
          into.yield(.soundEnded)
        }
      case .soundEnded: soundOver = soundOver || framesOver
      }
      if framesOver && soundOver { break }
    }
    if Task.isCancelled { throw CameraError.clipUnwanted }
    if let at = timeline?.atNs, let rest = timeline?.complete(), !rest.isEmpty {
      try await writer.write(sound: rest, atNs: at)
    }
    let missed = skipped.withLock { $0 }
    let bytes = try await writer.finish()
    return Clip(
      bytes: bytes, size: target, frames: count, framesDropped: dropped + missed, hasSound: sound != nil)
  }

  private let skipped = Lock(0)

  /// The first whole frame that was taken after `now`.
  private func first(of frames: FrameSubscription, after now: UInt64) async throws(CameraError) -> InspectedFrame {
    while let frame = try await frames.next() {
      if frame.atNs < now { continue }
      do throws(CameraError) { return try InspectedFrame(frame) } catch {
        guard error.code == .damaged else { throw error }
        skipped.withLock { $0 += 1 }
      }
    }
    throw CameraError.clipUnwanted
  }

  /// Passes frames on until the clip's length is reached.
  private func film(
    _ frames: FrameSubscription, from beginNs: UInt64, _ into: AsyncStream<Piece>.Continuation
  ) async {
    do throws(CameraError) {
      while let frame = try await frames.next() {
        if frame.atNs > beginNs && frame.atNs - beginNs >= lengthNs {
          into.yield(.framesEnded(nil))
          return
        }
        let hasRoom = waiting.withLock { count in
          if count >= Self.bound { return false }
          count += 1
          return true
        }
        if hasRoom { into.yield(.frame(frame)) } else { skipped.withLock { $0 += 1 } }
      }
      into.yield(.framesEnded(CameraError.clipUnwanted))
    } catch {
      into.yield(.framesEnded(error))
    }
  }

  private func listen(_ into: AsyncStream<Piece>.Continuation) async {
    guard let sound else { return }
    while let (samples, atNs) = await sound.next() {
      if Task.isCancelled { return }
      into.yield(.sound(samples, atNs: atNs))
    }
    into.yield(.soundEnded)
  }
}
