import GatewayProtocol
import System
import TestSupport
import Testing

@testable import talknode

/// What `ptt bind` says.
@Suite struct BindTests {
  private func bindings(_ key: String = "F9", state: String? = nil) throws -> [String: DesktopBinding] {
    let all = DesktopBinding.all(try DesktopBinding.Key(key), state: state)
    return Dictionary(uniqueKeysWithValues: all.map { ($0.word, $0) })
  }

  @Test("the six desktops, which of them report a release, and that those two commands are start and stop")
  func release() throws {
    let all = try bindings()
    #expect(Set(all.keys) == Set(BindCommand.words))
    #expect(Set(all.values.filter(\.reportsRelease).map(\.word)) == ["sway", "hyprland", "i3", "x11"])
    for binding in all.values {
      let text = binding.lines.joined(separator: "\n")
      #expect(text.contains("talknode ptt start") == binding.reportsRelease, "\(binding.word)")
      #expect(text.contains("talknode ptt stop") == binding.reportsRelease, "\(binding.word)")
      #expect(text.contains("talknode ptt toggle") != binding.reportsRelease, "\(binding.word)")
    }
  }

  @Test("each desktop's own way to write a key with its modifiers; what is no key is refused")
  func keys() throws {
    let all = try bindings("super+Ctrl+F9")
    #expect(all["gnome"]?.lines.last?.hasSuffix("binding '<Super><Control>F9'") == true)
    #expect(all["kde"]?.lines.last == "X-KDE-Shortcuts=Meta+Ctrl+F9")
    #expect(all["sway"]?.lines.first == "bindsym --no-repeat Mod4+Ctrl+F9 exec talknode ptt start")
    #expect(all["hyprland"]?.lines.last == "bindr = SUPER CTRL, F9, exec, talknode ptt stop")
    #expect(all["x11"]?.lines[1] == "  Mod4 + Control + F9")
    #expect(all["x11"]?.lines[3] == "  Release + Mod4 + Control + F9")
    for wrong in ["", "+", "Super+", "Hyper+F9", "Super+Super+F9", "F9;reboot", "F 9", "'"] {
      #expect(throws: Failure.self, "\(wrong)") { try DesktopBinding.Key(wrong) }
    }
  }

  @Test("a state folder of one's own is part of the command, quoted")
  func state() throws {
    #expect(try bindings(state: "/tmp/a b")["i3"]?.lines.first?.hasSuffix("ptt start --state '/tmp/a b'") == true)
  }

  @Test(
    "the desktop that runs is known by XDG_CURRENT_DESKTOP, first come first served, else by what it leaves behind",
    arguments: [
      (["XDG_CURRENT_DESKTOP": "ubuntu:GNOME"], "gnome"), (["XDG_CURRENT_DESKTOP": "GNOME-Classic:GNOME"], "gnome"),
      (["XDG_CURRENT_DESKTOP": "KDE"], "kde"), (["XDG_CURRENT_DESKTOP": "sway"], "sway"),
      (["XDG_CURRENT_DESKTOP": "Hyprland"], "hyprland"), (["XDG_CURRENT_DESKTOP": "i3", "DISPLAY": ":0"], "i3"),
      (["XDG_CURRENT_DESKTOP": "XFCE", "DISPLAY": ":0"], "x11"),
      (["XDG_CURRENT_DESKTOP": "XFCE", "DISPLAY": ":0", "XDG_SESSION_TYPE": "wayland"], nil),
      (["SWAYSOCK": "/run/sway"], "sway"), (["DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"], nil), ([:], nil),
    ] as [([String: String], String?)])
  func running(_ variables: [String: String], _ expected: String?) {
    #expect(DesktopBinding.running(Environment(variables)) == expected)
  }

  @Test("shown: the running desktop first and marked; one alone; an unknown one is answered with the nearest")
  func shown() async throws {
    let folder = TemporaryFolder()
    func run(_ words: String..., desktop: String = "") async throws -> Bed.Ending {
      let loop = EventLoop(name: "test")
      defer { loop.stop() }
      let environment = Program.environment(folder, ["XDG_CURRENT_DESKTOP": desktop])
      return try await Bed.ending(
        of: try await Subprocess.start(
          .init(Program.path, ["ptt", "bind"] + words, environment: environment), loop: loop))
    }
    let all = try await run(desktop: "sway")
    #expect(all.exit == .code(0))
    #expect(all.output.hasPrefix("# Sway  (runs here): hold to talk\n"))
    #expect(all.output.contains("# GNOME: press to talk, press again to send; it reports no release\n"))
    let one = try await run("i3", "--key", "Super+F8")
    #expect(one.output.contains("bindsym --release Mod4+F8 exec") && !one.output.contains("Sway"))
    let json = try await run("--json", desktop: "KDE").json["bindings"]?.array
    #expect(json?.count == 6)
    #expect(json?.first?["desktop"] == "kde" && json?.first?["running"] == true)
    #expect(json?.first?["reportsRelease"] == false)
    let wrong = try await run("gnom")
    #expect(wrong.exit == .code(64) && wrong.errors.contains("talknode ptt bind gnome"))
  }

  @Test("GNOME's lines keep the shortcuts that there are, and add ours once, by a shell")
  func gnome() async throws {
    let folder = TemporaryFolder()
    // Stands for the settings of a GNOME session: what was set last is what is got.
    try folder.write(
      "gsettings",
      """
      #!/bin/sh
      case $1 in
        get) cat "$STORE/$3" ;;
        set) printf '%s\\n' "$4" > "$STORE/$3"; echo "$2 $3 = $4" >> "$STORE/log" ;;
      esac
      """)
    try folder.write("script", try #require(try bindings()["gnome"]).lines.joined(separator: "\n") + "\n")
    let loop = EventLoop(name: "test")
    defer { loop.stop() }
    let ours = "/org/gnome/settings-daemon/plugins/media-keys/custom-keybindings/talknode/"
    for (before, after) in [
      ("@as []", "['\(ours)']"), ("['/a/b/']", "['/a/b/', '\(ours)']"),
      ("['/a/', '/b/']", "['/a/', '/b/', '\(ours)']"), ("['/a/', '\(ours)']", "['/a/', '\(ours)']"),
    ] {
      try folder.write("custom-keybindings", before + "\n")
      let shell = try await Subprocess.start(
        .init(
          "/bin/sh", ["-e", "-c", "gsettings() { sh \"$STORE/gsettings\" \"$@\"; }; . \"$STORE/script\""],
          environment: ["STORE": folder.path, "PATH": "/usr/bin:/bin"]), loop: loop)
      let ending = try await Bed.ending(of: shell)
      #expect(ending.exit == .code(0), "\(ending.errors)")
      #expect(Files.text(folder("custom-keybindings"))?.split(separator: "\n").first.map(String.init) == after)
    }
    let log = Files.text(folder("log")) ?? ""
    #expect(log.contains("\(ours) command = talknode ptt toggle\n"))
    #expect(log.contains("\(ours) binding = F9\n"))
  }
}
