import CSystemd

/// Whether libsystemd is here, found out when the first connection to a bus is asked for.
enum SystemdLibrary {
  /// Throws `NoServer` with the reason and the remedy when the library is not there or too old.
  static func require() throws(DBusError) { _ = try loaded.get() }

  fileprivate static let loaded: Result<csystemd, DBusError> = Result { () throws(DBusError) in
    do throws(SharedLibrary.Absence) {
      let library = try SharedLibrary("libsystemd.so.0")
      var table = csystemd()
      if let missing = csystemd_load(&table, library.handle) {
        throw SharedLibrary.Absence(library: "libsystemd.so.0", reason: "it has no \(String(cString: missing))")
      }
      return table
    } catch {
      throw DBusError(
        "org.freedesktop.DBus.Error.NoServer",
        "\(DBusError.opening): \(error.library): \(error.reason). Install it: sudo apt install libsystemd0")
    }
  }
}

/// libsystemd's functions. Only what a connection has made calls them, and there is none without the library.
let systemd: csystemd = (try? SystemdLibrary.loaded.get()) ?? csystemd()
