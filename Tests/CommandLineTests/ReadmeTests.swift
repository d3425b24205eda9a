import Configuration
import NodeKit
import System
import Testing

@testable import talknode

/// The README's tables are those of the program.
@Suite struct ReadmeTests {
  @Test("README.md lists every command of the program")
  func verbs() throws {
    let rows = Table.verbs.map { "| `\($0.usage.split(separator: " [").first!)` | \($0.summary) |\n" }
    try expect(section: "verbs", "| command | |\n|---|---|\n" + rows.joined())
  }

  @Test("README.md lists every command for agents, with its gates")
  func commands() throws {
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let instance = Instance(state: "/nonexistent", environment: Environment([:]))
    let modules = Modules.all(Settings(), Services(instance, environment: Environment([:]), loop: loop))
    let rows = modules.flatMap(\.commands).map { command in
      let allow =
        switch command.gatewayDefault {
        case .allowed: "no"
        case .needsAllow: "yes"
        case .dangerous: "yes, named dangerous"
        }
      let consent = command.consent.map { "`\($0.name)`, " + ($0.isOnByDefault ? "on" : "off") } ?? "none"
      return "| `\(command.name)` | \(command.summary) | \(allow) | \(consent) |\n"
    }
    try expect(section: "commands", "| command | what it does | allow entry | switch |\n|---|---|---|---|\n" + rows.joined())
  }

  private func expect(section: String, _ text: String) throws {
    let file = #filePath.split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/README.md"
    let lines = String(decoding: try Files.read(file), as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
    let begin = try #require(lines.firstIndex { $0.hasPrefix("<!-- \(section):") })
    let end = try #require(lines.firstIndex { $0 == "<!-- /\(section) -->" })
    let found = lines[(begin + 1)..<end].map { $0 + "\n" }.joined()
    #expect(found == text, "between the marks of \(section) belongs:\n\(text)")
  }
}
