import GatewayProtocol
import System

/// `talknode ptt bind`: what to write where, so that a key of the desktop talks.
enum BindCommand {
  private static let key = Option("key", value: "KEY", "the key, F9 when not given: F13, Super+F9, Ctrl+Alt+T")
  static let words = ["gnome", "kde", "sway", "hyprland", "i3", "x11"]

  static let verb = Verb(
    "ptt bind", "the lines that make a key of your desktop talk",
    operands: [
      Operand("DESKTOP", "gnome, kde, sway, hyprland, i3 or x11; all when not given", isOptional: true, words)
    ],
    options: [key, .json],
    notes: [
      """
      Nothing is changed: copy the lines. Where a desktop reports that a key is let go, it is held to talk; elsewhere the first press \
      opens the microphone and the next one sends what was said. A key read from the keyboard itself ([talk.key]) and the desktop's \
      portal ([talk.shortcut]) are the other ways; both are in the settings.
      """
    ], run: run)

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let all = DesktopBinding.all(
      try DesktopBinding.Key(arguments[key] ?? "F9"), program: program,
      state: arguments[.state] == nil ? nil : context.instance.state)
    let running = DesktopBinding.running(context.environment)
    var chosen = all
    if let wanted = arguments[0]?.lowercased() {
      chosen = all.filter { $0.word == wanted }
      if chosen.isEmpty {
        let near = nearest(to: wanted, among: words)
        throw .usage(
          "There are no lines for the desktop `\(wanted.prefix(40))`.",
          remedy: near.map { "talknode ptt bind \($0)" } ?? "talknode ptt bind shows those that there are")
      }
    } else {
      // The desktop that runs comes first.
      chosen = all.filter { $0.word == running } + all.filter { $0.word != running }
    }
    if context.wantsJSON {
      terminal.print(["bindings": .array(chosen.map { $0.json(isRunning: $0.word == running) })])
      return .ok
    }
    for (index, binding) in chosen.enumerated() {
      if index > 0 { terminal.print("") }
      show(binding, isRunning: binding.word == running, terminal)
    }
    return .ok
  }

  private static func show(_ binding: DesktopBinding, isRunning: Bool, _ terminal: Terminal) {
    let mark = isRunning ? "  (runs here)" : ""
    let way = binding.reportsRelease ? "hold to talk" : "press to talk, press again to send; it reports no release"
    terminal.print(terminal.styled("# \(binding.name)\(mark): \(way)", .strong))
    terminal.print(terminal.styled("# " + (binding.file.map { "in \($0):" } ?? "in a terminal:"), .faint))
    for line in binding.lines { terminal.print(line) }
    if let note = binding.note { terminal.print(terminal.styled("# \(note)", .faint)) }
  }

  /// `talknode` where the shell finds this very program under that name, else its path.
  private static var program: String {
    guard let own = Files.resolved("/proc/self/exe") else { return "talknode" }
    guard let found = Programs.path(of: "talknode"), Files.resolved(found) == own else { return own }
    return "talknode"
  }
}

extension DesktopBinding {
  fileprivate func json(isRunning: Bool) -> JSON {
    .object(present: [
      "desktop": .string(word), "name": .string(name), "running": .bool(isRunning),
      "reportsRelease": .bool(reportsRelease), "file": file.map(JSON.string), "lines": .strings(lines),
      "note": note.map(JSON.string),
    ])
  }
}
