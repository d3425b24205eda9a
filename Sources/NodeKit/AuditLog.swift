import GatewayProtocol
import Glibc
import System

/// One invoke, as the audit log keeps it: who, what, how it ended, how long it took. Never its params or its payload.
public struct AuditEntry: Sendable, Equatable {
  /// Milliseconds since 1970, when it was answered.
  public let timeMs: Int64
  public let origin: Invocation.Origin
  /// As it was asked for, at most 80 characters: also one that does not exist.
  public let command: String
  /// `ok`, or the error's code.
  public let outcome: String
  /// From the request to its answer.
  public let milliseconds: Double
  /// The answer of an earlier invoke with the same idempotency key was repeated; nothing was run.
  public let isRepeat: Bool

  public init(
    timeMs: Int64, origin: Invocation.Origin, command: String, outcome: String, milliseconds: Double,
    isRepeat: Bool = false
  ) {
    self.timeMs = timeMs
    self.origin = origin
    self.command = Self.short(command)
    self.outcome = Self.short(outcome)
    self.milliseconds = (milliseconds * 1000).rounded() / 1000
    self.isRepeat = isRepeat
  }

  /// At most 80 bytes: a character has no bound.
  private static func short(_ text: String) -> String {
    text.utf8.count <= 80 ? text : String(decoding: text.utf8.prefix(80), as: UTF8.self)
  }

  /// `{"time","gateway"?,"command","outcome","ms","repeat"?}`; without `gateway` a person at this machine asked.
  public var json: JSON {
    var gateway: JSON?
    if case .gateway(let id) = origin { gateway = .string(id) }
    return .object(present: [
      "time": .string(WallClock.iso8601(timeMs)), "timeMs": .int(timeMs), "gateway": gateway,
      "command": .string(command),
      "outcome": .string(outcome), "ms": .double(milliseconds), "repeat": isRepeat ? true : nil,
    ])
  }

  init?(json: JSON) {
    guard let timeMs = json["timeMs"]?.int, let command = json["command"]?.string,
      let outcome = json["outcome"]?.string,
      let milliseconds = json["ms"]?.double
    else { return nil }
    self.init(
      timeMs: timeMs, origin: json["gateway"]?.string.map(Invocation.Origin.gateway) ?? .local, command: command,
      outcome: outcome, milliseconds: milliseconds, isRepeat: json["repeat"]?.bool ?? false)
  }
}

/// The append-only log of every invoke: JSON lines, 0600, rotated.
///
/// `record` costs its caller no IO: lines are gathered and written behind it, off the event loop, in order. The file is opened for
/// each batch, so that a log that was moved or removed is simply begun anew.
public actor AuditLog {
  private struct Pending {
    var lines: [UInt8] = []
    var dropped = 0
    var isWriting = false
  }

  /// The newest file; older ones are `path.1`, `path.2`, …
  public nonisolated let path: String
  private let maximumBytes: Int
  private let files: Int
  private let pending = Lock(Pending())
  /// How long lines are gathered for one write. A crash of the whole process loses no more than this.
  private static let gathering: Duration = .milliseconds(100)
  /// Lines that wait for a disk that has stopped; beyond it entries are counted instead of kept.
  private static let pendingLimit = 256 << 10

  /// Keeps `files` files of at most `maximumBytes` bytes each.
  public init(path: String, maximumBytes: Int = 1 << 20, files: Int = 3) {
    precondition(maximumBytes > 0 && files > 0)
    self.path = path
    self.maximumBytes = maximumBytes
    self.files = files
  }

  /// Adds an entry. Returns at once.
  public nonisolated func record(_ entry: AuditEntry) {
    let mustWrite = pending.withLock { pending -> Bool in
      if pending.lines.count > Self.pendingLimit {
        pending.dropped += 1
      } else {
        entry.json.encode(into: &pending.lines)
        pending.lines.append(0x0A)
      }
      if pending.isWriting { return false }
      pending.isWriting = true
      return true
    }
    if mustWrite {
      Task {
        try? await Task.sleep(for: Self.gathering)
        await flush()
      }
    }
  }

  /// Returns when everything recorded before is in the file.
  public func flush() {
    while true {
      let (lines, dropped) = pending.withLock { pending -> ([UInt8], Int) in
        defer {
          pending.lines.removeAll(keepingCapacity: pending.lines.count < 4096)
          pending.dropped = 0
        }
        if pending.lines.isEmpty { pending.isWriting = false }
        return (pending.lines, pending.dropped)
      }
      if lines.isEmpty { return }
      if dropped > 0 { Log.error("The audit log could not keep up: \(dropped) invokes are not in it.") }
      do {
        try append(lines)
        Log.clear("audit \(path)", "The audit log is written again.")
      } catch {
        Log.once("audit \(path)", .error, "The audit log can't be written: \(error)")
      }
    }
  }

  /// The newest `last` entries, oldest first. Lines that are damaged (a power cut) are passed over. Throws for a log that is there and can't
  /// be read: it must not look empty.
  public func read(last: Int) throws(SystemError) -> [AuditEntry] {
    flush()
    var entries: [AuditEntry] = []
    for index in 0..<files where entries.count < last {
      let bytes: [UInt8]
      do { bytes = try Files.read(name(index), limit: maximumBytes + Self.pendingLimit + 4096) } catch {
        if error.code == ENOENT || error.code == ENOTDIR { continue }
        if error.code == EFBIG {
          Log.warning("\(name(index)) is far too long for an audit log; it is passed over.")
          continue
        }
        throw error
      }
      let older = bytes.split(separator: 0x0A).suffix(last - entries.count)
        .compactMap { line in (try? JSON(parsing: line)).flatMap(AuditEntry.init(json:)) }
      entries = older + entries
    }
    return entries
  }

  private nonisolated func name(_ index: Int) -> String { index == 0 ? path : "\(path).\(index)" }

  private func append(_ lines: [UInt8]) throws(SystemError) {
    var status = stat()
    if stat(path, &status) == 0, status.st_size > 0, Int(status.st_size) + lines.count > maximumBytes {
      for index in stride(from: files - 2, through: 0, by: -1) { rename(name(index), name(index + 1)) }
      if files == 1 { unlink(path) }
    }
    let descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    if descriptor < 0 { throw SystemError("open \(path)", code: errno) }
    defer { close(descriptor) }
    // A line that a power cut left without its end must not take the next with it.
    let end = lseek(descriptor, 0, SEEK_END)
    var last: UInt8 = 0x0A
    if end > 0 { pread(descriptor, &last, 1, end - 1) }
    try Files.write(last == 0x0A ? lines : [0x0A] + lines, to: descriptor, named: path)
  }
}
