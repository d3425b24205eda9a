/// talknode: the program. Reads the command line and the environment, composes the rooms below, and speaks to people.
///
/// `Daemon.swift` is what `run` is made of; `Modules.swift` lists what this node can do; `Commands/` has a file for each thing the
/// program can be told; `CommandLine/` is the table they are read and explained by; `Control/` is how they reach the daemon.
import Glibc
import System

@main
struct Talknode {
  static func main() async {
    // Written in this order so that a request for help costs nothing but the table.
    Signals.surviveBrokenPipes()
    let terminal = Terminal(environment: Environment.process.variables)
    let status = await run(Array(CommandLine.arguments.dropFirst()), terminal)
    exit(status.code)
  }

  static func run(_ words: [String], _ terminal: Terminal) async -> ExitStatus {
    do throws(Failure) {
      switch try Parser(verbs: Table.verbs).parse(words) {
      case .help(let path):
        terminal.print(bytes: Array(Help(verbs: Table.verbs).text(about: path).utf8))
        return .ok
      case .run(let verb, let arguments):
        var terminal = terminal
        if arguments.has(.noColour) { terminal.isColoured = false }
        return try await verb.run(arguments, terminal)
      }
    } catch {
      // A program that asked for JSON gets its reason as JSON too.
      if words.contains("--json") { terminal.print(["error": error.json]) }
      terminal.show(error)
      return error.exit
    }
  }
}
