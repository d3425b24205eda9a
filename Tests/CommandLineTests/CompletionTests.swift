import Configuration
import System
import TestSupport
import Testing

@testable import talknode

/// The completions and the manual, which are made from the table, in the programs that read them.
@Suite struct CompletionTests {
  private func run(_ words: [String], input: String = "") async throws -> Bed.Ending {
    let loop = EventLoop(name: "test")
    let folder = TemporaryFolder()
    defer { loop.stop() }
    let environment = ["PATH": "/usr/bin:/bin", "HOME": folder.path, "LC_ALL": "C.UTF-8"]
    return try await Bed.ending(
      of: try await Subprocess.start(.init(words[0], Array(words.dropFirst()), environment: environment), loop: loop),
      input: input)
  }

  private func script(_ shell: Completions.Shell) -> String { Completions(verbs: Table.verbs).script(for: shell) }

  @Test("every command and every option is named in each shell's script, and in the manual")
  func complete() {
    let manual = Manual(verbs: Table.verbs, sections: Settings.sections).page
    for verb in Table.verbs {
      for shell in Completions.Shell.allCases {
        let text = script(shell)
        for word in verb.path { #expect(text.contains(word), "\(shell) \(verb.name)") }
        for option in verb.allOptions {
          #expect(text.contains((shell == .fish ? "-l " : "--") + option.name), "\(shell) \(verb.name) \(option.name)")
        }
      }
      #expect(manual.contains(".SS " + Manual.escaped(verb.usage) + "\n"), "\(verb.name)")
    }
    for setting in Settings.sections.flatMap(\.settings) {
      #expect(manual.contains(".B \(Manual.escaped(setting.name))\n"), "\(setting.key)")
    }
  }

  /// What bash offers after `words`, of which the last is being typed.
  private func bash(_ words: [String]) async throws -> [String] {
    let driver = """
      COMP_WORDS=(\(words.map { "'\($0)'" }.joined(separator: " ")))
      COMP_CWORD=\(words.count - 1)
      _talknode
      printf '%s\\n' "${COMPREPLY[@]}"
      """
    let ending = try await run(["bash", "--norc", "-eu"], input: script(.bash) + driver + "\n")
    #expect(ending.exit == .code(0) && ending.errors == "", "\(ending.errors)")
    return ending.output.split(separator: "\n").map(String.init)
  }

  @Test("bash offers every command, every second word, and every option of each")
  func inBash() async throws {
    #expect(Set(try await bash(["talknode", ""])) == Set(Table.verbs.map { $0.path[0] }))
    #expect(try await bash(["talknode", "gateways", "us"]) == ["use"])
    #expect(try await bash(["talknode", "ptt", "bind", "hy"]) == ["hyprland"])
    #expect(Set(try await bash(["talknode", "completions", ""])).isSuperset(of: ["bash", "zsh", "fish"]))
    #expect(try await bash(["talknode", "invoke", "--timeout", ""]) == [])
    for verb in Table.verbs {
      let offered = Set(try await bash(["talknode"] + verb.path + ["--"]))
      #expect(offered == Set(verb.allOptions.map { "--\($0.name)" }), "\(verb.name)")
    }
  }

  @Test("fish offers them with what they do")
  func inFish() async throws {
    func fish(_ line: String) async throws -> [String: String] {
      let ending = try await run(
        ["fish", "--no-config", "-c", "source -; complete -C '\(line)'"], input: script(.fish))
      #expect(ending.exit == .code(0) && ending.errors == "", "\(ending.errors)")
      let rows = ending.output.split(separator: "\n").map { $0.split(separator: "\t").map(String.init) }
      return Dictionary(rows.map { ($0[0], $0.count > 1 ? $0[1] : "") }) { first, _ in first }
    }
    let first = try await fish("talknode ")
    #expect(Set(first.keys) == Set(Table.verbs.map { $0.path[0] }))
    #expect(first["pair"] == "introduce this machine to a gateway, and wait for its approvals")
    let second = try await fish("talknode ptt ")
    #expect(Set(second.keys) == Set(Table.verbs.filter { $0.path[0] == "ptt" }.map { $0.path[1] }))
    for verb in Table.verbs {
      let offered = try await fish("talknode \(verb.name) --")
      #expect(Set(offered.keys) == Set(verb.allOptions.map { "--\($0.name)" }), "\(verb.name)")
    }
  }

  @Test("zsh takes its script, and its functions offer the commands and options")
  func inZsh() async throws {
    // zsh's own completion needs a terminal: these stand for the two functions of it that ours calls.
    let driver = """
      compdef() { : }
      _describe() { print -rl -- "${list[@]}" }
      _arguments() { print -rl -- "$@" }
      """
    func zsh(_ words: [String]) async throws -> String {
      let call = """
        words=(\(words.map { "'\($0)'" }.joined(separator: " ")))
        CURRENT=\(words.count)
        _talknode
        """
      let ending = try await run(
        ["zsh", "-f", "-e"], input: [driver, script(.zsh), call].joined(separator: "\n") + "\n")
      #expect(ending.exit == .code(0) && ending.errors == "", "\(ending.errors)")
      return ending.output
    }
    let first = try await zsh(["talknode", ""]).split(separator: "\n").map { $0.prefix { $0 != ":" } }
    #expect(Set(first.map(String.init)) == Set(Table.verbs.map { $0.path[0] }))
    let second = try await zsh(["talknode", "ptt", ""])
    for verb in Table.verbs where verb.path[0] == "ptt" {
      #expect(second.contains("\(verb.path[1]):\(verb.summary)"), "\(verb.name)")
    }
    for verb in Table.verbs {
      let offered = try await zsh(["talknode"] + verb.path + ["--"])
      for option in verb.allOptions { #expect(offered.contains("--\(option.name)["), "\(verb.name) \(option.name)") }
    }
  }

  @Test("the manual is one that man shows without a complaint, with every command readable in it")
  func manual() async throws {
    let page = Manual(verbs: Table.verbs, sections: Settings.sections).page
    let shown = try await run(["groff", "-man", "-Tutf8", "-P-cbou", "-ww", "-rLL=200n"], input: page)
    #expect(shown.exit == .code(0))
    #expect(shown.errors == "")
    let words = shown.output.split { $0.isWhitespace }.joined(separator: " ")
    for verb in Table.verbs { #expect(words.contains(verb.usage), "\(verb.name)") }
    #expect(words.contains("SETTINGS") && words.contains("[talk.shortcut]"))
  }

  @Test("a shell that is not known is a wrong command line")
  func unknown() async throws {
    let ending = try await run([Program.path, "completions", "tcsh"])
    #expect(ending.exit == .code(64) && ending.errors.contains("talknode completions bash"))
    #expect(try await run([Program.path, "completions", "zsh"]).output == script(.zsh))
  }
}
