import GatewayProtocol
import Testing

@testable import DevGateway

@Suite("Command policy (protocol §11)")
struct PolicyTests {
  @Test(
    "a platform's words decide the family, and must agree with the device family",
    arguments: [
      ("linux", "Linux", "linux"), ("Linux", "LINUX", "linux"), ("linux", nil, "unknown"), ("linux", "Mac", "unknown"),
      ("linux 6.8", "Linux", "unknown"), ("ubuntu", "Linux", "unknown"), ("ios", nil, "ios"), ("ios", "iPhone", "ios"),
      ("iOS 26.1.0", "iPad", "ios"), ("iOS 26.1.0", nil, "unknown"), ("ipados 18", "iPad", "ios"),
      ("ios 26.1.0.4", "iPhone", "unknown"), ("ios x", "iPhone", "unknown"), ("watchos", "Apple Watch", "watchos"),
      ("watchos 11", "watchOS", "watchos"), ("android", nil, "android"), ("android 15 (sdk 35)", "Android", "android"),
      ("android 15", "Android", "android"), ("android 15 (sdk x)", "Android", "unknown"), ("macos", "Mac", "macos"),
      ("macOS 26.1", "Mac", "macos"), ("macOS 26.1", "iPhone", "unknown"), ("windows", "Windows", "windows"),
      ("windows 11", "Windows", "unknown"), ("", "iPhone 17", "ios"), ("", "Linux box", "linux"), ("", nil, "unknown"),
      ("unknown", "unknown", "unknown"), ("toaster", "toaster", "unknown"),
    ] as [(String, String?, String)])
  func family(platform: String, device: String?, expected: String) {
    #expect(PlatformFamily(platform: platform, deviceFamily: device).rawValue == expected)
  }

  @Test("the official host's old names are mended only when it names no family")
  func aliases() {
    #expect(PlatformFamily(platform: "linux", deviceFamily: nil, clientID: "node-host") == .linux)
    #expect(PlatformFamily(platform: "darwin", deviceFamily: nil, clientID: "node-host") == .macos)
    #expect(PlatformFamily(platform: "darwin", deviceFamily: nil, clientID: "test") == .unknown)
    #expect(PlatformFamily(platform: "linux", deviceFamily: "Mac", clientID: "node-host") == .unknown)
  }

