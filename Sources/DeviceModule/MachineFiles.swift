import Glibc
import System

/// The machine's files under a root, read with bounds. Whatever stands in them, reading ends in a value or nil.
struct MachineFiles: Sendable {
  private let root: String

  init(root: String) { self.root = root.hasSuffix("/") ? String(root.dropLast()) : root }

  /// The real path of one that is written from the root, with or without its slash.
  func path(_ name: String) -> String { root + (name.hasPrefix("/") ? "" : "/") + name }

  /// A file's text without white space at its ends and without NULs (device-tree strings end in one); nil when there is none.
  func text(_ name: String) -> String? {
    guard let text = Files.text(path(name), limit: 1 << 20) else { return nil }
    let trimmed = String(text.filter { $0 != "\0" }).trimmed
    return trimmed.isEmpty ? nil : trimmed
  }

  func int(_ name: String) -> Int64? { text(name).flatMap { Int64($0) } }
  func names(in folder: String) -> [String] { Files.list(path(folder)) }
  func exists(_ name: String) -> Bool { Files.exists(path(name)) }
  /// Whether this process may read and write it.
  func isAccessible(_ name: String) -> Bool { access(path(name), R_OK | W_OK) == 0 }

  /// The `KEY=value` lines of a file in the shell's form, quotes taken off: os-release(5), locale.conf(5).
  func assignments(in name: String) -> [String: String] {
    var values: [String: String] = [:]
    for line in (text(name) ?? "").split(whereSeparator: \.isNewline) {
      let line = line.trimmed
      guard let equals = line.firstIndex(of: "="), !line.hasPrefix("#") else { continue }
      values[String(line[..<equals])] = Self.unquoted(line[line.index(after: equals)...])
    }
    return values
  }

  private static func unquoted(_ text: Substring) -> String {
    guard let quote = text.first, quote == "\"" || quote == "'", text.count >= 2, text.last == quote else {
      return String(text)
    }
    var plain = ""
    var isEscaped = false
    for character in text.dropFirst().dropLast() {
      if character == "\\" && quote == "\"" && !isEscaped {
        isEscaped = true
      } else {
        plain.append(character)
        isEscaped = false
      }
    }
    return plain
  }
}

/// Reads something that may block, on a thread of its own. While a reading is stuck there is no second one.
final class OwnThreadReader<Value: Sendable>: Sendable {
  private let name: String
  private let isReading = Lock(false)

  init(name: String) { self.name = name }

  /// What `body` returns; nil when it has not returned within `limit`, or when an earlier one is stuck.
  func read(within limit: Duration, _ body: @escaping @Sendable () -> Value) async -> Value? {
    let end = Monotonic.now() + limit
    // Another asker's reading takes a moment; only one that is stuck takes longer.
    while !isReading.withLock({ isReading in
      defer { isReading = true }
      return !isReading
    }) {
      if Monotonic.now() >= end || Task.isCancelled { return nil }
      try? await Task.sleep(for: .milliseconds(2))
    }
    let (results, result) = AsyncStream.makeStream(of: Value.self)
    let didStart = startThread(name: name) { [self] in
      result.yield(body())
      isReading.withLock { $0 = false }
      result.finish()
    }
    if !didStart {
      isReading.withLock { $0 = false }
      return nil
    }
    return try? await withDeadline(max(end - Monotonic.now(), .milliseconds(1))) {
      for await value in results { return value }
      return nil
    }
  }
}
