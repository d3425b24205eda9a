import CSamplerate
import System

/// Changes the sample rate of a mono stream, piece by piece, with libsamplerate.
///
/// The count is exact: after `finish()` there are `samples in × to / from` samples out, rounded, however the input was cut.
// @unchecked Sendable: a resampler belongs to one stream at a time, and callers never share one (its owner is an actor, or
// the one thread that delivers a device's samples).
public final class Resampler: @unchecked Sendable {
  /// How much work is put into it. `fast` is right for speech, `medium` for whole files.
  public enum Quality: Sendable { case fast, medium }

  public let from: Int
  public let to: Int
  private let library: SamplerateLibrary?
  private var state: OpaquePointer?
  private var taken = 0
  private var given = 0
  private var rest: [Float] = []
  private var isFinished = false

  /// Equal rates need no library. Throws `libraryMissing`, or `formatUnsupported` for rates more than 256-fold apart.
  public init(from: Int, to: Int, quality: Quality = .fast) throws(AudioError) {
    self.from = from
    self.to = to
    if from == to {
      library = nil
      return
    }
    guard from > 0, to > 0, from / to < 256, to / from < 256 else {
      throw AudioError(.formatUnsupported, "No conversion from \(from) Hz to \(to) Hz is possible.")
    }
    let library = try SamplerateLibrary.shared.get()
    self.library = library
    var code: Int32 = 0
    let kind = quality == .fast ? SRC_SINC_FASTEST : SRC_SINC_MEDIUM_QUALITY
    state = library.table.src_new(Int32(kind), 1, &code)
    if state == nil {
      throw AudioError(.formatUnsupported, "The sample rate converter did not start: \(library.message(code)).")
    }
  }

  deinit { if let state { _ = library?.table.src_delete(state) } }

  /// The samples that are ready after `samples`. Some are held back until more, or the end, comes.
  public func process(_ samples: [Float]) throws(AudioError) -> [Float] {
    taken += samples.count
    if state == nil {
      given += samples.count
      return samples
    }
    return try run(samples, end: false)
  }

  /// What was held back. The resampler is used up.
  public func finish() throws(AudioError) -> [Float] {
    if isFinished || state == nil { return [] }
    isFinished = true
    let due = Int((Double(taken) * Double(to) / Double(from)).rounded()) - given
    var out = try run([], end: true)
    // The converter's own count is one off, either way, at some lengths.
    if out.count > due { out.removeLast(out.count - max(0, due)) }
    if out.count < due { out += [Float](repeating: 0, count: due - out.count) }
    return out
  }

  private func run(_ samples: [Float], end: Bool) throws(AudioError) -> [Float] {
    guard let library, let state else { return samples }
    let input = rest + samples
    var used = 0
    var out: [Float] = []
    var failure: Int32 = 0
    while true {
      let room = max(64, (input.count - used) * to / from + 64)
      var produced = 0
      var consumed = 0
      let piece = [Float](unsafeUninitializedCapacity: room) { buffer, count in
        input.withUnsafeBufferPointer { source in
          var data = SRC_DATA()
          // An empty array may have no address, which libsamplerate takes for an error even with nothing to read.
          data.data_in = source.baseAddress.map { $0 + used } ?? UnsafePointer(buffer.baseAddress!)
          data.input_frames = source.count - used
          data.data_out = buffer.baseAddress!
          data.output_frames = room
          data.src_ratio = Double(to) / Double(from)
          data.end_of_input = end ? 1 : 0
          failure = library.table.src_process(state, &data)
          consumed = data.input_frames_used
          produced = failure == 0 ? data.output_frames_gen : 0
        }
        count = produced
      }
      if failure != 0 { throw AudioError(.damaged, "The sample rate converter failed: \(library.message(failure)).") }
      used += consumed
      out += piece
      if produced == 0 && (consumed == 0 || used == input.count) { break }
      if !end && used == input.count && produced < room { break }
    }
    rest = Array(input[used...])
    given += out.count
    return out
  }
}

/// libsamplerate's functions.
// @unchecked Sendable: the table is filled once and only read after that.
final class SamplerateLibrary: @unchecked Sendable {
  let table: csamplerate

  static let shared: Result<SamplerateLibrary, AudioError> = Result { () throws(AudioError) in try SamplerateLibrary() }

  private init() throws(AudioError) {
    let remedy = "sudo apt install libsamplerate0"
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libsamplerate.so.0")
      var table = csamplerate()
      if let missing = csamplerate_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libsamplerate.so.0", reason: "it has no \(String(cString: missing))")
      }
      self.table = table
    } catch {
      throw AudioError(
        .libraryMissing, "Sample rates can't be converted: \(error.library): \(error.reason).", remedy: remedy)
    }
  }

  func message(_ code: Int32) -> String { table.src_strerror(code).map { String(cString: $0) } ?? "error \(code)" }
}
