import CPulse
import System

/// libpulse's functions.
// @unchecked Sendable: the table is filled once and only read after that.
final class PulseLibrary: @unchecked Sendable {
  let table: cpulse

  static let shared: Result<PulseLibrary, AudioError> = Result { () throws(AudioError) in try PulseLibrary() }

  private init() throws(AudioError) {
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libpulse.so.0")
      var table = cpulse()
      if let missing = cpulse_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libpulse.so.0", reason: "it has no \(String(cString: missing))")
      }
      self.table = table
    } catch {
      throw AudioError(
        .libraryMissing, "Sound servers can't be reached: \(error.library): \(error.reason).",
        remedy: "sudo apt install libpulse0")
    }
  }

  func message(_ code: Int32) -> String { table.pa_strerror(code).map { String(cString: $0) } ?? "error \(code)" }
}
