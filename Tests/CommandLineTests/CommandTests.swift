import DevGateway
import GatewayProtocol
import Glibc
import NodeKit
import System
import TestSupport
import Testing

@testable import talknode

/// The commands a person uses beside the daemon, on the built program.
@Suite struct CommandTests {
  @Test("invoke goes through the daemon when there is one, does it itself when not, and is audited either way")
  func invoke() async throws {
    try await Bed.with { bed in
      let alone = try await bed.run(["invoke", "system.notify", "--params", #"{"title":"x"}"#])
      #expect(alone.exit == .code(69), "\(alone.errors)")
      #expect(alone.errors.contains("NOTIFICATIONS_UNAVAILABLE"))
      try await bed.withDaemon { _ in
        let served = try await bed.run(["invoke", "system.notify", "--params", "-"], input: #"{"title":"x"}"#)
        #expect(served.errors.contains("NOTIFICATIONS_UNAVAILABLE"))
      }
      let unknown = try await bed.run(["invoke", "no.such", "--json"])
      #expect(unknown.exit == .code(65))
      #expect(unknown.json["error"]?["code"] == "INVALID_REQUEST")
      #expect(try await bed.run(["invoke", "system.notify", "--params", "{"]).exit == .code(65))
      #expect(try await bed.run(["invoke", "system.notify", "--timeout", "-1"]).exit == .code(64))
      let entries = try await bed.run(["audit", "--json"]).json["entries"]?.array ?? []
      #expect(entries.map { $0["command"]?.string } == ["system.notify", "system.notify", "no.such"])
      #expect(try await bed.run(["audit", "--last", "1"]).output.contains("no.such"))
    }
  }

  @Test("switching a capability on names the approval that is pending now, and off takes it from agents at once")
  func capabilities() async throws {
    try await Bed.with { bed in
      let off = try await bed.run(["capabilities", "disable", "notify"])
      #expect(off.exit == .code(0) && off.errors.contains("notify is off."))
      #expect(off.errors.contains("talknode is not running"))
      #expect(try await bed.run(["capabilities"]).output.contains("off"))
      try await bed.withDaemon { _ in
        #expect(try await eventually { try await bed.status()["link"]?["operator"]?["state"] == "connected" })
        #expect(await bed.gateway.nodes().first?.surface.commands.contains("system.notify") == false)
        let on = try await bed.run(["capabilities", "enable", "notify", "--json"])
        #expect(on.exit == .code(0), "\(on.errors)")
        #expect(on.errors.contains("Agents may show notifications"))
        let missing = on.json["missing"]?.array ?? []
        let request = try #require(missing.first { $0["kind"] == "surface" }?["requestId"]?.string, "\(on.errors)")
        #expect(on.errors.contains("openclaw nodes approve \(request)"))
        try await bed.gateway.approveSurface(request)
        #expect(try await bed.becomesReady())
        let again = try await bed.run(["capabilities", "disable", "notify"])
        #expect(again.exit == .code(0) && again.errors.contains("notify is off."))
        #expect(await bed.gateway.nodes().first?.surface.commands.contains("system.notify") == false)
      }
      let slip = try await bed.run(["capabilities", "enable", "notfy"])
      #expect(slip.exit == .code(65) && slip.errors.contains("Did you mean notify?"))
    }
  }

  @Test("forget removes all of one gateway and nothing of another")
  func forget() async throws {
    try await Bed.with { one in
      try await Bed.with { other in
        for bed in [one, other] {
          let words = ["pair", await bed.gateway.url, "--token-file", try bed.tokenFile()]
          #expect(try await one.run(words).exit == .code(0))
        }
        let id = "manual|127.0.0.1|\(one.gateway.port)"
        let kept = try contents(one.state() + "/gateways").filter { !$0.key.contains("-\(one.gateway.port)-") }
        #expect(kept.count >= 2)
        let ambiguous = try await one.run(["gateways", "forget", "127.0.0.1"])
        #expect(ambiguous.exit == .code(65) && ambiguous.errors.contains("Several gateways"))
        try await one.withDaemon(pairs: false) { (_: Subprocess) async throws in
          #expect(try await one.run(["gateways", "use", id]).exit == .code(0))
          #expect(try await one.becomesReady())
          #expect(try await one.status()["link"]?["gateway"]?.string == id)
          #expect(try await one.run(["gateways", "forget", id]).exit == .code(0))
          #expect(try await one.status()["link"] == nil)
          #expect(await eventually { await one.gateway.sessions().isEmpty })
        }
        let after = try contents(one.state() + "/gateways")
        #expect(after == kept)
        // And without a daemon what was said for it, too.
        let last = "manual|127.0.0.1|\(other.gateway.port)"
        let notes =
          #"[{"id":"a","text":"for the other","gatewayId":"\#(last)","atMs":1},"#
          + #"{"id":"b","text":"for a third","gatewayId":"c","atMs":1}]"#
        try Files.writeAtomically(Array(notes.utf8), to: one.state() + "/transcripts.json")
        #expect(!contentsHold(one.gateway.token, one.state()))
        let left = try await one.run(["gateways", "--json"]).json["gateways"]?.array ?? []
        #expect(left.map { $0["url"]?.string } == [await other.gateway.url])
        #expect(try await one.run(["gateways", "forget", last]).exit == .code(0))
        #expect(try contents(one.state() + "/gateways").isEmpty)
        let stillKept = Files.text(one.state() + "/transcripts.json") ?? ""
        #expect(!stillKept.contains("for the other") && stillKept.contains("for a third"))
      }
    }
  }

  private func contents(_ folder: String) throws -> [String: [UInt8]] {
    var found: [String: [UInt8]] = [:]
    for name in Files.list(folder) {
      for file in Files.list(folder + "/" + name) {
        found[name + "/" + file] = try Files.read(folder + "/" + name + "/" + file)
      }
    }
    return found
  }

  private func contentsHold(_ secret: String, _ path: String) -> Bool {
    var status = stat()
    if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
      return Files.list(path).contains { contentsHold(secret, path + "/" + $0) }
    }
    return Files.text(path)?.contains(secret) ?? false
  }

  @Test("identity is made once, and the secret of it is not shown")
  func identity() async throws {
    try await Bed.with { bed in
      let first = try await bed.run(["identity", "--json"]).json
      #expect(first["deviceId"]?.string?.count == 64)
      #expect(try await bed.run(["identity", "--json"]).json == first)
      let file = try JSON(parsing: try Files.read(bed.state() + "/identity.json"))
      let seed = try #require(file["seed"]?.string)
      #expect(!(try await bed.run(["identity"]).output.contains(seed)))
    }
  }

  @Test("gateway-config prints what a gateway has to allow, in the new and the old key")
  func gatewayConfig() async throws {
    let declared = ["system.notify", "device.info"]
    #expect(
      GatewayConfigCommand.entry(declared, isLegacy: false).text
        == #"{"gateway":{"nodes":{"commands":{"allow":["system.notify","device.info"]}}}}"#)
    try await Bed.with { bed in
      let current = try await bed.run(["gateway-config"]).json["gateway"]?["nodes"]?["commands"]?["allow"]?.strings
      let legacy = try await bed.run(["gateway-config", "--legacy"]).json["gateway"]?["nodes"]?["allowCommands"]?
        .strings
      #expect(current != nil && current == legacy)
      #expect(current?.contains("system.notify") == false)
    }
  }

  @Test("config show tells each value and the line it came from; secrets are counted, not shown")
  func configShow() async throws {
    try await Bed.with { bed in
      try bed.folder.write(
        "home/.config/talknode/config.toml", "\n[log]\nlevel = \"debug\"\n[gateway]\nheaders = [\"X-Key: s3cret\"]\n")
      let text = try await bed.run(["config", "show", "--origin"])
      #expect(text.output.contains("config.toml:3\n"))
      #expect(text.output.contains("gateway.headers = [1 not shown]"))
      #expect(text.output.contains("# default"))
      let json = try await bed.run(["config", "--json"])
      #expect(json.json["settings"]?["log.level"]?["value"] == "debug")
      #expect(!(text.output + json.output).contains("s3cret"))
    }
  }

  @Test("doctor finds what is wrong with the state folder, and says how to mend it")
  func doctor() async throws {
    try await Bed.with { bed in
      _ = try await bed.run(["identity"])
      chmod(bed.state() + "/identity.json", 0o644)
      let ending = try await bed.run(["doctor", "--json"])
      #expect(ending.exit == .code(1))
      let findings = ending.json["findings"]?.array ?? []
      let problem = findings.first { $0["grade"] == "problem" }
      #expect(problem?["detail"]?.string?.contains("can be read by other users") == true)
      #expect(problem?["remedy"]?.string?.hasPrefix("chmod") == true)
      chmod(bed.state() + "/identity.json", 0o600)
      #expect(try await bed.run(["doctor"]).exit == .code(0))
    }
  }

  @Test("a slip in a command is a usage error with the right word")
  func slips() async throws {
    try await Bed.with { bed in
      let ending = try await bed.run(["stauts"])
      #expect(ending.exit == .code(64))
      #expect(ending.errors == "talknode: There is no command `stauts`.\n  try:   talknode status\n")
      #expect(try await bed.run(["version", "--json"]).json["version"]?.string == Version.number)
      #expect(try await bed.run(["help", "pair"]).output.contains("talknode pair CODE"))
    }
  }
}