  @Test(
    "a version change is no new identity for the apps; anything else is",
    arguments: [
      ("linux", "Linux", "linux", "Linux", "node-host", true), ("linux", "Linux", "LINUX", "linux", "node-host", true),
      ("linux", "Linux", "macos", "Mac", "node-host", false), ("linux", "Linux", "linux", "Desk", "node-host", false),
      ("iOS 26.0", "iPhone", "iOS 26.1", "iPhone", "openclaw-ios", true),
      ("iOS 26.0", "iPhone", "iPadOS 26.1", "iPhone", "openclaw-ios", true),
      ("iOS 26.0", "iPhone", "iOS 26.1", "iPad", "openclaw-ios", false),
      ("iOS 26.0", "iPhone", "iOS 26.1", "iPhone", "node-host", false),
      ("macos", "Mac", "darwin", nil, "node-host", true), ("linux", "Linux", "darwin", nil, "node-host", false),
    ] as [(String, String?, String, String?, String, Bool)])
  func pinning(
    pinned: String, pinnedFamily: String?, claimed: String, claimedFamily: String?, client: String, isSame: Bool
  ) {
    #expect(
      PlatformFamily.isSame(pinned: (pinned, pinnedFamily), claimed: (claimed, claimedFamily), clientID: client)
        == isSame)
  }

  private let linux = CommandPolicy.Kind(platform: "linux", deviceFamily: "Linux", clientID: "node-host")
  private let phone = CommandPolicy.Kind(platform: "iOS 26.1", deviceFamily: "iPhone", clientID: "openclaw-ios")
  private let ours = NodeSurface(
    caps: ["camera", "device", "location", "system", "talk"],
    commands: [
      "camera.clip", "camera.list", "camera.snap", "device.info", "device.status", "health.summary", "location.get",
      "system.notify", "talk.ptt.cancel", "talk.ptt.once", "talk.ptt.start", "talk.ptt.stop",
    ])

  @Test("of our commands a linux node keeps system.notify and push-to-talk, as was measured")
  func linuxDefaults() {
    let cut = CommandPolicy().cut(ours, for: linux)
    #expect(
      cut.commands == ["system.notify", "talk.ptt.cancel", "talk.ptt.once", "talk.ptt.start", "talk.ptt.stop"])
    #expect(cut.caps == ["device", "system", "talk"], "camera and location have lost all their commands")
  }

  @Test("an allow entry lets it through, dangerous or not; a deny entry beats it")
  func allowAndDeny() {
    var policy = CommandPolicy(allow: ["camera.snap", "device.info", "health.summary"])
    #expect(policy.cut(ours, for: linux).commands.contains("camera.snap"))
    #expect(policy.cut(ours, for: linux).caps.contains("camera"))
    policy.deny = ["camera.snap", "system.notify"]
    #expect(!policy.cut(ours, for: linux).commands.contains("camera.snap"))
    #expect(!policy.runtime(for: linux, declaring: ours).contains("system.notify"))
  }

  @Test("a phone may have dangerous commands approved that it can't be asked for yet")
  func ceiling() {
    let policy = CommandPolicy()
    let cut = policy.cut(ours, for: phone)
    #expect(cut.commands.contains("camera.snap"))
    let effective = policy.effective(cut, for: phone, declaring: cut)
    #expect(!effective.commands.contains("camera.snap"))
    #expect(effective.commands.contains("camera.list"))
    let refusal = policy.refusal(of: "camera.snap", on: phone, declared: cut, effective: effective)
    #expect(refusal?.message.contains("gateway.nodes.commands.allow") == true)
    #expect(
      policy.ceiling(
        for: CommandPolicy.Kind(platform: "watchos", deviceFamily: "Apple Watch", clientID: "x"), declaring: ours)
        == ["device.info", "device.status", "system.notify"])
  }

  @Test("push-to-talk is there for who declares talk, canvas for all but the watch")
  func extras() {
    let policy = CommandPolicy()
    #expect(!policy.runtime(for: linux, declaring: NodeSurface()).contains("talk.ptt.once"))
    #expect(policy.runtime(for: linux, declaring: NodeSurface(commands: ["talk.mode"])).contains("talk.ptt.once"))
    #expect(policy.runtime(for: linux, declaring: NodeSurface()).contains("canvas.present"))
    let unknown = CommandPolicy.Kind(platform: "toaster", deviceFamily: nil, clientID: "x")
    #expect(
      policy.runtime(for: unknown, declaring: NodeSurface()).isSuperset(of: [
        "camera.list", "location.get", "system.notify",
      ]))
    #expect(!policy.runtime(for: unknown, declaring: NodeSurface()).contains("device.info"))
    #expect(policy.runtime(for: phone, declaring: NodeSurface()).contains("watch.status"))
    let pad = CommandPolicy.Kind(platform: "ipados 18", deviceFamily: "iPad", clientID: "x")
    #expect(!policy.runtime(for: pad, declaring: NodeSurface()).contains("watch.status"))
  }

  @Test("a command or cap declared twice counts once")
  func duplicates() {
    let twice = NodeSurface(caps: ["system", "system"], commands: ["system.notify", "system.notify"])
    #expect(CommandPolicy().cut(twice, for: linux) == NodeSurface(caps: ["system"], commands: ["system.notify"]))
  }

  @Test("the reasons of a refusal, in their order")
  func reasons() {
    let policy = CommandPolicy()
    let both = NodeSurface(commands: ["system.notify"])
    func reason(_ command: String, _ effective: NodeSurface) -> String? {
      policy.refusal(of: command, on: linux, declared: both, effective: effective)?.details?["reason"]?.string
    }
    #expect(reason("", both) == "command required")
    #expect(reason("device.info", both) == "command not allowlisted")
    #expect(reason("system.which", both) == "command not declared by node")
    #expect(reason("system.notify", NodeSurface()) == "node did not declare commands")
    #expect(reason("system.notify", both) == nil)
  }

  @Test(
    "which versions are taken",
    arguments: [
      (3, 4, "node", "node", "current"), (4, 4, "operator", "ui", "current"), (4, 9, "node", "node", "current"),
      (3, 3, "node", "node", "legacyNode"), (1, 3, "node", "node", "legacyNode"), (3, 3, "node", "ui", "mismatch"),
      (3, 3, "operator", "ui", "mismatch"), (3, 3, "operator", "probe", "current"), (1, 1, "node", "node", "mismatch"),
      (5, 9, "node", "node", "mismatch"), (1, 2, "operator", "probe", "mismatch"),
    ] as [(Int64, Int64, String, String, String)])
  func versions(low: Int64, high: Int64, role: String, mode: String, expected: String) throws {
    let params = try ConnectParams(
      validating: [
        "minProtocol": .int(low), "maxProtocol": .int(high), "role": .string(role),
        "client": ["id": "test", "mode": .string(mode), "version": "1", "platform": "linux"],
      ])
    #expect("\(ProtocolRange().verdict(on: params))" == expected)
  }
}

@Suite("Scopes (protocol §5.2, §6.7)")
struct ScopeTests {
  @Test("admin covers every operator scope, write covers read, others only themselves")
  func cover() {
    #expect(Scope.covers([Scope.admin], Scope.pairing))
    #expect(!Scope.covers([Scope.admin], "other.scope"))
    #expect(Scope.covers([Scope.write], Scope.read))
    #expect(!Scope.covers([Scope.read], Scope.write))
    #expect(!Scope.covers([Scope.write], Scope.pairing))
    #expect(
      Scope.normalised([Scope.pairing, Scope.read, Scope.admin])
        == ["operator.admin", "operator.pairing", "operator.read", "operator.write"], "as was recorded")
  }

  @Test("approving host commands takes an administrator")
  func requiredScopes() {
    func required(_ commands: [String]) -> [String] {
      SurfaceStore.Request(
        requestID: "r", node: SurfaceStore.Node(nodeID: "n", platform: "linux", version: "1"),
        surface: NodeSurface(commands: commands), tsMs: 0
      ).requiredScopes
    }
    #expect(required([]) == [Scope.pairing])
    #expect(required(["system.notify"]) == [Scope.pairing, Scope.write])
    #expect(required(["system.which"]) == [Scope.pairing, Scope.admin])
    #expect(required(["system.run", "device.info"]) == [Scope.pairing, Scope.write, Scope.admin])
  }
}
