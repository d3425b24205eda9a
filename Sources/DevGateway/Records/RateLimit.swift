/// Counts failed authentications by client address and kind of credential (protocol §5.2): so many in a window lock that pair out.
struct RateLimit: Sendable {
  var failures = 10
  var windowMs: Int64 = 60_000
  var lockMs: Int64 = 300_000

  struct Key: Hashable, Sendable {
    var address: String
    /// `shared`, `device-token` or `bootstrap-token`.
    var credential: String
  }

  private static let mostKeys = 4096
  private var failedAtMs: [Key: [Int64]] = [:]
  private var lockedUntilMs: [Key: Int64] = [:]

  /// How long this pair still has to wait; nil when it may try.
  mutating func wait(_ key: Key, nowMs: Int64) -> Int64? {
    guard let until = lockedUntilMs[key] else { return nil }
    if until > nowMs { return until - nowMs }
    lockedUntilMs[key] = nil
    return nil
  }

  mutating func failed(_ key: Key, nowMs: Int64) {
    // An address is whatever a proxy's header says, so there may be any number of them.
    if failedAtMs.count >= Self.mostKeys { failedAtMs = [:] }
    if lockedUntilMs.count >= Self.mostKeys { lockedUntilMs = [:] }
    var times = (failedAtMs[key] ?? []).filter { $0 > nowMs - windowMs }
    times.append(nowMs)
    if times.count >= failures {
      lockedUntilMs[key] = nowMs + lockMs
      times = []
    }
    failedAtMs[key] = times
  }

  mutating func succeeded(_ key: Key) { failedAtMs[key] = nil }
}
