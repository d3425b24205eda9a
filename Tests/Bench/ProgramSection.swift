import Glibc
import System

/// The executable itself: its size, what it loads, how fast it begins.
extension Section {
  static let program = Section(name: "program") { options in
    var facts = stat()
    guard stat(options.program, &facts) == 0 else { throw BenchError("no file \(options.program)") }
    let libraries = try neededLibraries(of: options.program)
    // With the runtime inside, none of these is loaded; ICU would come with the whole of Foundation.
    let foreign = libraries.filter { $0.hasPrefix("libswift") || $0.contains("Foundation") || $0.contains("icu") }
    var figures = [
      Figure(
        "size", unit: "MB", value: Double(facts.st_size) / 1e6, target: .atMost(20),
        note: foreign.isEmpty
          ? "Swift runtime inside; loads " + libraries.joined(separator: " ")
          : "the runtime is NOT inside: " + foreign.joined(separator: " "))
    ]

    var version = Samples()
    var nothing = Samples()
    _ = try Child.milliseconds(options.program, ["version"])
    for _ in 0..<options.times(40) {
      version.add(try Child.milliseconds(options.program, ["version"]))
      nothing.add(try Child.milliseconds("true", []))
    }
    figures.append(
      Figure("`version`, start to end", unit: "ms", value: version.median, comparison: ("true(1)", nothing.median)))
    return figures
  }

  /// The shared libraries an ELF file names, by readelf; none without it.
  private static func neededLibraries(of program: String) throws -> [String] {
    let child = try Child("readelf", ["-d", program], environment: ["LC_ALL": "C"], readsOutput: true)
    var libraries: [String] = []
    while let line = child.readLine() {
      if line.contains("(NEEDED)"), let start = line.lastIndex(of: "["), let end = line.lastIndex(of: "]") {
        libraries.append(String(line[line.index(after: start)..<end]))
      }
    }
    child.wait()
    return libraries
  }
}
