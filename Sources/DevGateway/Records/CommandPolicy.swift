import GatewayProtocol

/// Which commands of a node the gateway lets anyone use (protocol §11, node-commands §2).
struct CommandPolicy: Sendable {
  /// `gateway.nodes.commands.allow`. Exact names.
  var allow: Set<String> = []
  /// `gateway.nodes.commands.deny`. Wins over everything.
  var deny: Set<String> = []

  /// A node as the policy sees it: the platform words pinned at its approval.
  struct Kind: Sendable, Equatable {
    var platform: String
    var deviceFamily: String?
    var clientID: String
    var family: PlatformFamily {
      PlatformFamily(platform: platform, deviceFamily: deviceFamily, clientID: clientID)
    }
  }

  /// Usable at run time, once approved.
  func runtime(for kind: Kind, declaring surface: NodeSurface) -> Set<String> {
    defaults(for: kind, declaring: surface).union(allow).subtracting(deny)
  }

  /// What a node may declare and have approved. Wider than `runtime`: it holds the dangerous commands too, so that a phone's camera can
  /// be approved before it is configured. Not so for linux, which was seen to be cut down to its defaults (conformance), nor
  /// for watchos, whose list is fixed.
  func ceiling(for kind: Kind, declaring surface: NodeSurface) -> Set<String> {
    let extra = kind.family == .linux || kind.family == .watchos ? [] : Self.dangerous
    return runtime(for: kind, declaring: surface).union(extra).subtracting(deny)
  }

  /// The declared surface without what the ceiling does not hold; order kept.
  func cut(_ declared: NodeSurface, for kind: Kind) -> NodeSurface {
    let ceiling = ceiling(for: kind, declaring: declared)
    var seen: Set<String> = []
    var surface = declared
    surface.commands = declared.commands.filter { ceiling.contains($0) && seen.insert($0).inserted }
    surface.caps = trimmed(declared.caps, declared: declared.commands, admitted: surface.commands)
    return surface
  }

  /// What an approved surface amounts to at run time; sorted.
  func effective(_ approved: NodeSurface, for kind: Kind, declaring declared: NodeSurface) -> NodeSurface {
    let usable = runtime(for: kind, declaring: declared)
    let commands = approved.commands.filter(usable.contains)
    return NodeSurface(
      caps: trimmed(approved.caps, declared: approved.commands, admitted: commands).sorted(),
      commands: commands.sorted(),
      permissions: approved.permissions)
  }

  /// Without the capabilities of which commands were withheld and none was let in, for the four families the gateway does this to.
  private func trimmed(_ caps: [String], declared: [String], admitted: [String]) -> [String] {
    var seen: Set<String> = []
    return caps.filter { cap in
      guard seen.insert(cap).inserted else { return false }
      guard ["camera", "computer", "location", "screen"].contains(cap) else { return true }
      let ofCap = { (command: String) in command.hasPrefix(cap + ".") }
      return !declared.contains(where: ofCap) || admitted.contains(where: ofCap)
    }
  }

  /// Why an invoke of `command` is refused; nil when it is not. `effective` is what the node's approved surface holds now.
  func refusal(of command: String, on kind: Kind, declared: NodeSurface, effective: NodeSurface) -> WireError? {
    let reason: String
    let text: String
    if command.isEmpty {
      (reason, text) = ("command required", "a command is required")
    } else if !runtime(for: kind, declaring: declared).contains(command) {
      reason = "command not allowlisted"
      text =
        Self.dangerous.contains(command)
        ? "\"\(command)\" requires an explicit gateway.nodes.commands.allow opt-in"
        : "\"\(command)\" is not in the allowlist for platform \"\(kind.platform)\""
    } else if effective.commands.contains(command) {
      return nil
    } else if effective.commands.isEmpty {
      reason = "node did not declare commands"
      text =
        declared.commands.isEmpty
        ? "the node declares no commands"
        : "the node's commands are not approved yet; see: openclaw nodes pending, openclaw nodes approve <requestId>"
    } else {
      reason = "command not declared by node"
      text = "the node has no approved command \"\(command)\""
    }
    return WireError(
      code: "INVALID_REQUEST", message: "node command not allowed: \(text)",
      details: ["reason": .string(reason), "command": .string(command)])
  }
}

