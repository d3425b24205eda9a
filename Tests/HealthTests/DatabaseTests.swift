import Foundation
import System
import TestSupport
import Testing

@testable import Health

/// Data bases that others write, have left in the middle, or have filled with anything.
@Suite("data bases") struct DatabaseTests {
  @Test("a data base that its owner writes to meanwhile is read as it was, its journal included")
  func liveDatabase() throws {
    let folder = TemporaryFolder()
    let path = folder("Gadgetbridge.db")
    let script = """
      import sqlite3, sys, time
      c = sqlite3.connect(sys.argv[1], isolation_level=None)
      c.execute('PRAGMA journal_mode=WAL'); c.execute('PRAGMA wal_autocheckpoint=0')
      c.execute('CREATE TABLE X_ACTIVITY_SAMPLE (TIMESTAMP INTEGER, DEVICE_ID INTEGER, STEPS INTEGER, PRIMARY KEY (TIMESTAMP, DEVICE_ID))')
      c.execute('INSERT INTO X_ACTIVITY_SAMPLE VALUES (\(at("2026-05-02 07:00") / 1000), 1, 33)')
      c.execute('BEGIN IMMEDIATE'); c.execute('INSERT INTO X_ACTIVITY_SAMPLE VALUES (\(at("2026-05-02 07:05") / 1000), 1, 44)')
      print('ready', flush=True); sys.stdin.readline()
      """
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", script, path]
    let (stdin, stdout) = (Pipe(), Pipe())
    process.standardInput = stdin
    process.standardOutput = stdout
    try process.run()
    _ = stdout.fileHandleForReading.availableData
    let before = Set(Files.list(folder.path))
    let evidence = try HealthFiles(paths: [path], zone: berlin).read(
      span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
    #expect(evidence.flatMap(\.records).map(\.value) == [33], "\(evidence)")
    #expect(Set(Files.list(folder.path)) == before)
    stdin.fileHandleForWriting.write(Data("\n".utf8))
    process.waitUntilExit()
  }

  /// Runs a script of Python's to its end.
  private func python(_ script: String, _ arguments: String...) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", script] + arguments
    try process.run()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
  }

