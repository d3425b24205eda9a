import CSQLite
import Glibc
import System

/// libsqlite3, opened when a data base is first read.
// @unchecked Sendable: the table is written once, and holds functions of the library alone.
struct SQLiteLibrary: @unchecked Sendable {
  let functions: csqlite

  static let shared: Result<SQLiteLibrary, HealthError> = {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libsqlite3.so.0")
      var functions = csqlite()
      if let symbol = csqlite_load(&functions, library.handle) {
        return .failure(
          HealthError(
            .missing, "libsqlite3.so.0 is too old: it has no \(String(cString: symbol)).",
            remedy: "apt install libsqlite3-0"))
      }
      return .success(SQLiteLibrary(functions: functions))
    } catch {
      return .failure(
        HealthError(
          .missing, "SQLite is not installed, so no data base can be read.", remedy: "apt install libsqlite3-0"))
    }
  }()
}

/// A data base of foreign origin, open for reading only: nothing in it runs, and nothing is written beside it where that can be helped.
final class SQLiteDatabase {
  private let functions: csqlite
  private var handle: OpaquePointer?
  private let check: () throws(HealthError) -> Void
  private var cancelled: HealthError?
  /// The end of the name of a journal that could not be read with it: what stands in there is missing, or half of it is there.
  private(set) var unreadJournal: String?

  /// - Parameters:
  ///   - isOurs: it is a copy of our own, whose name is removed as soon as it is open. Otherwise another program may be writing it (a phone
  ///     that syncs): its locks are heeded and its journal is read.
  ///   - check: called now and then while it is searched; throws when nobody waits any more.
  init(_ path: String, isOurs: Bool, check: @escaping () throws(HealthError) -> Void) throws(HealthError) {
    functions = try SQLiteLibrary.shared.get().functions
    self.check = check
    if !isOurs, !SQLiteDatabase.isAtRest(path) {
      do throws(HealthError) {
        try open(path, "mode=ro")
        // The file is first looked at here.
        try each("SELECT count(*) FROM sqlite_schema") { _ in }
        return
      } catch {
        // Without the right to write beside a journal there is no reading it but as it is. Any other refusal holds: read past the lock of
        // whoever writes it, there would be what that one may yet take back.
        guard let code, [SQLITE_CANTOPEN, SQLITE_READONLY].contains(code) else { throw error }
        close()
      }
      unreadJournal = ["-journal", "-wal"].first { FileIdentity(path: path + $0)?.size ?? 0 > 0 }
    }
    try open(path, "mode=ro&immutable=1")
    if isOurs { unlink(path) }
  }

  /// Whether it is one with a log of writes (WAL) whose log is not there: nobody writes it, and opening it otherwise would put two files beside
  /// it, into a folder that is perhaps carried to a phone.
  private static func isAtRest(_ path: String) -> Bool {
    guard let file = try? OpenFile(path), let head = try? file.bytes(at: 0, count: 20) else { return false }
    // The versions for writing and for reading (SQLite's file format, §1.3): the one that is looked at is the second.
    return (head[18] == 2 || head[19] == 2) && !Files.exists(path + "-wal")
  }

  deinit { close() }

  private func close() {
    if let handle { _ = functions.sqlite3_close_v2(handle) }
    handle = nil
  }

