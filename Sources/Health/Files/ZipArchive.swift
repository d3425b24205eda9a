import Glibc
import System

/// A zip on disk, read from its directory at the end; where that is missing (a download that broke off), from one file's head to the next.
/// Files of more than 4 GB are in reach, encrypted ones are not.
final class ZipArchive {
  struct Entry: Equatable {
    let name: String
    /// 0 = as it is, 8 = deflate.
    let method: Int
    let isEncrypted: Bool
    /// nil = not known until it is unpacked.
    let checksum: UInt32?
    let packedSize: Int64
    let size: Int64?
    /// Of the file's own head.
    let offset: Int64
  }

  let file: OpenFile
  private(set) var entries: [Entry] = []
  /// Set when the directory was missing or damaged.
  private(set) var damage: HealthError?
  private let check: () throws(HealthError) -> Void

  private static let entryLimit = 200_000
  private static let directoryLimit = 64 << 20

  init(_ file: OpenFile, check: @escaping () throws(HealthError) -> Void) throws(HealthError) {
    self.file = file
    self.check = check
    do throws(HealthError) { try readDirectory() } catch {
      if error.code == .cancelled { throw error }
      entries = []
      try readHeads()
      damage = HealthError(
        .damaged, place: error.place, "Its directory can't be used; \(entries.count) of its files were found without.")
      if entries.isEmpty { throw error }
    }
  }

  // MARK: The directory

  private func readDirectory() throws(HealthError) {
    let tailLength = Int(min(file.size, 22 + 65_535))
    guard let tail = try file.bytes(at: file.size - Int64(tailLength), count: tailLength), tail.count >= 22 else {
      throw HealthError(.damaged, "It is too short for a zip.")
    }
    var found: Int?
    for index in stride(from: tail.count - 22, through: 0, by: -1) where number(tail, index, 4) == 0x0605_4B50 {
      found = index
      break
    }
    guard let found else {
      throw HealthError(.damaged, place: "at byte \(file.size)", "The end of the zip is missing.")
    }
    var count = number(tail, found + 10, 2)
    var length = number(tail, found + 12, 4)
    var start = number(tail, found + 16, 4)
    let end = file.size - Int64(tail.count - found)
    if count == 0xFFFF || length == 0xFFFF_FFFF || start == 0xFFFF_FFFF,
      let locator = try file.bytes(at: end - 20, count: 20), number(locator, 0, 4) == 0x0706_4B50,
      let wide = try file.bytes(at: number(locator, 8, 8), count: 56), number(wide, 0, 4) == 0x0606_4B50
    {
      count = number(wide, 32, 8)
      length = number(wide, 40, 8)
      start = number(wide, 48, 8)
    }
    guard count >= 0, count <= Int64(ZipArchive.entryLimit), length >= 0, length <= Int64(ZipArchive.directoryLimit),
      let directory = try file.bytes(at: start, count: Int(length))
    else { throw HealthError(.damaged, place: "at byte \(end)", "The directory is not where the zip says.") }
    var at = 0
    for _ in 0..<count {
      guard at + 46 <= directory.count, number(directory, at, 4) == 0x0201_4B50 else {
        throw .damaged(at: start + Int64(at), "The directory is damaged.")
      }
      let nameLength = Int(number(directory, at + 28, 2))
      let extraLength = Int(number(directory, at + 30, 2))
      let next = at + 46 + nameLength + extraLength + Int(number(directory, at + 32, 2))
      guard next <= directory.count else { throw .damaged(at: start + Int64(at), "The directory is damaged.") }
      let name = String(decoding: directory[(at + 46)..<(at + 46 + nameLength)], as: UTF8.self)
      var sizes = [number(directory, at + 24, 4), number(directory, at + 20, 4), number(directory, at + 42, 4)]
      widen(&sizes, directory[(at + 46 + nameLength)..<(at + 46 + nameLength + extraLength)])
      if !name.hasSuffix("/"), sizes.allSatisfy({ $0 >= 0 && $0 < 1 << 50 }) {
        entries.append(
          Entry(
            name: name, method: Int(number(directory, at + 10, 2)), isEncrypted: directory[at + 8] & 1 == 1,
            checksum: UInt32(number(directory, at + 16, 4)), packedSize: sizes[1], size: sizes[0], offset: sizes[2]))
      }
      at = next
    }
  }

