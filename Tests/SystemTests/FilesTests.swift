import Glibc
import System
import TestSupport
import Testing

@Suite("Files")
struct FilesTests {
  private let folder = TemporaryFolder()
  private var path: String { folder.path + "/file" }

  func mode(_ path: String) -> mode_t {
    var status = stat()
    return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
  }

  @Test("what is written is read back, and only its owner can")
  func roundTrip() throws {
    for bytes in [[], [0, 1, 255], [UInt8](repeating: 7, count: 200_000)] as [[UInt8]] {
      try Files.writeAtomically(bytes, to: path)
      #expect(try Files.read(path) == bytes)
    }
    #expect(mode(path) == 0o600)
    try Files.writeAtomically([1], to: path, mode: 0o644)
    #expect(mode(path) == 0o644)
    #expect(Files.list(folder.path) == ["file"])
  }

  @Test("a reader sees the old file or the new one, never a part, and no reader is ever without one")
  func atomic() async throws {
    let path = path
    try Files.writeAtomically([UInt8](repeating: 0, count: 50_000), to: path)
    let isDone = Lock(false)
    let failures = Lock<[String]>([])
    let isReaderDone = Lock(false)
    _ = startThread(name: "reader") {
      while !isDone.withLock({ $0 }) {
        guard let bytes = try? Files.read(path), bytes.count == 50_000, Set(bytes).count == 1 else {
          failures.withLock { $0.append("a partial file") }
          break
        }
      }
      isReaderDone.withLock { $0 = true }
    }
    for number in UInt8(1)...100 { try Files.writeAtomically([UInt8](repeating: number, count: 50_000), to: path) }
    isDone.withLock { $0 = true }
    try await eventually("the reader has ended") { isReaderDone.withLock { $0 } }
    #expect(failures.withLock { $0 } == [])
  }

  @Test("threads that write one file at once leave one of their versions and nothing beside it")
  func concurrent() async throws {
    let path = path
    let ended = Lock(0)
    let errors = Lock(0)
    for number in UInt8(1)...4 {
      _ = startThread(name: "writer") {
        for _ in 0..<20 {
          do { try Files.writeAtomically([UInt8](repeating: number, count: 20_000), to: path) } catch {
            errors.withLock { $0 += 1 }
          }
        }
        ended.withLock { $0 += 1 }
      }
    }
    try await eventually("all have ended") { ended.withLock { $0 } == 4 }
    let bytes = try Files.read(path)
    #expect(errors.withLock { $0 } == 0 && bytes.count == 20_000 && Set(bytes).count == 1)
    #expect(Files.list(folder.path) == ["file"])
  }

  @Test("a write that fails leaves the old file and nothing beside it")
  func failing() throws {
    try Files.writeAtomically([1], to: path)
    #expect(throws: SystemError.self) { try Files.writeAtomically([2], to: folder.path + "/none/file") }
    // A folder is in the way of the rename.
    try Files.makeFolder(folder.path + "/folder/inner")
    #expect(throws: SystemError.self) { try Files.writeAtomically([2], to: folder.path + "/folder") }
    #expect(Files.list(folder.path) == ["file", "folder"])
    #expect(try Files.read(path) == [1])
  }

  @Test("a file over the limit is refused, one of exactly the limit is not")
  func limit() throws {
    try Files.writeAtomically([1, 2, 3], to: path)
    #expect(try Files.read(path, limit: 3) == [1, 2, 3])
    #expect(throws: SystemError("read \(path)", code: EFBIG)) { try Files.read(path, limit: 2) }
    #expect(throws: SystemError("open \(folder.path)/none", code: ENOENT)) { try Files.read(folder.path + "/none") }
  }

  @Test("text that is no UTF-8 is no text")
  func text() throws {
    try Files.writeAtomically(Array("ä".utf8), to: path)
    #expect(Files.text(path) == "ä")
    try Files.writeAtomically([0xFF], to: path)
    #expect(Files.text(path) == nil && Files.text("/none") == nil)
  }

  @Test("folders are made with their parents, and trees removed without following links")
  func trees() throws {
    let outside = folder.path + "/outside"
    try Files.makeFolder(outside)
    try Files.writeAtomically([1], to: outside + "/kept")
    try Files.makeFolder(folder.path + "/a/b/c")
    try Files.makeFolder(folder.path + "/a/b/c")
    #expect(mode(folder.path + "/a/b") == 0o700)
    #expect(symlink(outside, folder.path + "/a/link") == 0)
    try Files.removeTree(folder.path + "/a")
    try Files.removeTree(folder.path + "/a")
    #expect(Files.exists(outside + "/kept") && !Files.exists(folder.path + "/a"))
    try Files.writeAtomically([1], to: path)
    #expect(throws: SystemError.self) { try Files.makeFolder(path + "/x") }
  }

  @Test("temporary folders are their maker's alone, and no two the same")
  func temporaryFolders() throws {
    let first = try Files.makeTemporaryFolder("some", in: folder.path)
    let second = try Files.makeTemporaryFolder("some", in: folder.path)
    #expect(first != second && Files.isFolder(first) && Files.isFolder(second))
    #expect(first.hasPrefix(folder.path + "/some-") && mode(first) == 0o700)
    #expect(throws: SystemError.self) { try Files.makeTemporaryFolder("some", in: path + "/none") }
  }
}
