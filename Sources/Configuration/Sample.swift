extension Settings {
  /// The commented sample file, from the declarations: `config/talknode.toml` is this text.
  public static var sample: String {
    var out = """
      # Settings of talknode, all optional: a line that is commented out shows the default or an example.
      # Read in this order, the later one counting: /etc/talknode/talknode.toml, /etc/talknode/conf.d/*.toml,
      # ~/.config/talknode/config.toml, ~/.config/talknode/conf.d/*.toml. `talknode config show --origin` tells what holds.

      """
    let defaults = Settings()
    for section in sections {
      out += "\n" + comment(section.summary)
      // An empty table of a name that nobody chose would be one too many.
      out += section.instance == nil ? "[\(section.name)]\n" : "#[\(section.name).NAME]\n"
      for setting in section.settings {
        out += "\n" + comment(setting.help)
        // A choice's words, a range, a length: what may be written.
        out += comment("(\(setting.domain))")
        let value = setting.example ?? setting.value(defaults)
        out += "#\(setting.name) = \(value?.description ?? "\"\"")\n"
      }
    }
    return out
  }

  /// `text` as comment lines of at most 110 characters.
  private static func comment(_ text: String) -> String {
    var lines: [String] = []
    var line = "#"
    for word in text.split(separator: " ") {
      if line.count + 1 + word.count > 110 {
        lines.append(line)
        line = "#"
      }
      line += " " + word
    }
    lines.append(line)
    return lines.joined(separator: "\n") + "\n"
  }
}
