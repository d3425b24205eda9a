/// How many records may be kept of all files of one reading together: small files can unpack to any number of them.
///
/// Used by one thread at a time.
final class RecordBudget {
  /// Two weeks of thirteen devices that record three things a minute each: some 60 MB.
  static let whole = 1_000_000

  private(set) var left: Int

  init(_ limit: Int = RecordBudget.whole) { left = limit }

  /// Whether there was room for one more, which is taken.
  @inline(__always)
  func take() -> Bool {
    if left <= 0 { return false }
    left -= 1
    return true
  }

  /// For so many that are there already, whether there is room or not.
  func take(_ count: Int) { left -= count }

  /// So many that were taken are not kept after all.
  func giveBack(_ count: Int) { left += count }
}
