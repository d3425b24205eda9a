import Configuration

/// The manual page talknode(1), made from the table and from the settings' declarations.
struct Manual: Sendable {
  let verbs: [Verb]
  let sections: [SectionDeclaration]

  /// In the language of troff's man macros.
  var page: String {
    var out = #"""
      .\" Made by `talknode manual`.
      .TH TALKNODE 1 "" "TalkNode \#(Version.number)" "User Commands"
      .nh
      .ad l
      .SH NAME
      talknode \- make this machine a node of an OpenClaw gateway
      .SH SYNOPSIS
      .B talknode
      .I COMMAND
      .RI [ OPTION \&...]
      .SH DESCRIPTION
      A person at this machine talks with the gateway's agent, and hears it; agents ask this machine for what its person allows.
      .B talknode run
      is the program that does it, usually as the user unit
      .IR talknode.service ;
      the other commands ask it or set it up.
      .SH COMMANDS

      """#
    for verb in verbs {
      out += ".SS \(Self.escaped(verb.usage))\n\(Self.sentence(verb.summary))\n"
      for operand in verb.operands { out += Self.item(operand.name, operand.help, isPlaceholder: true) }
      for option in verb.options { out += Self.item(option.usage, option.help) }
      for note in verb.notes { out += ".PP\n\(Self.escaped(note))\n" }
    }
    out += ".SH OPTIONS OF EVERY COMMAND\n"
    for option in Option.everywhere { out += Self.item(option.usage, option.help) }
    out += ".SH SETTINGS\n"
    for section in sections {
      out += ".SS [\(Self.escaped(section.name))]\n\(Self.escaped(section.summary))\n"
      for setting in section.settings { out += Self.item(setting.name, "\(setting.help) (\(setting.domain))") }
    }
    out += #"""
      .SH FILES
      .TP
      .I ~/.config/talknode/config.toml
      settings, with
      .IR ~/.config/talknode/conf.d/*.toml ,
      .I /etc/talknode/talknode.toml
      and
      .IR /etc/talknode/conf.d/*.toml ;
      .B talknode config show \-\-origin
      tells what holds.
      .TP
      .I ~/.local/state/talknode
      identity, tokens, switches, the log of what agents asked for, and what was said and not delivered.
      .TP
      .I $XDG_RUNTIME_DIR/talknode/control-*.sock
      where the running program is asked.
      .SH EXIT STATUS

      """#
    for (status, meaning) in ExitStatus.meanings { out += Self.item("\(status.code)", meaning) }
    out += #"""
      .SH SIGNALS
      .B talknode run
      reads its settings anew at SIGHUP, begins or ends a capture at SIGUSR1, and forgets one at SIGUSR2.

      """#
    return out
  }

  private static func item(_ name: String, _ help: String, isPlaceholder: Bool = false) -> String {
    ".TP\n.\(isPlaceholder ? "I" : "B") \(escaped(name))\n\(escaped(help))\n"
  }

  private static func sentence(_ summary: String) -> String {
    escaped(summary.prefix(1).uppercased() + summary.dropFirst() + ".")
  }

  /// One line of text, in which nothing means anything to troff.
  static func escaped(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\n": line += " "
      case "\\": line += "\\e"
      case "-": line += "\\-"
      case "\"": line += "\\(dq"
      case "\0"..."\u{7F}": line.unicodeScalars.append(scalar)
      default:
        let digits = String(scalar.value, radix: 16, uppercase: true)
        line += "\\[u\(String(repeating: "0", count: max(0, 4 - digits.count)))\(digits)]"
      }
    }
    return line.hasPrefix(".") || line.hasPrefix("'") ? "\\&" + line : line
  }
}
