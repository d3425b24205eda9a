/// The help texts, made from the table.
struct Help: Sendable {
  let verbs: [Verb]

  /// Help about the verbs whose path begins with `path`; all when it is empty.
  func text(about path: [String]) -> String {
    let chosen = verbs.filter { $0.path.starts(with: path) }
    if path.isEmpty { return overview }
    if chosen.count == 1 { return page(chosen[0]) }
    return "usage:\n" + chosen.map { "  \($0.usage)\n" }.joined() + "\n" + rows(chosen.map { ($0.name, $0.summary) })
      + "\nMore about one: talknode help \(path.joined(separator: " ")) COMMAND\n"
  }

  private var overview: String {
    """
    talknode makes this machine a node of an OpenClaw gateway: agents can ask it for what you allow.

    usage: talknode COMMAND [OPTION…]

    \(rows(verbs.map { ($0.name, $0.summary) }))
    Every command takes --state DIR and --help. More about one: talknode help COMMAND

    """
  }

  private func page(_ verb: Verb) -> String {
    var out = "talknode \(verb.name): \(verb.summary).\n\nusage: \(verb.usage)\n\n"
    if !verb.operands.isEmpty { out += rows(verb.operands.map { ($0.name, $0.help) }) + "\n" }
    out += rows(verb.allOptions.map { ($0.usage, $0.help) })
    for note in verb.notes { out += "\n" + Help.wrapped(note, width: 80) }
    return out
  }

  private func rows(_ rows: [(String, String)]) -> String {
    let width = min(rows.map(\.0.count).max() ?? 0, 24)
    return rows.map { name, text in
      let pad = String(repeating: " ", count: max(width - name.count, 0))
      return name.count > width
        ? "  \(name)\n  \(String(repeating: " ", count: width))  \(text)\n" : "  \(name)\(pad)  \(text)\n"
    }.joined()
  }

  /// Lines of at most `width` characters.
  static func wrapped(_ text: String, width: Int) -> String {
    var out = ""
    var column = 0
    for word in text.split(separator: " ") {
      if column > 0 && column + 1 + word.count > width {
        out += "\n"
        column = 0
      }
      out += (column > 0 ? " " : "") + word
      column += (column > 0 ? 1 : 0) + word.count
    }
    return out + "\n"
  }
}