  @Test("a data base that is locked for writing is not read past the lock: it would tell what may be taken back")
  func lockedDatabase() throws {
    let folder = TemporaryFolder()
    let path = folder("Gadgetbridge.db")
    let script = """
      import sqlite3, sys
      c = sqlite3.connect(sys.argv[1], isolation_level=None)
      c.execute('CREATE TABLE X_ACTIVITY_SAMPLE (TIMESTAMP INTEGER, DEVICE_ID INTEGER, STEPS INTEGER, PRIMARY KEY (TIMESTAMP, DEVICE_ID))')
      start = \(at("2026-05-02 07:00") / 1000)
      c.execute('BEGIN')
      c.executemany('INSERT INTO X_ACTIVITY_SAMPLE VALUES (?, 1, 1)', [(start + i,) for i in range(20000)])
      c.execute('COMMIT')
      # So little room that what is not committed lies in the file already.
      c.execute('PRAGMA cache_size=2'); c.execute('BEGIN EXCLUSIVE'); c.execute('UPDATE X_ACTIVITY_SAMPLE SET STEPS = 900')
      print('ready', flush=True); sys.stdin.readline()
      c.execute('ROLLBACK')
      """
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", script, path]
    let (stdin, stdout) = (Pipe(), Pipe())
    process.standardInput = stdin
    process.standardOutput = stdout
    try process.run()
    _ = stdout.fileHandleForReading.availableData
    func read() throws -> [FileEvidence] {
      try HealthFiles(paths: [path], zone: berlin).read(
        span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
    }
    let locked = try read()
    #expect(locked.flatMap(\.records).isEmpty, "\(locked)")
    #expect(locked.flatMap(\.remarks).contains { $0.sentence.contains("is being written by another program") })
    stdin.fileHandleForWriting.write(Data("\n".utf8))
    process.waitUntilExit()
    let after = try read()
    #expect(after.flatMap(\.records).reduce(0) { $0 + $1.value } == 20_000 && after.flatMap(\.remarks).isEmpty)
  }

  @Test("a data base whose journal nobody can play back is read as it is, and says so")
  func unreadJournal() throws {
    let folder = TemporaryFolder()
    let path = folder("Gadgetbridge.db")
    // A writer that was killed in the middle: its journal tells what the file was before.
    try python(
      """
      import os, sqlite3, sys
      c = sqlite3.connect(sys.argv[1], isolation_level=None)
      c.execute('CREATE TABLE X_ACTIVITY_SAMPLE (TIMESTAMP INTEGER, DEVICE_ID INTEGER, STEPS INTEGER, PRIMARY KEY (TIMESTAMP, DEVICE_ID))')
      start = \(at("2026-05-02 07:00") / 1000)
      c.execute('BEGIN')
      c.executemany('INSERT INTO X_ACTIVITY_SAMPLE VALUES (?, 1, 1)', [(start + i,) for i in range(20000)])
      c.execute('COMMIT')
      c.execute('PRAGMA cache_size=2'); c.execute('BEGIN EXCLUSIVE'); c.execute('UPDATE X_ACTIVITY_SAMPLE SET STEPS = 900')
      os._exit(0)
      """, path)
    #expect(Files.exists(path + "-journal"))
    let evidence = try HealthFiles(paths: [path], zone: berlin).read(
      span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
    #expect(
      evidence.flatMap(\.remarks).contains { $0.kind == .damage && $0.sentence.contains("Gadgetbridge.db-journal") },
      "\(evidence.flatMap(\.remarks))")
  }

  @Test("times of a data base that are no numbers, or too large for any clock, are left out")
  func absurdDatabaseTimes() throws {
    let folder = TemporaryFolder()
    let path = folder("Gadgetbridge.db")
    // The file chooses what its columns are: text compares as text, so that a number of any length lies between two others.
    try python(
      """
      import sqlite3, sys
      c = sqlite3.connect(sys.argv[1])
      start = \(at("2026-05-02 07:00") / 1000)
      for name, column in ('STEPS', 'ACTIVITY'), ('STAGE', 'SLEEP_STAGE'), ('HEART_RATE', 'HEART_RATE_RESTING'):
        for type in 'TEXT', 'BLOB', 'REAL', '':
          table = f'X{type}_{column}_SAMPLE'
          c.execute(f'CREATE TABLE {table} (TIMESTAMP {type}, DEVICE_ID INTEGER, {name} INTEGER)')
          for time in start, str(start), str(start) + '0' * 12, str(start)[:5] + '9' * 40, 1e300, -1e300, 1 << 62, b'1777':
            c.execute(f'INSERT INTO {table} VALUES (?, 1, 40)', (time,))
      c.commit()
      """, path)
    let evidence = try HealthFiles(paths: [path], zone: berlin).read(
      span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
    let times = Set(evidence.flatMap(\.records).map(\.start))
    #expect(times == [at("2026-05-02 07:00")], "\(evidence)")
    #expect(evidence.flatMap(\.remarks).contains { $0.sentence.contains("times that can't be") })
  }

  @Test("a data base with a log that is at rest is read without a file beside it")
  func restingDatabase() throws {
    let folder = TemporaryFolder()
    let path = folder("Gadgetbridge")
    let script = """
      import sqlite3, sys
      c = sqlite3.connect(sys.argv[1])
      c.execute('PRAGMA journal_mode=WAL')
      c.execute('CREATE TABLE X_ACTIVITY_SAMPLE (TIMESTAMP INTEGER, DEVICE_ID INTEGER, STEPS INTEGER, PRIMARY KEY (TIMESTAMP, DEVICE_ID))')
      c.execute('INSERT INTO X_ACTIVITY_SAMPLE VALUES (\(at("2026-05-02 07:00") / 1000), 1, 33)')
      c.commit(); c.close()
      """
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["python3", "-c", script, path]
    try process.run()
    process.waitUntilExit()
    let evidence = try HealthFiles(paths: [folder.path], zone: berlin).read(
      span: at("2026-05-02 00:00")..<at("2026-05-03 00:00"), now: at("2026-06-01 00:00"))
    #expect(evidence.flatMap(\.records).map(\.value) == [33], "\(evidence)")
    #expect(Files.list(folder.path) == ["Gadgetbridge"])
  }
}
