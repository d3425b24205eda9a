import Glibc
import System

/// A process that has a device node open.
struct DeviceHolder: Sendable, Equatable, CustomStringConvertible {
  let name: String
  let pid: Int32
  var description: String { "\(name) (pid \(pid))" }

  /// Who has `node` open, this program left out, at most three; none where other users' processes can't be looked at.
  static func of(_ node: String, proc: String = "/proc") -> [DeviceHolder] {
    guard let real = realpath(node, nil) else { return [] }
    let target = String(cString: real)
    free(real)
    var holders: [DeviceHolder] = []
    for entry in Files.list(proc) {
      guard let pid = Int32(entry), pid != getpid() else { continue }
      let folder = "\(proc)/\(entry)/fd"
      guard Files.list(folder).contains(where: { link("\(folder)/\($0)") == target }) else { continue }
      let name = Files.text("\(proc)/\(entry)/comm", limit: 256)?.trimmed ?? "a program"
      holders.append(DeviceHolder(name: name, pid: pid))
      if holders.count == 3 { break }
    }
    return holders
  }

  private static func link(_ path: String) -> String? {
    withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 1) { room in
      let count = readlink(path, room.baseAddress!.assumingMemoryBound(to: CChar.self), room.count)
      return count > 0 ? String(decoding: room[..<count], as: UTF8.self) : nil
    }
  }
}