  /// Sizes that do not fit in 32 bits stand in an extra field, in this order.
  private func widen(_ sizes: inout [Int64], _ extra: ArraySlice<UInt8>) {
    let extra = Array(extra)
    var at = 0
    while at + 4 <= extra.count {
      let length = Int(number(extra, at + 2, 2))
      guard at + 4 + length <= extra.count else { return }
      if number(extra, at, 2) == 1 {
        var field = at + 4
        for index in sizes.indices where sizes[index] == 0xFFFF_FFFF && field + 8 <= at + 4 + length {
          sizes[index] = number(extra, field, 8)
          field += 8
        }
        return
      }
      at += 4 + length
    }
  }

  // MARK: Without it

  private func readHeads() throws(HealthError) {
    var at: Int64 = 0
    while entries.count < ZipArchive.entryLimit, let head = try file.bytes(at: at, count: 30),
      number(head, 0, 4) == 0x0403_4B50
    {
      try check()
      let nameLength = Int(number(head, 26, 2))
      guard let name = try file.bytes(at: at + 30, count: nameLength) else { return }
      let data = at + 30 + Int64(nameLength) + number(head, 28, 2)
      let isOpenEnded = head[6] & 8 != 0
      let packed = number(head, 18, 4)
      let entry = Entry(
        name: String(decoding: name, as: UTF8.self), method: Int(number(head, 8, 2)), isEncrypted: head[6] & 1 == 1,
        checksum: isOpenEnded ? nil : UInt32(number(head, 14, 4)),
        packedSize: isOpenEnded || packed == 0xFFFF_FFFF ? max(0, file.size - data) : packed,
        size: isOpenEnded || packed == 0xFFFF_FFFF ? nil : number(head, 22, 4), offset: at)
      if !entry.name.hasSuffix("/") { entries.append(entry) }
      guard entry.size == nil else {
        at = data + packed
        continue
      }
      guard entry.method == 8, let end = try endOfStream(entry, data) else { return }
      at = end
    }
  }

  /// Where the next head begins after a file whose length stands behind it: it is unpacked to see.
  private func endOfStream(_ entry: Entry, _ data: Int64) throws(HealthError) -> Int64? {
    let packed = BufferedInput(FileInput(file, data..<file.size), offset: data, check: check)
    do throws(HealthError) {
      let input = try InflateInput(packed, size: nil, expected: nil)
      var chunk = [UInt8](repeating: 0, count: 65_536)
      while true {
        let result = chunk.withUnsafeMutableBytes { buffer in
          Result { () throws(HealthError) in try input.read(into: buffer) }
        }
        if try result.get() == 0 { break }
      }
    } catch {
      if error.code == .cancelled { throw error }
      return nil
    }
    // The descriptor: perhaps a signature, the sum, and two sizes of 4 or 8 bytes.
    guard let after = try file.bytes(at: packed.position, count: Int(min(28, file.size - packed.position))) else {
      return nil
    }
    for skip in [16, 12, 24, 20] where skip + 4 <= after.count && number(after, skip, 4) == 0x0403_4B50 {
      return packed.position + Int64(skip)
    }
    return nil
  }

  // MARK: A file in it

  /// The bytes of a file in it.
  func open(_ entry: Entry) throws(HealthError) -> any ByteInput {
    if entry.isEncrypted {
      throw HealthError(.unreadable, "It is encrypted.", remedy: "Export it again without a password.")
    }
    guard let head = try file.bytes(at: entry.offset, count: 30), number(head, 0, 4) == 0x0403_4B50 else {
      throw .damaged(at: entry.offset, "A file is not where the zip says.")
    }
    let data = entry.offset + 30 + number(head, 26, 2) + number(head, 28, 2)
    let end = min(file.size, data + entry.packedSize)
    guard data <= end else { throw .damaged(at: data, "A file lies beyond the end of the zip.") }
    switch entry.method {
    case 0: return FileInput(file, data..<end)
    case 8:
      return try InflateInput(
        BufferedInput(FileInput(file, data..<end), offset: data, check: check), size: entry.size,
        expected: entry.checksum)
    default: throw HealthError(.unreadable, "It is packed in a way (\(entry.method)) that is not known here.")
    }
  }

  /// Little-endian, up to 8 bytes.
  private func number(_ bytes: [UInt8], _ at: Int, _ count: Int) -> Int64 {
    var value: UInt64 = 0
    for index in (0..<count).reversed() { value = value << 8 | UInt64(bytes[at + index]) }
    return Int64(truncatingIfNeeded: value)
  }
}
