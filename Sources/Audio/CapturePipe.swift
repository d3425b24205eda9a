import System

/// What happens to samples between a device and a capture's buffer, on the device's thread: resampling, cutting into chunks,
/// levels, and watching for zeros. One pipe serves one opening of the device; the position goes on from the one before.
final class CapturePipe: Sendable {
  /// What the pipe has seen that the capture has to act on.
  enum Finding: Sendable, Equatable {
    case samples
    case onlyZeros
    case sound
    case ended(AudioError)
  }

  private struct State {
    var resampler: Resampler?
    var inputRate = 0
    var early: [([Float], Duration)] = []
    var pending: [Float] = []
    var pendingAt: Duration = .zero
    var position: Int
    var zeros = 0
    var hasSamples = false
    var hasSound = false
    var saidZeros = false
    var lastSamples: Duration
    var isOver = false
  }
  private let state: Lock<State>
  private let options: Capture.Options
  private let buffer: CaptureBuffer
  private let chunkSize: Int
  private let firstSize: Int
  private let find: @Sendable (Finding) -> Void

  /// `find` is called on the device's thread.
  init(
    options: Capture.Options, buffer: CaptureBuffer, position: Int, find: @escaping @Sendable (Finding) -> Void
  ) {
    self.options = options
    self.buffer = buffer
    self.find = find
    chunkSize = max(1, options.chunk.samples(at: options.rate))
    firstSize = max(1, (options.first ?? options.chunk).samples(at: options.rate))
    state = Lock(State(position: position, lastSamples: Monotonic.now()))
  }

  /// The rate of what the device delivers, known when it has been opened.
  func begin(rate: Int) throws(AudioError) {
    let resampler = try Resampler(from: rate, to: options.rate)
    let findings = state.withLock { state -> [Finding] in
      state.resampler = resampler
      state.inputRate = rate
      let early = state.early
      state.early = []
      return early.flatMap { take($0.0, at: $0.1, &state) }
    }
    for finding in findings { find(finding) }
  }

  func deliver(_ event: InputEvent) {
    switch event {
    case .samples(let samples, let at):
      let findings = state.withLock { state -> [Finding] in
        if state.isOver { return [] }
        state.lastSamples = Monotonic.now()
        if state.resampler == nil {
          // The device may speak before the opener has been told its rate: that is milliseconds, so this stays small.
          if state.early.count < 64 { state.early.append((samples, at)) }
          return []
        }
        return take(samples, at: at, &state)
      }
      for finding in findings { find(finding) }
    case .gap: buffer.add(.notice(.gap))
    case .ended(let error):
      if state.withLock({ !$0.isOver }) { find(.ended(error)) }
    }
  }

  /// How long no samples have come.
  var quiet: Duration { state.withLock { Monotonic.now() - $0.lastSamples } }

  /// Hands over what is held back, as a shorter last chunk, and takes nothing more. Returns the position reached.
  func finish() -> Int {
    state.withLock { state in
      if state.isOver { return state.position }
      state.isOver = true
      if let tail = try? state.resampler?.finish() { state.pending += tail }
      cut(&state, all: true)
      return state.position
    }
  }

  private func take(_ samples: [Float], at: Duration, _ state: inout State) -> [Finding] {
    var findings: [Finding] = []
    if !state.hasSamples {
      state.hasSamples = true
      findings.append(.samples)
    }
    if !state.hasSound {
      if Self.areZeros(samples) {
        state.zeros += samples.count
        if !state.saidZeros && state.zeros > state.inputRate {
          state.saidZeros = true
          findings.append(.onlyZeros)
        }
      } else {
        state.hasSound = true
        findings.append(.sound)
      }
    }
    if state.pending.isEmpty { state.pendingAt = at }
    do throws(AudioError) {
      state.pending += try state.resampler?.process(samples) ?? []
    } catch {
      findings.append(.ended(error))
    }
    cut(&state, all: false)
    return findings
  }

  /// Moves whole chunks (or `all`) from pending to the buffer.
  private func cut(_ state: inout State, all: Bool) {
    var start = 0
    while start < state.pending.count {
      let size = state.position == 0 ? firstSize : chunkSize
      if state.pending.count - start < size && !all { break }
      let end = min(start + size, state.pending.count)
      let samples = Array(state.pending[start..<end])
      let chunk = Capture.Chunk(
        samples: samples, position: state.position, at: state.pendingAt, level: Level(samples))
      buffer.add(.chunk(chunk))
      state.position += samples.count
      state.pendingAt += .samples(samples.count, rate: options.rate)
      start = end
    }
    state.pending.removeFirst(start)
  }

  private static func areZeros(_ samples: [Float]) -> Bool {
    samples.withUnsafeBufferPointer { buffer in
      for sample in buffer where sample != 0 { return false }
      return true
    }
  }
}
