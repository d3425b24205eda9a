import System

/// What a command line asks for.
enum Request: Sendable {
  case run(Verb, Arguments)
  /// Help about a verb, or about all; the words are those of a group such as `gateways`, or none.
  case help([String])
}

/// Reads the words after the program's name by the table.
struct Parser: Sendable {
  let verbs: [Verb]

  func parse(_ words: [String]) throws(Failure) -> Request {
    var words = words[...]
    // `talknode --version` and `--help` are what a stranger types first.
    if words.isEmpty || words.first == "--help" || words.first == "-h" { return .help([]) }
    if words.first == "--version" { words[words.startIndex] = "version" }
    if words.first == "help" { return .help(try known(Array(words.dropFirst()))) }
    let verb = try takeVerb(&words)
    return try arguments(of: verb, words)
  }

  /// The longest path of the table that the words begin with. A group's own name chooses its first verb when no word of a path follows.
  private func takeVerb(_ words: inout ArraySlice<String>) throws(Failure) -> Verb {
    let first = words.first!
    let group = verbs.filter { $0.path[0] == first }
    if group.isEmpty {
      if first.hasPrefix("-") { throw .usage("The command comes before its options.", remedy: "talknode help") }
      let near = nearest(to: first, among: Set(verbs.map { $0.path[0] }).sorted())
      throw .usage(
        "There is no command `\(first)`.", remedy: near.map { "talknode \($0)" } ?? "talknode help")
    }
    let rest = words.dropFirst()
    if group.count > 1, let second = rest.first, !second.hasPrefix("-") {
      if let verb = group.first(where: { $0.path == [first, second] }) {
        words = rest.dropFirst()
        return verb
      }
      let near = nearest(to: second, among: group.compactMap { $0.path.dropFirst().first })
      throw .usage(
        "There is no command `\(first) \(second)`.",
        remedy: near.map { "talknode \(first) \($0)" } ?? "talknode help \(first)")
    }
    let verb = group[0]
    words = rest
    if verb.path.count == 2, rest.first == verb.path[1] { words = rest.dropFirst() }
    return verb
  }

  private func arguments(of verb: Verb, _ words: ArraySlice<String>) throws(Failure) -> Request {
    var arguments = Arguments()
    var words = words
    var optionsEnded = false
    while let word = words.popFirst() {
      if optionsEnded || !word.hasPrefix("-") || word == "-" {
        arguments.operands.append(word)
      } else if word == "--" {
        optionsEnded = true
      } else if word == "--help" || word == "-h" {
        return .help(verb.path)
      } else {
        try take(word, of: verb, &words, into: &arguments)
      }
    }
    let needed = verb.operands.filter { !$0.isOptional }.count
    if arguments.operands.count < needed {
      let missing = verb.operands[arguments.operands.count]
      throw .usage("`talknode \(verb.name)` needs \(missing.name): \(missing.help).", remedy: verb.usage)
    }
    if arguments.operands.count > verb.operands.count {
      let extra = arguments.operands[verb.operands.count]
      throw .usage("`talknode \(verb.name)` does not take `\(clipped(extra))`.", remedy: verb.usage)
    }
    return .run(verb, arguments)
  }

  private func take(
    _ word: String, of verb: Verb, _ words: inout ArraySlice<String>, into arguments: inout Arguments
  ) throws(Failure) {
    let isLong = word.hasPrefix("--")
    let parts = word.dropFirst(isLong ? 2 : 1).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let name = String(parts[0])
    guard isLong, let option = verb.allOptions.first(where: { $0.name == name }) else {
      let near = nearest(to: name, among: verb.allOptions.map(\.name))
      throw .usage(
        "`talknode \(verb.name)` has no option `\(isLong ? "--" : "-")\(clipped(name))`.",
        remedy: near.map { "--\($0)" } ?? "talknode help \(verb.name)")
    }
    var value = parts.count == 2 ? String(parts[1]) : nil
    if let placeholder = option.value {
      if value == nil { value = words.popFirst() }
      guard let value, !value.isEmpty else {
        throw .usage("--\(name) needs a value.", remedy: "--\(name) \(placeholder)")
      }
      arguments.values[name, default: []].append(value)
    } else {
      if value != nil { throw .usage("--\(name) is a switch and takes no value.", remedy: "--\(name)") }
      arguments.values[name, default: []].append("")
    }
  }

  /// The words of a help request, when they begin the path of some verb.
  private func known(_ words: [String]) throws(Failure) -> [String] {
    if words.isEmpty || verbs.contains(where: { $0.path.starts(with: words) }) { return words }
    var rest = words[...]
    _ = try takeVerb(&rest)
    return [words[0]]
  }

  /// Not more of a mistyped word than fits on a line: it could be a pasted secret.
  private func clipped(_ word: String) -> String { word.count <= 40 ? word : word.prefix(12) + "…" }
}
