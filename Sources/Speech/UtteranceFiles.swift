import Audio
import Glibc
import System

/// The sound files that helper programs read: 0600, in a folder of their own (0700), removed after use.
///
/// Several processes may be told the same folder, a daemon and a `doctor` beside it. Each writes in one of its own below it, made at the
/// first write and held by flock: what nobody holds was left by a crash and is removed, what somebody holds is not touched.
final class UtteranceFiles: Sendable {
  private let folder: String
  private let own = Lock<(path: String, descriptor: Int32)?>(nil)

  private static let tries = 8

  init(folder: String) {
    self.folder = folder + "/utterances"
    sweep()
  }

  deinit {
    own.withLock { own in
      guard let (path, descriptor) = own else { return }
      rmdir(path)
      close(descriptor)
    }
  }

  /// Removes what processes that are no more have left.
  private func sweep() {
    for name in Files.list(folder) {
      let path = folder + "/" + name
      guard let descriptor = Files.held(path, isFolder: true) else { continue }
      try? Files.removeTree(path)
      close(descriptor)
    }
  }

  private func ownFolder() throws(SystemError) -> String {
    try own.withLock { own in
      Result { () throws(SystemError) in
        if own == nil { own = try makeOwnFolder() }
        return own!.path
      }
    }.get()
  }

  private func makeOwnFolder() throws(SystemError) -> (path: String, descriptor: Int32) {
    try Files.makeFolder(folder, mode: 0o700)
    for _ in 0..<Self.tries {
      let path = try Files.makeTemporaryFolder("\(getpid())", in: folder)
      // Another's sweep may come between the making and the holding.
      guard let descriptor = Files.held(path, isFolder: true) else { continue }
      if Files.exists(path) { return (path, descriptor) }
      close(descriptor)
    }
    throw SystemError("make a folder in \(folder)", code: EAGAIN)
  }

  /// Off the caller's executor: a folder on a slow disk may be named.
  func write(_ sound: PCM) async throws(SpeechError) -> String { try await writeElsewhere(sound).get() }

  /// A result and no throw: after a typed throw out of a `@concurrent` function the caller's caller goes on off its actor (Swift 6.3).
  @concurrent
  private func writeElsewhere(_ sound: PCM) async -> Result<String, SpeechError> {
    var random = SystemRandomNumberGenerator()
    do throws(SystemError) {
      let path = try ownFolder() + "/" + String(random.next(), radix: 36) + ".wav"
      try Files.writeAtomically(AudioFile.wav(sound), to: path, mode: 0o600)
      return .success(path)
    } catch {
      return .failure(SpeechError(.failed, "What was heard could not be written to a file: \(error)."))
    }
  }

  @concurrent
  func remove(_ path: String) async { try? Files.removeTree(path) }
}
