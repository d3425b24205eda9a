import GatewayProtocol

enum VersionCommand {
  static let verb = Verb("version", "which talknode this is", options: [.json]) { arguments, terminal in
    if arguments.has(.json) {
      terminal.print(["version": .string(Version.number), "protocol": .int(Int64(ProtocolLimits.version))])
    } else {
      terminal.print("talknode \(Version.number) (gateway protocol \(ProtocolLimits.version))")
    }
    return .ok
  }
}

enum HelpCommand {
  // The parser answers help itself, also for `help COMMAND`; this entry is what the list shows.
  static let verb = Verb(
    "help", "how to use one of these", operands: [Operand("COMMAND", "for example pair", isOptional: true)]
  ) { _, terminal in
    terminal.print(bytes: Array(Help(verbs: Table.verbs).text(about: []).utf8))
    return .ok
  }
}
