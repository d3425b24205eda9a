import Glibc

/// The programs that can be run here.
public enum Programs {
  /// Where `program` would be run from: a path as it is, a name searched for in PATH as execvp(3) does. Nil when nothing that may be run
  /// is there.
  public static func path(of program: String) -> String? {
    if program.contains("/") { return access(program, X_OK) == 0 ? program : nil }
    let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
    return path.split(separator: ":").map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
  }
}

extension Subprocess.Exit {
  /// `exit code 3` or `signal 9`
  public var inWords: String {
    switch self {
    case .code(let code): "exit code \(code)"
    case .signal(let signal): "signal \(signal)"
    }
  }
}
