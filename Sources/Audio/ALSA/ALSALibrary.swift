import CALSA
import Glibc
import System

/// libasound's functions.
// @unchecked Sendable: the table is filled once and only read after that.
final class ALSALibrary: @unchecked Sendable {
  let table: calsa

  static let shared: Result<ALSALibrary, AudioError> = Result { () throws(AudioError) in try ALSALibrary() }

  private init() throws(AudioError) {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libasound.so.2")
      var table = calsa()
      if let missing = calsa_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libasound.so.2", reason: "it has no \(String(cString: missing))")
      }
      calsa_be_quiet(&table)
      self.table = table
    } catch {
      throw AudioError(
        .libraryMissing, "ALSA can't be used: \(error.library): \(error.reason).",
        remedy: "sudo apt install libasound2")
    }
  }

  func message(_ code: Int32) -> String { table.snd_strerror(code).map { String(cString: $0) } ?? "error \(code)" }

  /// What a refusal to open `device` means.
  func refusal(_ device: String, _ direction: AudioDevice.Direction, _ code: Int32) -> AudioError {
    let kind = direction.noun
    switch -code {
    case EBUSY, EAGAIN:
      let holder = ALSAHolder.find(device, direction)
      return AudioError(
        .deviceBusy, "The \(kind) \(device) is in use by \(holder?.description ?? "another program").",
        remedy: holder.map { "Close \($0.program) (kill \($0.process)), or use a sound server, which shares devices." }
          ?? "Close that program, or use a sound server, which shares devices.")
    case ENOENT, ENODEV, ENXIO:
      return AudioError(.deviceNotFound, "There is no \(kind) \(device).", remedy: "talknode audio list")
    case EACCES, EPERM:
      return AudioError(
        .notPermitted, "The \(kind) \(device) may not be opened by this user.",
        remedy: "sudo usermod -aG audio $USER (then log in again)")
    case ECONNREFUSED: return AudioError(.serverUnavailable, "The sound server behind \(device) does not answer.")
    default: return AudioError(.deviceRefused, "The \(kind) \(device) can't be opened: \(message(code)).")
    }
  }
}
