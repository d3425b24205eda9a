import Crypto
import DevGateway
import GatewayProtocol
import System
import TestSupport
import Testing
import Transport

/// `talknode pair`, as the person at the machine has it.
@Suite struct PairTests {
  enum Form: CaseIterable {
    case setupCode, ocPair, json, text, deepLink, url, urlOverInput, wss
  }

  @Test("every form of an introduction ends in a node and an operator connection", arguments: Form.allCases)
  func forms(form: Form) async throws {
    try await Bed.with(tls: form == .wss) { bed in
      let url = await bed.gateway.url
      let code = await bed.gateway.makeSetupCode(profile: .full).text
      let token = bed.gateway.token
      var input = ""
      let words: [String]
      switch form {
      case .setupCode: words = [code]
      case .ocPair: words = ["oc-pair://" + code]
      case .json: words = [String(decoding: Base64.decode(code)!, as: UTF8.self)]
      case .text: words = ["Hello,\nhere is the code: \(code).\nGood until tonight."]
      case .deepLink: words = ["openclaw://gateway?host=127.0.0.1&port=\(bed.gateway.port)&tls=0&token=\(token)"]
      case .url: words = [url, "--token-file", try bed.tokenFile()]
      case .urlOverInput:
        words = ["-", "--token-file", try bed.tokenFile()]
        input = url + "\n"
      case .wss:
        let fingerprint = hexadecimal(try #require(await bed.gateway.fingerprint)).uppercased()
        words = [url, "--token-file", try bed.tokenFile(), "--trust", "sha256:" + fingerprint]
      }
      let ending = try await bed.run(["pair"] + words, input: input)
      #expect(ending.exit == .code(0), "\(ending.errors)")
      #expect(ending.errors.contains("Paired: "))
      #expect(!ending.errors.contains(token), "a secret was shown")
      let gateways = try await bed.run(["gateways", "--json"]).json["gateways"]?.array ?? []
      #expect(gateways.map { $0["active"] } == [true])
      #expect(gateways.first?["url"]?.string == url)
      // The connections went with the command, and the approvals stay.
      #expect(await eventually { await bed.gateway.sessions().isEmpty })
      try await bed.withDaemon(pairs: false) { (_: Subprocess) async throws in #expect(try await bed.becomesReady()) }
    }
  }

  @Test("each of the three approvals is named with its request and its command, and waited for")
  func approvals() async throws {
    try await Bed.with(autoApprove: false) { bed in
      let pairing = try await bed.start(["pair", await bed.gateway.url, "--token-file", try bed.tokenFile(), "--json"])
      var asked: [String] = []
      var events: [String] = []
      while let line = try await pairing.readLine() {
        let event = try JSON(parsing: line)
        events.append(event["event"]?.string ?? "")
        guard event["event"] == "missing", let approval = event["approval"], let id = approval["requestId"]?.string
        else {
          continue
        }
        asked.append(approval["command"]?.string ?? "")
        if approval["kind"] == "surface" {
          #expect(approval["command"]?.string == "openclaw nodes approve \(id)")
          try await bed.gateway.approveSurface(id)
        } else {
          #expect(approval["command"]?.string == "openclaw devices approve \(id)")
          try await bed.gateway.approveDevice(id)
        }
      }
      let ending = try await Bed.ending(of: pairing)
      #expect(ending.exit == .code(0), "\(ending.errors)")
      #expect(asked.count == 3 && Set(asked).count == 3)
      #expect(events.last == "complete")
    }
  }

  @Test("a node code and the token typed at the terminal end in both connections", arguments: [false, true])
  func nodeCode(daemonRuns: Bool) async throws {
    try await Bed.with { bed in
      let code = await bed.gateway.makeSetupCode(profile: .node).text
      // script(1) gives the program a terminal of its own.
      let words = ["pair", code, "--state", bed.state()].map { "'\($0)'" }.joined(separator: " ")
      func pair() async throws {
        let pairing = try await Subprocess.start(
          .init(
            "/usr/bin/script", ["-qec", "'\(Program.path)' \(words)", "/dev/null"],
            environment: Program.environment(bed.folder, [:])),
          loop: bed.loop)
        var shown = ""
        while !shown.contains("The gateway's token"), let bytes = await pairing.read() {
          shown += String(decoding: bytes, as: UTF8.self)
        }
        try await pairing.write(Array((bed.gateway.token + "\r").utf8))
        let ending = try await Bed.ending(of: pairing)
        #expect(ending.exit == .code(0), "\(shown)\(ending.output)")
        #expect(ending.output.contains("Paired: "))
        #expect(!ending.output.contains(bed.gateway.token), "the secret was echoed")
      }
      if daemonRuns {
        try await bed.withDaemon(pairs: false) { (_: Subprocess) async throws in
          try await pair()
          #expect(Set(await bed.gateway.sessions().map(\.role)) == [.node, .operator])
        }
      } else {
        try await pair()
        try await bed.withDaemon(pairs: false) { (_: Subprocess) async throws in #expect(try await bed.becomesReady()) }
      }
    }
  }

  @Test("a node code in a script, where nobody can be asked, names the command that completes it, and that does")
  func nodeCodeInScript() async throws {
    try await Bed.with { bed in
      let code = await bed.gateway.makeSetupCode(profile: .node).text
      let ending = try await bed.run(["pair", code])
      #expect(ending.exit == .code(77))
      #expect(ending.errors.contains("talknode pair ws://127.0.0.1:\(bed.gateway.port) --token-file FILE"))
      let completed = try await bed.run(["pair", await bed.gateway.url, "--token-file", try bed.tokenFile()])
      #expect(completed.exit == .code(0), "\(completed.errors)")
    }
  }

  @Test("a running daemon is given the gateway, and pair watches it come up")
  func handedOver() async throws {
    try await Bed.with { bed in
      try await bed.withDaemon(pairs: false) { daemon in
        let before = try await bed.status()
        #expect(before["link"] == nil && before["ready"] == false)
        let code = await bed.gateway.makeSetupCode(profile: .full).text
        let ending = try await bed.run(["pair", code])
        #expect(ending.exit == .code(0), "\(ending.errors)")
        let status = try await bed.status()
        #expect(status["ready"] == true)
        #expect(status["pid"]?.int == Int64(daemon.processID))
      }
    }
  }

  @Test("an unknown certificate is not trusted unless a person says so, and a wrong fingerprint never")
  func certificates() async throws {
    try await Bed.with(tls: true) { bed in
      let seen = hexadecimal(try #require(await bed.gateway.fingerprint))
      let words = ["pair", await bed.gateway.url, "--token-file", try bed.tokenFile()]
      let refused = try await bed.run(words)
      #expect(refused.exit == .code(77))
      #expect(refused.errors.contains("--trust \(seen)"))
      let wrong = try await bed.run(words + ["--trust", String(repeating: "ab", count: 32)])
      #expect(wrong.exit == .code(77))
      #expect(wrong.errors.contains("shows another certificate"))
      #expect(try await bed.run(["gateways", "--json"]).json["gateways"]?.array == [])
      let colons = stride(from: 0, to: 64, by: 2).map { String(seen.dropFirst($0).prefix(2)).uppercased() }
      let trusted = try await bed.run(words + ["--trust", colons.joined(separator: ":")])
      #expect(trusted.exit == .code(0), "\(trusted.errors)")
    }
  }

  @Test(
    "what can't work is refused with a reason before anything is written down",
    arguments: [
      (["pair", "ws://203.0.113.5:18789"], Int32(65), "would send the token in the clear"),
      (["pair", "hello there"], 65, "There is no setup code in that"),
      (["pair", "ws://127.0.0.1:1", "--token-file", "/no/such/file"], 66, "can't be read"),
      (["pair", "ws://127.0.0.1:1", "--trust", "12"], 64, "64 hexadecimal digits"),
      (["pair"], 64, "needs CODE"),
      (["run", "--token-file", "/tmp/x"], 64, "belongs to --gateway"),
    ])
  func refused(words: [String], code: Int32, reason: String) async throws {
    try await Bed.with { bed in
      let ending = try await bed.run(words)
      #expect(ending.exit == .code(code), "\(ending.errors)")
      #expect(ending.errors.contains(reason), "\(ending.errors)")
      #expect(!Files.exists(bed.state() + "/gateways"))
    }
  }

  @Test("a wrong token is told, with what to do, and ends the waiting")
  func wrongToken() async throws {
    try await Bed.with { bed in
      try bed.folder.write("wrong", "not-the-token")
      let ending = try await bed.run(["pair", await bed.gateway.url, "--token-file", bed.folder("wrong")])
      #expect(ending.exit == .code(77), "\(ending.errors)")
      #expect(ending.errors.contains("try:"))
      #expect(!ending.errors.contains("not-the-token"))
    }
  }

  @Test("Ctrl-C ends the waiting, and what was given is kept")
  func interrupted() async throws {
    try await Bed.with(autoApprove: false) { bed in
      let pairing = try await bed.start(["pair", await bed.gateway.url, "--token-file", try bed.tokenFile()])
      #expect(await eventually { !(await bed.gateway.pendingDevices().isEmpty) })
      await pairing.signal(2)
      let ending = try await Bed.ending(of: pairing)
      #expect(ending.exit == .code(130), "\(ending.errors)")
      #expect(try await bed.run(["gateways", "--json"]).json["gateways"]?.array?.count == 1)
    }
  }
}