  private func open(_ path: String, _ how: String) throws(HealthError) {
    var escaped = ""
    for byte in path.utf8 {
      let isPlain =
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || "/-_.".utf8.contains(byte)
      escaped += isPlain ? String(Unicode.Scalar(byte)) : "%" + hexadecimal([byte])
    }
    let code = functions.sqlite3_open_v2(
      "file:\(escaped)?\(how)", &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nil)
    guard code == SQLITE_OK, let handle else {
      let error = failure("the data base")
      close()
      throw error
    }
    withUnsafePointer(to: functions) { csqlite_distrust($0, handle) }
    _ = functions.sqlite3_busy_timeout(handle, 2000)
    _ = functions.sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, 4 << 20)
    _ = functions.sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0)
    // A step of the search is some microseconds: often enough to be stopped, seldom enough to cost nothing.
    functions.sqlite3_progress_handler(
      handle, 20_000,
      { context in
        let database = Unmanaged<SQLiteDatabase>.fromOpaque(context!).takeUnretainedValue()
        do throws(HealthError) { try database.check() } catch {
          database.cancelled = error
          return 1
        }
        return 0
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// SQLite's code for what failed last; nil when it was called off.
  private var code: Int32?

  private func failure(_ what: String) -> HealthError {
    if let cancelled { return cancelled }
    let code = handle.map { functions.sqlite3_extended_errcode($0) & 0xFF } ?? SQLITE_NOMEM
    let words = handle.flatMap { functions.sqlite3_errmsg($0) }.map { String(cString: $0) } ?? "out of memory"
    self.code = code
    switch code {
    case SQLITE_BUSY, SQLITE_LOCKED:
      return HealthError(
        .changed, place: "in \(what)", "It is being written by another program.", remedy: "Ask again later.")
    case SQLITE_CORRUPT, SQLITE_NOTADB: return HealthError(.damaged, place: "in \(what)", "It is damaged: \(words).")
    default: return HealthError(.unreadable, place: "in \(what)", "It can't be read: \(words).")
    }
  }

  /// One row of an answer; holds inside its closure only.
  struct Row {
    fileprivate let functions: csqlite
    fileprivate let statement: OpaquePointer

    func isNull(_ column: Int32) -> Bool { functions.sqlite3_column_type(statement, column) == SQLITE_NULL }
    func int(_ column: Int32) -> Int64 { functions.sqlite3_column_int64(statement, column) }
    func number(_ column: Int32) -> Double { functions.sqlite3_column_double(statement, column) }
    func text(_ column: Int32) -> String {
      guard let text = functions.sqlite3_column_text(statement, column) else { return "" }
      let count = Int(functions.sqlite3_column_bytes(statement, column))
      return String(decoding: UnsafeBufferPointer(start: text, count: min(count, 4096)), as: UTF8.self)
    }
  }

  /// Runs a query and hands over its rows. What came before an error has been handed over.
  func each(
    _ sql: String, _ values: [Int64] = [], table: String = "the data base", _ body: (Row) -> Void
  ) throws(HealthError) {
    guard let handle else { throw HealthError(.unreadable, "It is closed.") }
    var statement: OpaquePointer?
    guard functions.sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, let statement else {
      throw failure(table)
    }
    defer { _ = functions.sqlite3_finalize(statement) }
    for (index, value) in values.enumerated() { _ = functions.sqlite3_bind_int64(statement, Int32(index + 1), value) }
    let row = Row(functions: functions, statement: statement)
    while true {
      switch functions.sqlite3_step(statement) {
      case SQLITE_ROW: body(row)
      case SQLITE_DONE: return
      default: throw failure(table)
      }
    }
  }

  /// The names of its tables. Views, and tables that are programs, are none.
  func tables() throws(HealthError) -> [String] {
    var names: [String] = []
    try each("SELECT name, sql FROM sqlite_schema WHERE type = 'table' LIMIT 2000") { row in
      if !row.text(1).uppercased().hasPrefix("CREATE VIRTUAL") { names.append(row.text(0)) }
    }
    return names
  }

  /// The columns of a table, in capitals.
  func columns(_ table: String) throws(HealthError) -> Set<String> {
    var names: Set<String> = []
    try each("SELECT name FROM pragma_table_info(\(SQLiteDatabase.literal(table)))", table: table) { row in
      names.insert(row.text(0).uppercased())
    }
    return names
  }

  /// A name, quoted for SQL.
  static func name(_ text: String) -> String {
    "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
  }
  private static func literal(_ text: String) -> String {
    "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''") + "'"
  }
}

extension HealthInput {
  /// Opens it as a data base. One that could not be read with its journal says so.
  func withDatabase(
    _ gathering: Gathering, _ body: (SQLiteDatabase) throws(HealthError) -> Void
  ) throws(HealthError) {
    try withFile(folder: gathering.scratch, check: gathering.check) { path, isOurs throws(HealthError) in
      let database = try SQLiteDatabase(path, isOurs: isOurs, check: gathering.check)
      if let ending = database.unreadJournal {
        gathering.remark(
          .damage,
          "Its journal (\(name.split(separator: "/").last ?? "")\(ending)) can't be read from here: what was written last is missing or incomplete."
        )
      }
      try body(database)
    }
  }
}
