/// How a desktop is told to run a command for a key.
struct DesktopBinding: Sendable, Equatable {
  /// The word for `talknode ptt bind`, and how XDG_CURRENT_DESKTOP calls it, in small letters.
  let word: String
  let name: String
  /// Whether it can run a second command when the key is let go: hold to talk.
  let reportsRelease: Bool
  /// Where the lines belong; nil when they are commands for a shell.
  let file: String?
  let lines: [String]
  let note: String?

  /// A key with its modifiers, for example `Super+F9`.
  struct Key: Sendable, Equatable {
    enum Modifier: String, Sendable, CaseIterable { case `super`, ctrl, alt, shift }
    let modifiers: [Modifier]
    let name: String

    /// Throws for what is no key's name.
    init(_ text: String) throws(Failure) {
      var words = text.split(separator: "+", omittingEmptySubsequences: false).map(String.init)
      let name = words.popLast() ?? ""
      var modifiers: [Modifier] = []
      for word in words {
        guard let modifier = Modifier(rawValue: word.lowercased()), !modifiers.contains(modifier) else {
          throw Self.unknown(text)
        }
        modifiers.append(modifier)
      }
      // It goes into other programs' configuration as it is.
      let isName = name.utf8.allSatisfy { byte in
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x5F
      }
      if name.isEmpty || name.utf8.count > 32 || !isName { throw Self.unknown(text) }
      self.modifiers = modifiers
      self.name = name
    }

    private static func unknown(_ text: String) -> Failure {
      .usage(
        "\"\(text.prefix(40))\" is no key.",
        remedy: "--key F9, or with modifiers: --key Super+F9 (Super, Ctrl, Alt, Shift)")
    }

    fileprivate func joined(_ names: [Modifier: String], by separator: String) -> String {
      (modifiers.map { names[$0] ?? "" } + [name]).joined(separator: separator)
    }
    fileprivate var gnome: String {
      joined([.super: "<Super>", .ctrl: "<Control>", .alt: "<Alt>", .shift: "<Shift>"], by: "")
    }
    fileprivate var kde: String { joined([.super: "Meta", .ctrl: "Ctrl", .alt: "Alt", .shift: "Shift"], by: "+") }
    fileprivate var sway: String { joined([.super: "Mod4", .ctrl: "Ctrl", .alt: "Mod1", .shift: "Shift"], by: "+") }
    fileprivate var xbindkeys: String {
      joined([.super: "Mod4", .ctrl: "Control", .alt: "Alt", .shift: "Shift"], by: " + ")
    }
    fileprivate var hyprland: String { modifiers.map { $0.rawValue.uppercased() }.joined(separator: " ") + ", " + name }
  }

  /// All that are known. `state` is a state folder that is not the user's own.
  static func all(_ key: Key, program: String = "talknode", state: String? = nil) -> [DesktopBinding] {
    let option = state.map { " --state \(quoted($0))" } ?? ""
    func run(_ what: String) -> String { "\(program) ptt \(what)\(option)" }
    return [
      DesktopBinding(
        word: "gnome", name: "GNOME", reportsRelease: false, file: nil,
        lines: [
          "schema=org.gnome.settings-daemon.plugins.media-keys",
          "path=/org/gnome/settings-daemon/plugins/media-keys/custom-keybindings/talknode/",
          "list=$(gsettings get $schema custom-keybindings)",
          // Other shortcuts stay: ours is added to the list, once.
          #"case $list in *"'$path'"*) ;; '@as []') list="['$path']" ;; *) list="${list%]}, '$path']" ;; esac"#,
          #"gsettings set $schema custom-keybindings "$list""#,
          "gsettings set $schema.custom-keybinding:$path name 'Talk to the agent'",
          "gsettings set $schema.custom-keybinding:$path command \(quoted(run("toggle")))",
          "gsettings set $schema.custom-keybinding:$path binding '\(key.gnome)'",
        ],
        note: "Since GNOME 48 the portal can: see [talk.shortcut] in the settings."),
      DesktopBinding(
        word: "kde", name: "KDE Plasma", reportsRelease: false,
        file: "~/.local/share/applications/talknode-talk.desktop",
        lines: [
          "[Desktop Entry]", "Type=Application", "Name=Talk to the agent", "Exec=\(run("toggle"))", "NoDisplay=true",
          "X-KDE-Shortcuts=\(key.kde)",
        ],
        note: "Then run kbuildsycoca6 (kbuildsycoca5 on Plasma 5), or log in again. The portal reports a release: see "
          + "[talk.shortcut] in the settings."),
      DesktopBinding(
        word: "sway", name: "Sway", reportsRelease: true, file: "~/.config/sway/config",
        lines: [
          "bindsym --no-repeat \(key.sway) exec \(run("start"))", "bindsym --release \(key.sway) exec \(run("stop"))",
        ], note: "Then: swaymsg reload"),
      DesktopBinding(
        word: "hyprland", name: "Hyprland", reportsRelease: true, file: "~/.config/hypr/hyprland.conf",
        lines: [
          "bind = \(key.hyprland), exec, \(run("start"))", "bindr = \(key.hyprland), exec, \(run("stop"))",
        ],
        note:
          "It is read again when it is saved. The portal of Hyprland works too: see [talk.shortcut] in the settings."),
      DesktopBinding(
        word: "i3", name: "i3", reportsRelease: true, file: "~/.config/i3/config",
        lines: [
          "bindsym \(key.sway) exec --no-startup-id \(run("start"))",
          "bindsym --release \(key.sway) exec --no-startup-id \(run("stop"))",
        ], note: "Then: i3-msg reload"),
      DesktopBinding(
        word: "x11", name: "X11 (xbindkeys)", reportsRelease: true, file: "~/.xbindkeysrc",
        lines: [
          "\"\(run("start"))\"", "  \(key.xbindkeys)", "\"\(run("stop"))\"",
          "  Release + \(key.xbindkeys)",
        ],
        note: "Then: xbindkeys --poll-rc. A held key repeats under X11, which would end and begin the capture over and "
          + "over: switch that off for the key with xset -r KEYCODE (xbindkeys -k shows the code)."),
    ]
  }

  /// The binding for the desktop that runs: by XDG_CURRENT_DESKTOP, which may name several, the first that is known; else X11's own way
  /// where there is an X11 session.
  static func running(_ environment: Environment) -> String? {
    let words = ["gnome", "kde", "sway", "hyprland", "i3"]
    for name in (environment["XDG_CURRENT_DESKTOP"] ?? "").lowercased().split(separator: ":") {
      // `GNOME-Classic`, `GNOME-Flashback` are GNOME.
      if let word = words.first(where: { name == $0 || name.hasPrefix($0 + "-") }) { return word }
    }
    if environment["SWAYSOCK"] != nil { return "sway" }
    if environment["HYPRLAND_INSTANCE_SIGNATURE"] != nil { return "hyprland" }
    if environment["I3SOCK"] != nil { return "i3" }
    let isX11 = environment["XDG_SESSION_TYPE"].map { $0 == "x11" } ?? (environment["WAYLAND_DISPLAY"] == nil)
    return isX11 && environment["DISPLAY"] != nil ? "x11" : nil
  }

  /// As a shell takes it for one word.
  private static func quoted(_ text: String) -> String {
    "'" + text.replacing("'", with: #"'\''"#) + "'"
  }
}
