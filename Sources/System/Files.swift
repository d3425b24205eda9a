import CLinux
import Glibc
import Synchronization

/// Reading and writing whole files.
public enum Files {
  private static let writes = Atomic<UInt64>(0)

  /// All bytes of a file of at most `limit` bytes. Throws `SystemError` (EFBIG for a larger one).
  public static func read(_ path: String, limit: Int = 16 << 20) throws(SystemError) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    if descriptor < 0 { throw SystemError("open \(path)", code: errno) }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = Glibc.read(descriptor, &chunk, chunk.count)
      if count == 0 { return bytes }
      if count < 0 {
        if errno == EINTR { continue }
        throw SystemError("read \(path)", code: errno)
      }
      if bytes.count + count > limit { throw SystemError("read \(path)", code: EFBIG) }
      bytes.append(contentsOf: chunk[0..<count])
    }
  }

  /// A file's text, or nil when it can't be read or is no UTF-8. For the small files of /proc and /sys.
  public static func text(_ path: String, limit: Int = 1 << 20) -> String? {
    guard let bytes = try? read(path, limit: limit) else { return nil }
    return String(validating: bytes, as: UTF8.self)
  }

  /// Replaces `path` by `bytes` so that a crash at any moment leaves either the old file or the new one: a temporary file beside
  /// it, fsync, rename, fsync of the folder.
  public static func writeAtomically(_ bytes: [UInt8], to path: String, mode: mode_t = 0o600) throws(SystemError) {
    // Of this write alone: another thread may be replacing the same file.
    let temporary = path + ".new-\(getpid())-\(writes.wrappingAdd(1, ordering: .relaxed).newValue)"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode)
    if descriptor < 0 { throw SystemError("open \(temporary)", code: errno) }
    var failure: SystemError?
    do throws(SystemError) {
      try write(bytes, to: descriptor, named: temporary)
      if fchmod(descriptor, mode) != 0 { throw SystemError("chmod \(temporary)", code: errno) }
      if fsync(descriptor) != 0 { throw SystemError("fsync \(temporary)", code: errno) }
    } catch {
      failure = error
    }
    close(descriptor)
    if failure == nil && rename(temporary, path) != 0 { failure = SystemError("rename \(path)", code: errno) }
    if let failure {
      unlink(temporary)
      throw failure
    }
    syncFolder(of: path)
  }

  /// Writes all of `bytes`, also when the kernel takes them piece by piece.
  public static func write(_ bytes: [UInt8], to descriptor: Int32, named name: String) throws(SystemError) {
    var offset = 0
    while offset < bytes.count {
      let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + offset, $0.count - offset) }
      if count < 0 {
        if errno == EINTR { continue }
        throw SystemError("write \(name)", code: errno)
      }
      offset += count
    }
  }

  /// Makes a folder and its missing parents, each with `mode`. One that is there is left as it is.
  public static func makeFolder(_ path: String, mode: mode_t = 0o700) throws(SystemError) {
    if mkdir(path, mode) == 0 { return }
    if errno == EEXIST {
      if isFolder(path) { return }
      throw SystemError("mkdir \(path)", code: ENOTDIR)
    }
    guard errno == ENOENT, let slash = path.lastIndex(of: "/"), slash != path.startIndex else {
      throw SystemError("mkdir \(path)", code: errno)
    }
    try makeFolder(String(path[..<slash]), mode: mode)
    if mkdir(path, mode) != 0 && errno != EEXIST { throw SystemError("mkdir \(path)", code: errno) }
  }

  /// Makes a folder of a name that nobody has, for this user alone: `BASE/NAME-XXXXXX`. Whoever asks removes it.
  public static func makeTemporaryFolder(_ name: String, in base: String = "/tmp") throws(SystemError) -> String {
    var template = Array("\(base)/\(name)-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw SystemError("make a folder in \(base)", code: errno) }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Opens a file, or with `isFolder` a folder, and holds it by flock until the descriptor is closed; nil when another does, or it can't be
  /// opened. What a process holds while it works ends with the process: who can hold it then may remove it.
  public static func held(_ path: String, isFolder: Bool = false) -> Int32? {
    let descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (isFolder ? O_DIRECTORY : 0))
    if descriptor < 0 { return nil }
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
    close(descriptor)
    return nil
  }

  /// Moves a file that can't be understood out of the way and returns its new name, so that nothing is lost and the work can go
  /// on. Returns nil when it could not be moved.
  public static func setAside(_ file: String) -> String? {
    let name = "\(file).damaged-\(WallClock.iso8601(WallClock.milliseconds()))"
    return rename(file, name) == 0 ? name : nil
  }

  /// The absolute path without links; nil when nothing is there.
  public static func resolved(_ path: String) -> String? {
    guard let resolved = realpath(path, nil) else { return nil }
    defer { free(resolved) }
    return String(cString: resolved)
  }

  /// Whether something is at `path`.
  public static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

  /// Whether a folder is at `path`, or a link to one.
  public static func isFolder(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Whether it is a folder that belongs to this user.
  public static func isOwnFolder(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
  }

  /// The names in a folder, sorted, without `.` and `..`; none when it can't be read.
  public static func list(_ folder: String) -> [String] {
    guard let directory = opendir(folder) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if name != "." && name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  /// Removes a file or a folder with all in it. Something that is not there is no error. Links are removed, not followed.
  public static func removeTree(_ path: String) throws(SystemError) {
    var status = stat()
    if lstat(path, &status) != 0 {
      if errno == ENOENT { return }
      throw SystemError("stat \(path)", code: errno)
    }
    if status.st_mode & S_IFMT == S_IFDIR {
      for name in list(path) { try removeTree(path + "/" + name) }
      if rmdir(path) != 0 { throw SystemError("rmdir \(path)", code: errno) }
    } else if unlink(path) != 0 {
      throw SystemError("unlink \(path)", code: errno)
    }
  }

  /// Makes a rename or link in the folder of `path` outlast a power cut.
  public static func syncFolder(of path: String) {
    let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if descriptor < 0 { return }
    fsync(descriptor)
    close(descriptor)
  }
}
