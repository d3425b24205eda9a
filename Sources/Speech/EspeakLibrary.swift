import CEspeak
import CLinux
import Glibc
import System

/// One instance of libespeak-ng. All of its state is global to the library, so one thread at a time may be in it.
///
/// The dynamic linker gives a process one instance. Whoever needs another (a second synthesiser, or the one that goes on after a
/// thread has hung in the first) gets a private copy: the same file under another inode, which the linker maps anew, with globals of
/// its own. (`dlmopen` would bring a second libc along.)
// @unchecked Sendable: the table is written once; only the thread of the one synthesiser that owns the instance calls into it.
final class EspeakLibrary: @unchecked Sendable {
  static let soname = "libespeak-ng.so.1"
  /// MFD_CLOEXEC of the kernel (memfd_create(2)), which glibc hides behind _GNU_SOURCE.
  private static let mfdCloseOnExec: UInt32 = 1

  let functions: talknode_espeak
  /// Whether this is a copy, and not the instance that the process as a whole has.
  let isPrivate: Bool
  private let handle: UnsafeMutableRawPointer
  /// Kept open as long as the copy is: the linker knows the copy by this descriptor's path, which must not name another file.
  private let descriptor: Int32

  private static let isSharedTaken = Lock(false)

  private init(handle: UnsafeMutableRawPointer, isPrivate: Bool, descriptor: Int32) throws(SpeechError) {
    var functions = talknode_espeak()
    if let symbol = talknode_espeak_bind(handle, &functions) {
      throw SpeechError(
        .missing, "\(EspeakLibrary.soname) is too old: it has no \(String(cString: symbol)).",
        remedy: "apt install libespeak-ng1")
    }
    self.functions = functions
    self.handle = handle
    self.isPrivate = isPrivate
    self.descriptor = descriptor
  }

  /// The process's own instance when no one has it, else a private copy.
  static func open() throws(SpeechError) -> EspeakLibrary {
    guard let handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL) else {
      throw SpeechError(.missing, "libespeak-ng is not installed.", remedy: "apt install libespeak-ng1")
    }
    let isFree = isSharedTaken.withLock { isTaken in
      defer { isTaken = true }
      return !isTaken
    }
    if !isFree { return try privateCopy(of: handle) }
    do throws(SpeechError) { return try EspeakLibrary(handle: handle, isPrivate: false, descriptor: -1) } catch {
      isSharedTaken.withLock { $0 = false }
      throw error
    }
  }

  /// Gives the instance back after its thread has left it for good. An instance in which a thread hangs is never given back.
  func close() {
    _ = functions.espeak_Terminate()
    if isPrivate {
      dlclose(handle)
      _ = Glibc.close(descriptor)
    } else {
      EspeakLibrary.isSharedTaken.withLock { $0 = false }
    }
  }

  private static func privateCopy(of handle: UnsafeMutableRawPointer) throws(SpeechError) -> EspeakLibrary {
    func failure(_ what: String) -> SpeechError {
      SpeechError(.failed, "A second instance of \(soname) could not be made: \(what).", remedy: "Restart talknode.")
    }
    var place = talknode_dl_info()
    guard let symbol = dlsym(handle, "espeak_Synth"), dladdr(symbol, &place) != 0, let file = place.file else {
      throw failure("its file is not known")
    }
    let descriptor = memfd_create(soname, mfdCloseOnExec)
    if descriptor < 0 { throw failure(String(cString: strerror(errno))) }
    do {
      try Files.write(try Files.read(String(cString: file)), to: descriptor, named: soname)
    } catch {
      _ = Glibc.close(descriptor)
      throw failure("\(error)")
    }
    guard let copy = dlopen("/proc/self/fd/\(descriptor)", RTLD_NOW | RTLD_LOCAL) else {
      let reason = dlerror().map { String(cString: $0) } ?? "it does not load"
      _ = Glibc.close(descriptor)
      throw failure(reason)
    }
    do throws(SpeechError) {
      return try EspeakLibrary(handle: copy, isPrivate: true, descriptor: descriptor)
    } catch {
      dlclose(copy)
      _ = Glibc.close(descriptor)
      throw error
    }
  }
}
