import Foundation
import System
import TestSupport
import Testing

@testable import Health

@Suite("files out of archives, on disk") struct UnpackedFileTests {
  private let folder = TemporaryFolder()
  private var place: String { folder("state/unpacked") }

  @Test("one that is in use is not removed by others, one that is not is", arguments: [false, true])
  func locks(isNamed: Bool) throws {
    do {
      let file = try UnpackedFile(in: place, isNamed: isNamed)
      var status = stat()
      #expect(stat(place, &status) == 0 && status.st_mode & 0o777 == 0o700)
      #expect(fstat(file.descriptor, &status) == 0 && status.st_mode & 0o777 == 0o600)
      try Files.write(Array("steps".utf8), to: file.descriptor, named: "it")
      UnpackedFile.removeLeftOnes(in: place)
      let path = try file.named()
      UnpackedFile.removeLeftOnes(in: place)
      #expect(try Files.read(path) == Array("steps".utf8) && Files.list(place).count == 1)
    }
    // It takes its name with it.
    #expect(Files.list(place).isEmpty)
    try folder.write("state/unpacked/talknode-health-0123456789abcdef", "steps")
    UnpackedFile.removeLeftOnes(in: place)
    #expect(Files.list(place).isEmpty)
  }

  @Test("others that remove what was left do no harm to one that is being unpacked, and it leaves nothing")
  func others() throws {
    let chunks = Lock(0)
    let place = place
    let input = HealthInput(name: "export.db", size: nil) { () throws(HealthError) in
      Watched {
        chunks.withLock { $0 += 1 }
        #expect(Files.list(place).count <= 1)
        UnpackedFile.removeLeftOnes(in: place)
      }
    }
    let check = { () throws(HealthError) in }
    try input.withFile(folder: place, check: check) { path, isOurs throws(HealthError) in
      #expect(isOurs && (try? Files.read(path).count) == 1000)
    }
    #expect(chunks.withLock { $0 } == 11 && Files.list(place).isEmpty)
  }

  /// A thousand bytes, a hundred at a time.
  private final class Watched: ByteInput {
    private var left = 1000
    private let isRead: () -> Void
    init(_ isRead: @escaping () -> Void) { self.isRead = isRead }
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HealthError) -> Int {
      isRead()
      let count = min(left, 100, buffer.count)
      left -= count
      return count
    }
  }

  @Test("a folder that can't be made is a sentence")
  func noPlace() throws {
    try folder.write("state", "a file")
    #expect(throws: HealthError.self) { try UnpackedFile(in: place) }
  }
}