// MARK: The tables of §11.2 and §11.3

extension CommandPolicy {
  static let dangerous: Set<String> = [
    "camera.snap", "camera.clip", "camera.ptz.control", "screen.record", "contacts.add", "calendar.add",
    "reminders.add",
    "sms.send", "sms.search", "health.summary", "device.apps.launch",
  ]
  /// Approving one of these takes an administrator (§6.7).
  static let needsAdmin: Set<String> = [
    "system.run", "system.run.prepare", "system.which", "browser.proxy", "browser.proxy.upload.v1", "fs.listDir",
    "terminal.upload", "system.execApprovals.get", "system.execApprovals.set",
  ]
  /// Only an administrator may invoke these directly (§11.5).
  static let adminInvoke: Set<String> = ["browser.proxy", "browser.proxy.upload.v1", "fs.listDir", "terminal.upload"]
  /// `node.invoke` refuses these: they have methods of their own (§11.5).
  static let neverInvoked: Set<String> = [
    "system.execApprovals.get", "system.execApprovals.set", "agent.cli.claude.run.v1",
  ]

  private static let device: Set<String> = ["device.info", "device.status"]
  private static let system: Set<String> = [
    "system.run.prepare", "system.run", "system.which", "system.execApprovals.get", "system.execApprovals.set",
    "fs.listDir", "terminal.upload", "system.notify", "browser.proxy", "browser.proxy.upload.v1", "mcp.tools.call.v1",
    "agent.cli.claude.run.v1",
  ]
  private static let desktop: Set<String> = ["screen.snapshot", "desktop.stream", "computer.act"]
  private static let personal: Set<String> = [
    "contacts.search", "calendar.events", "reminders.list", "photos.latest", "motion.activity", "motion.pedometer",
  ]
  private static let canvas: Set<String> = [
    "canvas.present", "canvas.hide", "canvas.navigate", "canvas.eval", "canvas.snapshot", "canvas.a2ui.push",
    "canvas.a2ui.pushJSONL", "canvas.a2ui.reset",
  ]
  private static let talk: Set<String> = ["talk.ptt.start", "talk.ptt.stop", "talk.ptt.cancel", "talk.ptt.once"]

  private func defaults(for kind: Kind, declaring surface: NodeSurface) -> Set<String> {
    var commands: Set<String>
    switch kind.family {
    case .ios:
      commands = Self.personal.union(Self.device).union(["camera.list", "location.get", "system.notify"])
      if kind.deviceFamily?.lowercased() == "iphone" { commands.formUnion(["watch.status", "watch.notify"]) }
    case .watchos: return Self.device.union(["system.notify"])
    case .android:
      commands = Self.personal.union(Self.device).union([
        "camera.list", "location.get", "notifications.list", "notifications.actions", "system.notify",
        "device.permissions", "device.health", "device.apps", "callLog.search", "mobile.ui.observe", "mobile.ui.act",
      ])
    case .macos:
      commands = Self.personal.union(Self.device).union(Self.system).union(Self.desktop).union([
        "camera.list", "camera.ptz.status", "location.get", "device.apps",
      ])
    case .windows:
      commands = Self.device.union(Self.system).union(Self.desktop).union(["camera.list", "location.get"])
    case .linux: commands = Self.system.union(Self.desktop)
    case .unknown: commands = ["camera.list", "location.get", "system.notify"]
    }
    commands.formUnion(Self.canvas)
    if surface.caps.contains("talk") || surface.commands.contains(where: { $0.hasPrefix("talk.") }) {
      commands.formUnion(Self.talk)
    }
    return commands
  }
}
