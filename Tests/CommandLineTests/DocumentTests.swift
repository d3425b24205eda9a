import Configuration
import NodeKit
import System
import Testing

@testable import talknode

/// What the documents say of the program is what the program says of itself.
@Suite struct DocumentTests {
  private static let project = String(#filePath).split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 }

  private func text(_ name: String) throws -> String {
    try #require(Files.text(Self.project + "/" + name), "\(name) can't be read")
  }

  /// The lines between `<!-- name: … -->` and `<!-- /name -->`.
  private func block(_ name: String, of document: String) throws -> String {
    let lines = try text(document).split(separator: "\n", omittingEmptySubsequences: false)
    let start = try #require(lines.firstIndex { $0.hasPrefix("<!-- \(name):") })
    let end = try #require(lines.firstIndex { $0 == "<!-- /\(name) -->" })
    return lines[(start + 1)..<end].joined(separator: "\n")
  }

  @Test("the README's list of the program's commands is the program's own")
  func verbs() throws {
    let rows = Table.verbs.map { "| `\($0.usage.replacing("|", with: "\\|"))` | \($0.summary) |" }
    let expected = (["| command | does |", "|---|---|"] + rows).joined(separator: "\n")
    #expect(try block("verbs", of: "README.md") == expected, "put this into README.md:\n\(expected)")
  }

  @Test("the README's list of commands for agents, with their gates, is that of the registered modules")
  func commands() throws {
    let loop = EventLoop(name: "documents")
    defer { loop.stop() }
    let services = Services(
      Instance(state: "/nonexistent", environment: Environment([:])), settings: Settings(),
      environment: Environment([:]),
      loop: loop)
    let rows = Modules.all(Settings(), services).flatMap(\.commands).map { command in
      let entry =
        switch command.gatewayDefault {
        case .allowed: "not needed"
        case .needsAllow: "needed"
        case .dangerous: "needed, named dangerous"
        }
      let consent = command.consent.map { "`\($0.name)`, \($0.isOnByDefault ? "on" : "off")" } ?? "none"
      return "| `\(command.name)` | \(command.summary) | \(entry) | \(consent) |"
    }
    let expected = (["| command | does | allow entry | switch |", "|---|---|---|---|"] + rows).joined(separator: "\n")
    #expect(try block("commands", of: "README.md") == expected, "put this into README.md:\n\(expected)")
  }

  @Test("each recipe is settings that are understood wholly")
  func recipes() throws {
    let recipes = Files.list(Self.project + "/config/recipes").filter { $0.hasSuffix(".toml") }
    #expect(recipes.count >= 4)
    for recipe in recipes {
      let bytes = Array(try text("config/recipes/" + recipe).utf8)
      let layers = LayeredSettings(text: bytes, named: recipe)
      #expect(layers.problems == [], "\(recipe)")
      #expect(!layers.settings.differences(from: Settings()).isEmpty, "\(recipe) sets nothing")
    }
  }

  @Test("ARCHITECTURE.md has a row for every room in the package, in its order, and no other")
  func rooms() throws {
    func names(_ text: String, after mark: String, until end: Character) -> [String] {
      text.split(separator: "\n").compactMap { line in
        line.range(of: mark).map { String(line[$0.upperBound...].prefix { $0 != end }) }
      }
    }
    let package = try text("Package.swift")
    let rooms = names(package, after: "    room(\"", until: "\"")
    let rows = names(try block("rooms", of: "ARCHITECTURE.md"), after: "| `", until: "`")
    #expect(Set(rows) == Set(rooms + ["talknode", "talknode-encoder"]))
    #expect(rows.filter { rooms.contains($0) } == rooms)
  }
}

extension StringProtocol {
  fileprivate func range(of mark: String) -> Range<Index>? { firstRange(of: mark) }
}
