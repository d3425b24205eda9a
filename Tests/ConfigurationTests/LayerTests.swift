import System
import TestSupport
import Testing

@testable import Configuration

/// Which layer wins, and that each value says where it came from.
@Suite struct LayerTests {
  @Test("a later layer's setting replaces an earlier one's, and its origin is told")
  func layers() throws {
    let folder = TemporaryFolder()
    try folder.write("etc/talknode.toml", "[log]\nlevel = \"error\"\n[node]\ndisplay_name = \"everyone\"\n")
    try folder.write("etc/conf.d/20.toml", "[log]\nlevel = \"warning\"\n")
    try folder.write("etc/conf.d/10.toml", "[log]\nlevel = \"debug\"\n")
    try folder.write("user/config.toml", "\n\n[node]\ndisplay_name = \"mine\"\n")
    try folder.write("user/conf.d/note.txt", "this is not read")
    let loaded = LayeredSettings(
      from: ConfigurationSources(systemFolder: folder.path + "/etc", userFolder: folder.path + "/user"))
    #expect(loaded.problems == [])
    #expect(loaded.settings.log.levelOrDefault == .warning)
    #expect(loaded.settings.node.displayNameOrDefault == "mine")
    #expect(loaded.origins["log.level"]?.description == folder.path + "/etc/conf.d/20.toml:2")
    #expect(loaded.origins["node.display_name"]?.description == folder.path + "/user/config.toml:4")
    #expect(loaded.origins["signs.use"] == nil)
    #expect(loaded.files.count == 4)
  }

  @Test("a file named on the command line is read in place of the user's, over the system's")
  func explicit() throws {
    let folder = TemporaryFolder()
    try folder.write("etc/talknode.toml", "[log]\nlevel = \"error\"\n")
    try folder.write("user/config.toml", "[node]\ndisplay_name = \"mine\"\n")
    try folder.write("other.toml", "[gateway]\nheaders = [\"X-A: 1\"]\n")
    let loaded = LayeredSettings(
      from: ConfigurationSources(
        systemFolder: folder.path + "/etc", userFolder: folder.path + "/user", explicitFile: folder.path + "/other.toml"
      ))
    #expect(loaded.settings.log.level == .error)
    #expect(loaded.settings.node.displayName == nil)
    #expect(loaded.settings.gateway.headerFields.map { "\($0.name)=\($0.value)" } == ["X-A=1"])
  }

  @Test("no file at all gives the defaults; a named one that is missing is an error")
  func missing() throws {
    let folder = TemporaryFolder()
    let none = LayeredSettings(
      from: ConfigurationSources(systemFolder: folder.path + "/etc", userFolder: folder.path + "/user"))
    #expect(none.problems == [] && none.files == [])
    #expect(none.settings.log.levelOrDefault == .info)
    let named = LayeredSettings(from: ConfigurationSources(systemFolder: nil, explicitFile: folder.path + "/no.toml"))
    #expect(
      named.errors.map(\.description) == [folder.path + "/no.toml: The file can't be read: No such file or directory."])
  }

  @Test("a file too long to be settings is refused")
  func tooLong() throws {
    let folder = TemporaryFolder()
    try folder.write("user/config.toml", String(repeating: "#", count: TOML.limit + 1))
    let loaded = LayeredSettings(from: ConfigurationSources(systemFolder: nil, userFolder: folder.path + "/user"))
    #expect(loaded.errors.count == 1)
  }
}
