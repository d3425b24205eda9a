import Glibc
import System

/// What the process was told by its environment, looked at here and nowhere below.
struct Environment: Sendable {
  let variables: [String: String]

  init(_ variables: [String: String]) { self.variables = variables }

  /// The process's own.
  static var process: Environment {
    var variables: [String: String] = [:]
    var entry = environ
    while let text = entry.pointee {
      let pair = String(cString: text).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      if pair.count == 2 { variables[String(pair[0])] = String(pair[1]) }
      entry += 1
    }
    // Another user's, as after su(1), or gone: as good as none.
    if let folder = variables["XDG_RUNTIME_DIR"], !Files.isOwnFolder(folder) { variables["XDG_RUNTIME_DIR"] = nil }
    return Environment(variables)
  }

  subscript(_ name: String) -> String? {
    guard let value = variables[name], !value.isEmpty else { return nil }
    return value
  }

  /// An XDG base folder: only absolute values count (basedir specification).
  private func folder(_ variable: String, below home: String) -> String {
    if let value = self[variable], value.hasPrefix("/") { return value }
    return homeFolder + "/" + home
  }

  var homeFolder: String {
    if let home = self["HOME"], home.hasPrefix("/") { return home }
    guard let entry = getpwuid(getuid()), let home = entry.pointee.pw_dir else { return "/" }
    return String(cString: home)
  }

  /// `$XDG_CONFIG_HOME/talknode`
  var configurationFolder: String { folder("XDG_CONFIG_HOME", below: ".config") + "/talknode" }
  /// `$XDG_STATE_HOME/talknode`
  var stateFolder: String { folder("XDG_STATE_HOME", below: ".local/state") + "/talknode" }
  /// `$XDG_DATA_HOME/talknode`
  var dataFolder: String { folder("XDG_DATA_HOME", below: ".local/share") + "/talknode" }
  /// `$XDG_RUNTIME_DIR/talknode`; nil without one: root, ssh without a login session, CI.
  var runtimeFolder: String? {
    guard let value = self["XDG_RUNTIME_DIR"], value.hasPrefix("/") else { return nil }
    return value + "/talknode"
  }
}
