import Glibc

/// The log: one line a message on standard error, with a syslog priority in front when systemd reads it.
///
/// Never a token, never a transcript, never a command's payload. A condition that repeats is said once and once more when it
/// clears (`Log.once`, `Log.clear`).
public enum Log {
  public enum Level: Int, Sendable, Comparable, CaseIterable {
    case debug = 7
    case info = 6
    case warning = 4
    case error = 3
    public static func < (left: Level, right: Level) -> Bool { left.rawValue > right.rawValue }

    /// `debug`, `info`, `warning` or `error`.
    public init?(name: String) {
      guard let level = Level.allCases.first(where: { "\($0)" == name }) else { return nil }
      self = level
    }
  }

  private struct State {
    var threshold = Level.info
    var isJournal = false
    var said: Set<String> = []
    var sink: (@Sendable (Level, String) -> Void)?
  }
  private static let state = Lock(State())

  /// Messages below `threshold` are dropped; `journal` puts `<6>` priorities in front (sd-daemon(3)).
  public static func configure(threshold: Level, journal: Bool) {
    state.withLock {
      $0.threshold = threshold
      $0.isJournal = journal
    }
  }

  /// Sends messages to `sink` instead of standard error; nil undoes it. For tests that read the log.
  public static func redirect(_ sink: (@Sendable (Level, String) -> Void)?) { state.withLock { $0.sink = sink } }

  public static func debug(_ message: @autoclosure () -> String) { log(.debug, message) }
  public static func info(_ message: @autoclosure () -> String) { log(.info, message) }
  public static func warning(_ message: @autoclosure () -> String) { log(.warning, message) }
  public static func error(_ message: @autoclosure () -> String) { log(.error, message) }

  /// Says a lasting condition once, until `clear` is called with the same key.
  public static func once(_ key: String, _ level: Level, _ message: @autoclosure () -> String) {
    if state.withLock({ $0.said.insert(key).inserted }) { log(level, message) }
  }

  /// Says that a condition said by `once` is over; nothing when it was not said.
  public static func clear(_ key: String, _ message: @autoclosure () -> String) {
    if state.withLock({ $0.said.remove(key) }) != nil { log(.info, message) }
  }

  /// One line of at most 2 KiB without control characters: parts of it may come from others.
  private static func plain(_ message: String) -> String {
    let whole = message.utf8.count <= 2048 ? message : String(decoding: message.utf8.prefix(2048), as: UTF8.self) + "…"
    if whole.utf8.allSatisfy({ 0x20..<0x7F ~= $0 }) { return whole }
    var out = String.UnicodeScalarView()
    for scalar in whole.unicodeScalars {
      let isLineEnd = scalar == "\u{2028}" || scalar == "\u{2029}"
      out.append(isLineEnd || scalar.properties.generalCategory == .control ? " " : scalar)
    }
    return String(out)
  }

  private static func log(_ level: Level, _ message: () -> String) {
    let (threshold, isJournal, sink) = state.withLock { ($0.threshold, $0.isJournal, $0.sink) }
    if level < threshold { return }
    let text = plain(message())
    if let sink { return sink(level, text) }
    let line = (isJournal ? "<\(level.rawValue)>" : level == .info ? "" : "\(level): ") + text + "\n"
    var bytes = Array(line.utf8)
    _ = Glibc.write(STDERR_FILENO, &bytes, bytes.count)
  }
}
