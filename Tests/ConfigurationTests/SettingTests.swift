import System
import Testing

@testable import Configuration

/// What a person is told about a mistake, and that the sample file is the declarations.
@Suite struct SettingTests {
  private func problems(_ text: String) -> [String] {
    LayeredSettings(text: Array(text.utf8), named: "config.toml").problems.map { "\($0.severity) \($0)" }
  }

  @Test(
    "an unknown name is a warning that names the nearest one",
    arguments: [
      ("[nod]\n", "warning config.toml:1:2: There is no section [nod]. Did you mean [node]?"),
      (
        "[node]\ndisplay-name = \"x\"\n",
        "warning config.toml:2:1: There is no setting node.display-name. Did you mean display_name?"
      ),
      (
        "[node]\n  dispaly_name = \"x\"\n",
        "warning config.toml:2:3: There is no setting node.dispaly_name. Did you mean display_name?"
      ),
      (
        "[node]\nlevel = \"info\"\n", "warning config.toml:2:1: There is no setting node.level. It belongs below [log]."
      ),
      ("level = \"info\"\n", "warning config.toml:1:1: There is no setting level. Write it below [log]."),
      ("[zzzzzz]\n", "warning config.toml:1:2: There is no section [zzzzzz]."),
    ])
  func unknown(text: String, expected: String) { #expect(problems(text) == [expected]) }

  @Test(
    "a wrong value is an error that says what may stand there",
    arguments: [
      (
        "[log]\nlevel = \"loud\"\n",
        #"error config.toml:2:1: log.level must be one of "debug", "info", "warning", "error", not "loud"."#
      ),
      (
        "[log]\n\n   level = 3\n",
        #"error config.toml:3:4: log.level must be one of "debug", "info", "warning", "error", not 3."#
      ),
      (
        "[node]\ndisplay_name = \"\"\n",
        #"error config.toml:2:1: node.display_name must be a string of 1 to 64 characters, without control characters, not ""."#
      ),
      (
        "[signs]\nuse = \"command\"\n", #"error config.toml:2: signs.use is "command", and signs.command is not set."#
      ),
      ("log = 1\n", "error config.toml:1:1: [log] is a table, not a whole number."),
      (
        "[camera.source]\ncommand = [\"cam\"]\n",
        "error config.toml:2:1: [camera.source.NAME] is a table with a name of your own."
      ),
      (
        "[camera.source.\"a b\"]\ncommand = [\"cam\"]\n",
        "error config.toml:1:16: The name of [camera.source.a b] must be 1 to 40 letters, digits, hyphens and underscores."
      ),
      (
        "[camera.source.garden]\nrate = 1000\n",
        "error config.toml:2:1: camera.source.garden.rate must be a number, 0.1 to 120.0 frames a second, not 1000."
      ),
      ("[log\n", "error config.toml:1:5: This is no TOML: Error while parsing table header: expected ']', saw '\\n'."),
    ])
  func wrong(text: String, expected: String) { #expect(problems(text) == [expected]) }

  @Test(
    "a header line that would break the request or leak is refused, and its value is not repeated",
    arguments: [
      "no colon", ": x", "Bad Name: x", "Host: x", "Sec-WebSocket-Key: x", "X: a\\nY: b", "Origin: x",
    ])
  func headers(line: String) {
    let found = problems("[gateway]\nheaders = [\"X-Good: secret-1\", \"\(line)\"]\n")
    #expect(found.count == 1)
    #expect(found.first?.hasPrefix("error config.toml:2:1: gateway.headers holds an entry that ") == true)
    #expect(found.first?.contains("secret-1") == false)
  }

  @Test("a setting that is wrong leaves the default in place, the others of its file hold")
  func partial() {
    let loaded = LayeredSettings(
      text: Array("[log]\nlevel = 1\n[node]\ndisplay_name = \"x\"\n".utf8), named: "config.toml")
    #expect(loaded.settings.log.levelOrDefault == .info)
    #expect(loaded.settings.node.displayName == "x")
  }

  @Test("tables that a person names are kept apart, shown under their names, and merged over files")
  func named() {
    let layers = LayeredSettings(
      text: Array(
        """
        [camera.source.pi]
        command = ["rpicam-still"]
        [camera.source.street]
        file = "street.mjpeg"
        rate = 5
        """.utf8), named: "config.toml")
    #expect(layers.problems == [])
    #expect(layers.settings.cameraSources.names == ["pi", "street"])
    #expect(layers.settings.cameraSources["pi"].commandOrDefault == ["rpicam-still"])
    #expect(layers.settings.cameraSources["street"].rateOrDefault == 5)
    #expect(layers.origins["camera.source.street.file"]?.line == 4)
    let shown = layers.settings.values.first { $0.setting.key == "camera.source.street.file" }
    #expect(shown?.value == .text("street.mjpeg"))
  }

  @Test("names are unique, and every default and example is itself allowed")
  func declarations() {
    let declared = Settings.sections.flatMap(\.settings)
    #expect(Set(declared.map(\.key)).count == declared.count)
    for setting in declared {
      #expect(!setting.help.isEmpty && !setting.domain.isEmpty)
      guard let value = setting.example ?? setting.value(Settings()) else { continue }
      #expect(problems("[\(setting.section)]\n\(setting.name) = \(value)\n") == [], "\(setting.key) = \(value)")
    }
  }

  @Test("the sample file in the repository is the one the declarations make")
  func sample() throws {
    let file = #filePath.split(separator: "/").dropLast(3).reduce("") { $0 + "/" + $1 } + "/config/talknode.toml"
    let text = String(decoding: try Files.read(file), as: UTF8.self)
    #expect(text == Settings.sample, "write it anew: talknode config sample > config/talknode.toml")
  }

  @Test("the sample with every line switched on is read without a problem")
  func sampleIsValid() {
    let text = Settings.sample.split(separator: "\n", omittingEmptySubsequences: false)
      .map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? $0.dropFirst() : $0 }.joined(separator: "\n")
    let loaded = LayeredSettings(text: Array(text.utf8), named: "sample")
    #expect(loaded.problems == [])
    #expect(loaded.origins.count == Settings.sections.flatMap(\.settings).count)
  }

  @Test(
    "values are printed as TOML reads them",
    arguments: ["plain", "qu\"ote", "back\\slash", "tab\tline\nend", "\u{1}\u{7F}", "Küche 🎤"])
  func printing(text: String) throws {
    let members = try TOML.document(
      Array("a = \(SettingValue.text(text))\nb = \(SettingValue.list([text, text]))".utf8))
    #expect(members[0].value == .string(text))
    guard case .array(let nodes) = members[1].value else {
      Issue.record("no list")
      return
    }
    #expect(nodes.map(\.value) == [.string(text), .string(text)])
  }
}
