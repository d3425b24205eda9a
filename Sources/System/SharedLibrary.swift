import Glibc

/// A shared library that is opened when it is first needed, so that the program starts, and stays small, without it.
///
/// Linking every optional library costs about 30 ms and 13 MB before `main`. A library that is not there is an absent
/// capability, not a program that does not start.
public struct SharedLibrary: Sendable {
  /// Why a library can't be used.
  public struct Absence: Error, Sendable, Equatable {
    /// The file name that was asked for first, for example `libpulse.so.0`.
    public let library: String
    /// The dynamic linker's words, or the function that an old version lacks.
    public let reason: String

    public init(library: String, reason: String) {
      self.library = library
      self.reason = reason
    }
  }

  // nonisolated(unsafe): dlopen's handle is only ever passed to dlsym, which any thread may call.
  /// The handle for dlsym(3). It is never closed: C libraries leave threads and atexit handlers behind.
  public nonisolated(unsafe) let handle: UnsafeMutableRawPointer

  /// Opens the first of `names` that is there. A name is a soname (`libpulse.so.0`), never one that only -dev packages have.
  public init(_ names: String...) throws(Absence) {
    for name in names {
      if let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) {
        self.handle = handle
        return
      }
    }
    let reason = dlerror().map { String(cString: $0) } ?? "not found"
    throw Absence(library: names.first ?? "", reason: reason)
  }
}
