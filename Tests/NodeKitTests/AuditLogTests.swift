import Glibc
import System
import TestSupport
import Testing

@testable import NodeKit

@Suite("AuditLog") struct AuditLogTests {
  let folder = TemporaryFolder()

  private func entry(_ number: Int, command: String = "device.info") -> AuditEntry {
    AuditEntry(
      timeMs: Int64(number), origin: number % 2 == 0 ? .local : .gateway("g"), command: command, outcome: "ok",
      milliseconds: 1.5)
  }

  @Test("what is recorded is read back, in order, the newest of it")
  func readsBack() async throws {
    let log = AuditLog(path: folder("audit.log"))
    for number in 0..<500 { log.record(entry(number)) }
    #expect(try await log.read(last: 3) == [497, 498, 499].map { entry($0) })
    #expect(try await log.read(last: 1000).count == 500)
    // By another program too.
    #expect(try await AuditLog(path: folder("audit.log")).read(last: 1) == [entry(499)])
  }

  @Test("lines are JSON for their owner only")
  func form() async throws {
    let log = AuditLog(path: folder("audit.log"))
    log.record(entry(1, command: "quote\"and\nline" + String(repeating: "x", count: 200)))
    await log.flush()
    let text = try #require(Files.text(folder("audit.log")))
    #expect(text.hasPrefix(#"{"command":"quote\"and\nlinexxx"#) && text.hasSuffix("\n"))
    #expect(text.contains(#""gateway":"g","ms":1.5,"outcome":"ok","time":"1970-01-01T00:00:00.001Z","timeMs":1}"#))
    #expect(text.split(separator: "\n").count == 1 && text.utf8.count < 250)
    var status = stat()
    #expect(stat(folder("audit.log"), &status) == 0 && status.st_mode & 0o777 == 0o600)
  }

  @Test("old entries go when the files are full, the newest stay")
  func rotates() async throws {
    let log = AuditLog(path: folder("audit.log"), maximumBytes: 1000, files: 3)
    for number in 0..<100 {
      log.record(entry(number))
      await log.flush()
    }
    #expect(Files.list(folder.path) == ["audit.log", "audit.log.1", "audit.log.2"])
    let entries = try await log.read(last: 100)
    #expect(entries.last == entry(99) && entries.count > 10 && entries.count < 40)
    #expect(entries.map(\.timeMs) == (entries[0].timeMs...99).map { $0 })
  }

  @Test("a log that was removed is begun anew; one that is damaged gives what can be read")
  func survives() async throws {
    let log = AuditLog(path: folder("audit.log"))
    log.record(entry(1))
    await log.flush()
    unlink(folder("audit.log"))
    log.record(entry(2))
    #expect(try await log.read(last: 5) == [entry(2)])
    let text = try #require(Files.text(folder("audit.log")))
    try folder.write("audit.log", text + "\u{0}garbage{\n[]\n{\"half\":\n" + text)
    #expect(try await log.read(last: 5) == [entry(2), entry(2)])
  }

  @Test("a name of one endless character is cut too, and a log that is far too long hides no other")
  func longNames() async throws {
    let log = AuditLog(path: folder("audit.log"), maximumBytes: 1000)
    log.record(entry(1, command: "a" + String(repeating: "\u{301}", count: 1_000_000)))
    #expect(try await log.read(last: 1).first?.command.utf8.count ?? 0 <= 83)
    try folder.write("audit.log.1", String(repeating: "x", count: 1 << 20))
    #expect(try await log.read(last: 5).count == 1)
  }

  @Test("a line that a power cut left half takes no other with it")
  func torn() async throws {
    try folder.write("audit.log", "{\"timeMs\":17")
    let log = AuditLog(path: folder("audit.log"))
    log.record(entry(1))
    #expect(try await log.read(last: 5) == [entry(1)])
  }

  @Test("a log that is there and can't be read is an error, not an empty one")
  func unreadable() async throws {
    try Files.makeFolder(folder("audit.log"))
    await #expect(throws: SystemError.self) { try await AuditLog(path: folder("audit.log")).read(last: 5) }
  }

  @Test("a log that can't be written costs no invoke")
  func unwritable() async throws {
    let log = AuditLog(path: folder("no/such/audit.log"))
    for number in 0..<10 { log.record(entry(number)) }
    #expect(try await log.read(last: 5).isEmpty)
  }

  @Test("many at once lose nothing")
  func concurrent() async throws {
    let log = AuditLog(path: folder("audit.log"))
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<8 { group.addTask { for index in 0..<100 { log.record(entry(number * 100 + index)) } } }
    }
    let times = try await log.read(last: 1000).map(\.timeMs)
    #expect(Set(times).count == 800)
  }
}
