import GatewayProtocol
/// talknode-bench: what TalkNode costs, in figures, beside their targets. `make bench` builds and runs it; it is not shipped.
///
/// A section measures one room and has a file of its own: a `Section` in `Section.all`. Figures are medians unless their name says otherwise.
/// A missed target is reported, it does not fail.
import Glibc
import System

@main struct Bench {
  static func main() async {
    var words = CommandLine.arguments.dropFirst()
    // The other end of a measurement, in a process of its own.
    if let part = Part(rawValue: words.first ?? "") { return await part.play(Array(words.dropFirst())) }

    var options = Options()
    var only: [String] = []
    var asJSON = false
    while let word = words.popFirst() {
      switch word {
      case "--program": options.program = words.popFirst() ?? ""
      case "--json": asJSON = true
      case "--quick": options.isQuick = true
      case "--only": only += (words.popFirst() ?? "").split(separator: ",").map(String.init)
      default: return usage(word)
      }
    }
    guard access(options.program, X_OK) == 0 else { return usage("--program \(options.program)") }
    signal(SIGPIPE, SIG_IGN)

    var figures: [(section: String, figure: Figure)] = []
    for section in Section.all where only.isEmpty || only.contains(section.name) {
      note("measuring \(section.name)…")
      do {
        for figure in try await section.measure(options) { figures.append((section.name, figure)) }
      } catch {
        figures.append((section.name, Figure(section.name, unit: "", problem: "\(error)")))
      }
    }
    print(asJSON ? Report.json(figures, options).text : Report.table(figures))
  }

  private static func usage(_ word: String) {
    note(
      """
      talknode-bench: can't use '\(word)'.
      usage: talknode-bench --program PATH [--quick] [--json] [--only SECTION,…]
      sections: \(Section.all.map(\.name).joined(separator: " "))
      """)
    exit(64)
  }

  /// A line to the person who waits.
  static func note(_ line: String) { try? Files.write(Array((line + "\n").utf8), to: STDERR_FILENO, named: "stderr") }
}

/// What is measured, and how thoroughly.
struct Options: Sendable {
  /// The release build of `talknode`.
  var program = ".build/release/talknode"
  /// Fewer repetitions and shorter waits: to see that it runs.
  var isQuick = false

  func times(_ count: Int) -> Int { isQuick ? max(3, count / 10) : count }
}

/// One room's measurements.
struct Section: Sendable {
  let name: String
  let measure: @Sendable (Options) async throws -> [Figure]

  /// In the guest there are cameras, and nothing else is measured.
  static let all: [Section] =
    getenv("TALKNODE_GUEST") == nil
    ? [program, daemon, link, talk, voice, location, camera, health] : [guestCamera]
}

/// Why something could not be measured.
struct BenchError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
