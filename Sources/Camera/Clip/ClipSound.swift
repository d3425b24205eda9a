/// Where a clip's sound comes from.
public protocol ClipSound: Sendable {
  var format: ClipFormat.Audio { get }
  /// Opens it. Throws `microphoneBusy`, `microphoneNotPermitted` or `soundFailed`.
  func begin() async throws(CameraError)
  /// The next samples, interleaved, and when the first was heard (nanoseconds of the monotonic clock); nil at the end, which an error
  /// in the middle is too.
  func next() async -> (samples: [Int16], atNs: UInt64)?
  func end() async
}

/// Puts sound on a clip's time: without gaps from the clip's beginning to its end. A value.
///
/// Chunks follow each other sample by sample, for their times jitter by milliseconds; only when these say for a while that sound was lost,
/// silence takes its place.
struct SoundTimeline: Sendable {
  private let format: ClipFormat.Audio
  /// The monotonic time of the clip's first frame.
  private let beginNs: UInt64
  private let lengthNs: UInt64
  /// Sample frames put out.
  private(set) var position = 0
  private var late = 0

  /// Chunks that must agree that there is a gap, and how large it must be: sound is to be in time within 40 ms.
  private static let patience = 5
  private static let gapNs: Int64 = 30_000_000

  init(_ format: ClipFormat.Audio, beginNs: UInt64, lengthNs: UInt64) {
    self.format = format
    self.beginNs = beginNs
    self.lengthNs = lengthNs
  }

  var atNs: UInt64 { nanoseconds(position) }
  var isComplete: Bool { position >= whole }
  private var whole: Int { Int(Double(lengthNs) * Double(format.sampleRate) / 1e9) }
  private func nanoseconds(_ frames: Int) -> UInt64 { UInt64(Double(frames) * 1e9 / Double(format.sampleRate)) }
  private func frames(_ nanoseconds: Int64) -> Int { Int(Double(nanoseconds) * Double(format.sampleRate) / 1e9) }

  /// What of a chunk goes into the clip, with silence in front where some is missing.
  mutating func add(_ samples: [Int16], atNs: UInt64) -> [Int16] {
    let count = samples.count / format.channels
    if count == 0 || isComplete { return [] }
    let time = Int64(bitPattern: atNs) - Int64(bitPattern: beginNs)
    var skip = 0
    var silence = 0
    if position == 0 {
      // The first that overlaps the clip decides where the sound lies.
      let start = frames(time)
      if start < 0 {
        skip = -start
        if skip >= count { return [] }
      } else {
        silence = start
      }
    } else {
      let gap = time - Int64(nanoseconds(position))
      late = gap > Self.gapNs ? late + 1 : 0
      if late >= Self.patience {
        silence = frames(gap)
        late = 0
      }
    }
    return put(
      [Int16](repeating: 0, count: min(silence, whole) * format.channels) + samples[(skip * format.channels)...])
  }

  /// Silence up to the end, when sound is missing there.
  mutating func complete() -> [Int16] {
    put([Int16](repeating: 0, count: max(0, whole - position) * format.channels))
  }

  private mutating func put(_ samples: [Int16]) -> [Int16] {
    let room = (whole - position) * format.channels
    let fitting = samples.count > room ? Array(samples[..<max(0, room)]) : samples
    position += fitting.count / format.channels
    return fitting
  }
}
