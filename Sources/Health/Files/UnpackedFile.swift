import Glibc
import System

/// A file out of an archive, on disk for a C library that wants a path: it holds what a person recorded, so that nothing of it may stay behind,
/// however the process ends.
///
/// It has no name while it is written (`O_TMPFILE`), and one for the moment in which it is opened. A file system that knows no files without
/// names gives it one from the beginning. Whoever works with it holds a lock on it that ends with the process: an unlocked one was left behind
/// and may be removed by anyone.
final class UnpackedFile {
  let descriptor: Int32
  private let folder: String
  private var path: String?

  private static let prefix = "talknode-health-"

  /// - Parameter isNamed: for tests: as on a file system that knows no files without names.
  init(in folder: String, isNamed: Bool = false) throws(HealthError) {
    self.folder = folder
    do throws(SystemError) { try Files.makeFolder(folder) } catch {
      throw HealthError(.unreadable, "There is no place to unpack it in \(folder): \(error.reason).")
    }
    let nameless = isNamed ? -1 : open(folder, UnpackedFile.withoutName | O_RDWR | O_CLOEXEC, 0o600)
    if nameless >= 0 {
      descriptor = nameless
      _ = flock(descriptor, LOCK_EX)
      return
    }
    while true {
      let path = UnpackedFile.anyName(in: folder)
      let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      if descriptor < 0 {
        if errno == EEXIST { continue }
        throw HealthError(
          .unreadable, "There is no place to unpack it in \(folder): \(String(cString: strerror(errno))).")
      }
      _ = flock(descriptor, LOCK_EX)
      // Before it was locked somebody may have taken it for one that was left.
      if FileIdentity(descriptor: descriptor) == FileIdentity(path: path) {
        self.descriptor = descriptor
        self.path = path
        return
      }
      close(descriptor)
    }
  }

  private static func anyName(in folder: String) -> String {
    folder + "/" + prefix + hexadecimal((0..<8).map { _ in UInt8.random(in: 0...255) })
  }

  deinit {
    if let path { unlink(path) }
    close(descriptor)
  }

  /// The path at which it can be opened; whoever has done so may remove it.
  func named() throws(HealthError) -> String {
    if let path { return path }
    for _ in 0..<100 {
      let path = UnpackedFile.anyName(in: folder)
      if linkat(AT_FDCWD, "/proc/self/fd/\(descriptor)", AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0 {
        self.path = path
        return path
      }
      if errno != EEXIST { break }
    }
    throw HealthError(.unreadable, "It can't be unpacked in \(folder): \(String(cString: strerror(errno))).")
  }

  /// `O_TMPFILE`, a macro that Swift does not import.
  private static let withoutName: Int32 = 0o20_000_000 | O_DIRECTORY

  /// Removes those of processes that have ended.
  static func removeLeftOnes(in folder: String) {
    for name in Files.list(folder) where name.hasPrefix(prefix) {
      let path = folder + "/" + name
      guard let descriptor = Files.held(path) else { continue }
      unlink(path)
      close(descriptor)
    }
  }
}

extension HealthFiles {
  /// Removes what processes that have ended left in a folder that is for unpacking.
  public static func removeUnpacked(in folder: String) { UnpackedFile.removeLeftOnes(in: folder) }
}
