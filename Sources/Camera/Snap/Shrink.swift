/// How a picture is made to fit a limit (node-commands §3.2). A value: how large the last try came out goes in, the next try comes out.
///
/// First the quality and size asked for; then up to six rounds, each trying up to six qualities, from the one asked for down by a quarter
/// each, and after each round the longest edge at 85 %.
struct Shrink: Sendable {
  struct Try: Sendable, Equatable {
    /// 0.05…1.
    var quality: Double
    var size: Size
  }

  private static let rounds = 6
  private static let qualities = 6
  private static let floorEdge = 256

  private let limit: Int
  private let quality: Double
  private var current: Try
  private var round = 0
  private var step = 0

  /// `limit` in bytes.
  init(quality: Double, size: Size, limit: Int) {
    self.quality = quality
    self.limit = limit
    current = Try(quality: quality, size: size)
  }

  /// What to encode first.
  var first: Try { current }

  enum Verdict: Sendable, Equatable {
    case fits
    case again(Try)
    case tooLarge
  }

  /// What to do after a try of `bytes` bytes.
  mutating func after(_ bytes: Int) -> Verdict {
    if bytes <= limit { return .fits }
    let least = max(0.2, 0.35 * quality)
    let lower = max(least, current.quality * 0.75)
    if step + 1 < Self.qualities && lower < current.quality {
      step += 1
      current.quality = lower
      return .again(current)
    }
    return nextRound()
  }

  private mutating func nextRound() -> Verdict {
    round += 1
    step = 0
    let longest = max(current.size.width, current.size.height)
    let goal = max(Self.floorEdge, longest * 85 / 100)
    guard round < Self.rounds, goal < longest else { return .tooLarge }
    func scaled(_ edge: Int) -> Int { max(2, (edge * goal / longest + 1) / 2 * 2) }
    current = Try(quality: quality, size: Size(scaled(current.size.width), scaled(current.size.height)))
    return .again(current)
  }
}
