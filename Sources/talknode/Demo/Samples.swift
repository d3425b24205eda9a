import System

/// The bundled samples: beside the installed program, or in the folder it was built in.
enum Samples {
  /// The folder `samples/NAME`; nil when it is not there.
  static func folder(_ name: String) -> String? {
    guard let program = Files.resolved("/proc/self/exe") else { return nil }
    var folder = program[...]
    // …/bin/talknode and …/share/talknode, or .build/TRIPLE/debug/talknode below the package.
    for _ in 0..<5 {
      guard let slash = folder.lastIndex(of: "/") else { return nil }
      folder = folder[..<slash]
      for place in ["/samples/", "/share/talknode/samples/"] where Files.exists("\(folder)\(place)\(name)") {
        return "\(folder)\(place)\(name)"
      }
    }
    return nil
  }
}
