import Configuration

enum CompletionsCommand {
  private static let shells = Completions.Shell.allCases.map(\.rawValue)

  static let verb = Verb(
    "completions", "what a shell needs to complete these commands",
    operands: [Operand("SHELL", "bash, zsh or fish", shells)],
    notes: [
      """
      Installed with the program. By hand: source <(talknode completions bash) in ~/.bashrc, the same for zsh in ~/.zshrc, and for fish \
      talknode completions fish > ~/.config/fish/completions/talknode.fish
      """
    ]
  ) { arguments, terminal throws(Failure) in
    guard let shell = arguments[0].flatMap(Completions.Shell.init(rawValue:)) else {
      throw .usage("There are completions for bash, zsh and fish.", remedy: "talknode completions bash")
    }
    terminal.print(bytes: Array(Completions(verbs: Table.verbs).script(for: shell).utf8))
    return .ok
  }
}

enum ManualCommand {
  static let verb = Verb(
    "manual", "the manual page talknode(1), for man", notes: ["Installed with the program: man talknode"]
  ) { _, terminal in
    terminal.print(bytes: Array(Manual(verbs: Table.verbs, sections: Settings.sections).page.utf8))
    return .ok
  }
}
