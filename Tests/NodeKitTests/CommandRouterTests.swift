import GatewayProtocol
import System
import TestSupport
import Testing

@testable import NodeKit

/// A module whose commands do what the test says.
struct ScriptedModule: CapabilityModule {
  static let camera = Consent(name: "camera", allows: "Agents may take pictures.", refusalCode: "CAMERA_DISABLED")
  static let notify = Consent(
    name: "notify", allows: "Agents may notify.", refusalCode: "NOTIFICATIONS_DISABLED", isOnByDefault: true)

  let capability: Capability
  let commands: [Command]
  var permissions: [String] = []
  var starting: @Sendable () async -> Void = {}
  let script: @Sendable (Invocation) async throws(CommandError) -> Payload

  func availability() async -> Availability { .ready }
  func start() async { await starting() }
  func handle(_ invocation: Invocation) async throws(CommandError) -> Payload { try await script(invocation) }

  static func echo(_ script: @escaping @Sendable (Invocation) async throws(CommandError) -> Payload) -> ScriptedModule {
    ScriptedModule(
      capability: "echo",
      commands: [
        Command("echo.say", summary: "Says.", gatewayDefault: .needsAllow, limit: .milliseconds(40)),
        Command("echo.tell", summary: "Tells.", gatewayDefault: .needsAllow),
      ], script: script)
  }

  static func camera(
    _ script: @escaping @Sendable (Invocation) async throws(CommandError) -> Payload = { _ throws(CommandError) in .none
    }
  ) -> ScriptedModule {
    ScriptedModule(
      capability: "camera",
      commands: [
        Command("camera.list", summary: "Lists.", gatewayDefault: .allowed, consent: Self.camera, isShown: false),
        Command("camera.snap", summary: "Snaps.", gatewayDefault: .dangerous, consent: Self.camera),
      ], permissions: ["camera"], script: script)
  }
}

/// A router with its files and its loop, taken down at the end.
struct Bench {
  let folder = TemporaryFolder()
  let loop = EventLoop(name: "test router")
  let switches: SwitchStore
  let audit: AuditLog
  let router: CommandRouter

  static func with<Value: Sendable>(
    _ modules: [any CapabilityModule], sign: (@Sendable (UseNotice) async -> Void)? = nil,
    _ body: (Bench) async throws -> Value
  ) async rethrows -> Value {
    let bench = Bench(modules, sign)
    defer { bench.loop.stop() }
    let value = try await body(bench)
    await bench.router.stop()
    return value
  }

  private init(_ modules: [any CapabilityModule], _ sign: (@Sendable (UseNotice) async -> Void)?) {
    switches = SwitchStore(path: folder("switches.json"))
    audit = AuditLog(path: folder("audit.log"))
    router = CommandRouter(modules: modules, switches: switches, audit: audit, sign: sign, loop: loop)
  }

  func ask(
    _ command: String, id: String = "i-1", params: String? = "{}", timeoutMs: Int64? = 30000, key: String? = nil,
    limit: Int = 1 << 20, from origin: Invocation.Origin = .gateway("g")
  ) async -> InvokeOutcome {
    let request = InvokeRequest(
      id: id, nodeID: "n", command: command, paramsText: params.map { Array($0.utf8) }, timeoutMs: timeoutMs,
      idempotencyKey: key)
    return await router.handle(request, from: origin, payloadLimit: limit)
  }
}

extension InvokeOutcome {
  var text: String? { if case .success(let text?) = self { String(decoding: text, as: UTF8.self) } else { nil } }
  var message: String? { if case .failure(let error) = self { error["message"]?.string } else { nil } }
}

@Suite("CommandRouter") struct CommandRouterTests {
  let echo = ScriptedModule.echo { invocation throws(CommandError) in .json(["params": invocation.lenientParams]) }

  @Test("what ends a capture comes through though all places are taken by what waits for its end")
  func immediate() async {
    let isOver = Lock(false)
    let ears = ScriptedModule(
      capability: "ears",
      commands: [
        Command("ears.open", summary: "Opens.", gatewayDefault: .allowed),
        Command("ears.close", summary: "Closes.", gatewayDefault: .allowed, isImmediate: true),
      ]
    ) { invocation throws(CommandError) in
      if invocation.command == "ears.close" { return .json("closed") }
      while !isOver.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(5)) }
      return .json("opened")
    }
    await Bench.with([ears]) { bench in
      let opens = (0..<9).map { index in Task { await bench.ask("ears.open", id: "\(index)") } }
      #expect(await eventually { await bench.router.unanswered == 9 })
      #expect(await bench.ask("ears.close", id: "close").text == "\"closed\"")
      isOver.withLock { $0 = true }
      for open in opens { #expect(await open.value.text == "\"opened\"") }
    }
  }

  @Test("what is declared is what is registered and switched on, never hardware")
  func surface() async throws {
    try await Bench.with([echo, ScriptedModule.camera()]) { bench in
      #expect(
        await bench.router.surface()
          == NodeSurface(caps: ["echo"], commands: ["echo.say", "echo.tell"], permissions: [:]))
      try bench.switches.set("camera", enabled: true)
      #expect(
        await bench.router.surface()
          == NodeSurface(
            caps: ["camera", "echo"], commands: ["camera.list", "camera.snap", "echo.say", "echo.tell"],
            permissions: ["camera": true]))
      #expect(bench.router.modules.consents == [ScriptedModule.camera])
    }
  }

  @Test("a command is answered with its payload; one that returns nothing with nothing")
  func answers() async {
    await Bench.with([echo, ScriptedModule.camera()]) { bench in
      #expect(await bench.ask("echo.say", params: #"{"a":1}"#).text == #"{"params":{"a":1}}"#)
      #expect(await bench.ask("echo.say", params: nil).text == #"{"params":{}}"#)
      #expect(await bench.ask("echo.say", params: "garbage").text == #"{"params":{}}"#)
    }
  }

  @Test("an unknown command is an invalid request")
  func unknown() async {
    await Bench.with([echo]) { bench in
      #expect(await bench.ask("echo.shout").code == "INVALID_REQUEST")
      #expect(await bench.ask("echo.shout").message == "INVALID_REQUEST: unknown command")
    }
  }

  @Test("a command that is switched off is refused in its own words, with what to type")
  func consent() async throws {
    try await Bench.with([ScriptedModule.camera()]) { bench in
      let refused = await bench.ask("camera.snap")
      #expect(refused.code == "CAMERA_DISABLED")
      #expect(
        refused.message
          == "CAMERA_DISABLED: camera is switched off on this machine. Switch it on there: talknode capabilities enable camera"
      )
      #expect(await bench.ask("camera.snap", from: .local).code == "CAMERA_DISABLED")
      try bench.switches.set("camera", enabled: true)
      #expect(await bench.ask("camera.snap") == .success(nil))
    }
  }

  @Test("each use of what reveals a person is shown; a list, a refusal and a repeat are no use")
  func signs() async throws {
    let shown = Lock<[UseNotice]>([])
    let sign: @Sendable (UseNotice) async -> Void = { notice in shown.withLock { $0.append(notice) } }
    try await Bench.with([echo, ScriptedModule.camera()], sign: sign) { bench in
      _ = await bench.ask("camera.snap")
      try bench.switches.set("camera", enabled: true)
      _ = await bench.ask("camera.list")
      _ = await bench.ask("echo.say")
      _ = await bench.ask("camera.snap", key: "k")
      _ = await bench.ask("camera.snap", key: "k")
      let notice = UseNotice(consent: ScriptedModule.camera, command: "camera.snap", origin: .gateway("g"))
      #expect(await eventually { shown.withLock { $0 } == [notice] })
    }
  }

  @Test("a sign that hangs does not hold the command up")
  func hangingSign() async throws {
    let hang: @Sendable (UseNotice) async -> Void = { _ in try? await Task.sleep(for: .seconds(3600)) }
    try await Bench.with([ScriptedModule.camera()], sign: hang) { bench in
      try bench.switches.set("camera", enabled: true)
      #expect(await bench.ask("camera.snap") == .success(nil))
    }
  }

  @Test("at the deadline the answer is there, whether the module listens or not")
  func deadline() async {
    let wedge = ScriptedModule.echo { _ throws(CommandError) in
      // Deaf to its cancellation.
      await withCheckedContinuation { continuation in
        Task.detached {
          try? await Task.sleep(for: .milliseconds(300))
          continuation.resume()
        }
      }
      return .none
    }
    await Bench.with([wedge]) { bench in
      let late = await bench.ask("echo.tell", timeoutMs: 20)
      #expect(late.code == "UNAVAILABLE" && late.message == "UNAVAILABLE: node invoke timed out")
      // 0 leaves the time to the command: 40 ms here.
      #expect(await bench.ask("echo.say", timeoutMs: 0).message == "UNAVAILABLE: node invoke timed out")
    }
  }

  @Test("how long an invoke may take")
  func limits() {
    let command = Command("a.b", summary: "", gatewayDefault: .allowed, limit: .seconds(90))
    let endless = Command("a.c", summary: "", gatewayDefault: .allowed, limit: .seconds(6000))
    func limit(_ timeoutMs: Int64?, _ command: Command) -> Duration {
      InvokeDeadline.limit(timeoutMs: timeoutMs, command: command)
    }
    #expect(limit(nil, command) == .milliseconds(29750))
    #expect(limit(15000, command) == .milliseconds(14750))
    #expect(limit(100, command) == .milliseconds(90))
    #expect(limit(1, command) == .microseconds(900))
    #expect(limit(0, command) == .seconds(90))
    #expect(limit(0, endless) == .seconds(600))
    #expect(limit(2_147_483_647, command) == .seconds(600))
    #expect(limit(.max, command) == .seconds(600))
    #expect(limit(-5, command) == .microseconds(900))
  }

  @Test("a cancelled invoke is answered at once, and its module hears of it")
  func cancel() async {
    let ended = Lock(false)
    let started = Lock(false)
    let sleeper = ScriptedModule.echo { _ throws(CommandError) in
      started.withLock { $0 = true }
      try? await Task.sleep(for: .seconds(3600))
      ended.withLock { $0 = Task.isCancelled }
      return .none
    }
    await Bench.with([sleeper]) { bench in
      async let answer = bench.ask("echo.tell", id: "i-7")
      _ = await eventually { started.withLock { $0 } }
      await bench.router.cancel("i-6")
      await bench.router.cancel("i-7")
      #expect(await answer.message == "UNAVAILABLE: node invoke cancelled")
      #expect(await eventually { ended.withLock { $0 } })
    }
  }

  @Test("a caller that goes away takes its invoke with it", arguments: [false, true])
  func callerGoes(isUnderWay: Bool) async {
    let started = Lock(false)
    let cancelled = Lock(false)
    let sleeper = ScriptedModule.echo { _ throws(CommandError) in
      started.withLock { $0 = true }
      try? await Task.sleep(for: .seconds(3600))
      cancelled.withLock { $0 = Task.isCancelled }
      return .none
    }
    await Bench.with([sleeper]) { bench in
      let caller = Task { await bench.ask("echo.tell") }
      if isUnderWay { #expect(await eventually { started.withLock { $0 } }) }
      caller.cancel()
      #expect(await caller.value.message == "UNAVAILABLE: node invoke cancelled")
      #expect(await bench.router.unanswered == 0)
      if isUnderWay { #expect(await eventually { cancelled.withLock { $0 } }) }
    }
  }

  @Test("who does not wait is told of the outcome once, on the loop, however it comes about")
  func answered() async {
    let isOver = Lock(false)
    let module = ScriptedModule.echo { invocation throws(CommandError) in
      if invocation.command == "echo.tell" { return .none }
      while !isOver.withLock({ $0 }) && !Task.isCancelled { try? await Task.sleep(for: .milliseconds(5)) }
      return .none
    }
    await Bench.with([module, ScriptedModule.camera()]) { bench in
      let told = Lock<[String: [String]]>([:])
      func ask(_ id: String, _ command: String, timeoutMs: Int64 = 0, key: String? = nil) async {
        let request = InvokeRequest(
          id: id, nodeID: "n", command: command, paramsText: nil, timeoutMs: timeoutMs, idempotencyKey: key)
        await bench.router.handle(request, from: .gateway("g"), payloadLimit: 1 << 20) { outcome in
          bench.loop.checkIsolated()
          told.withLock { $0[id, default: []].append(outcome.message ?? outcome.code) }
        }
      }
      func isTold(_ id: String, _ what: String) async -> Bool {
        await eventually { told.withLock { $0[id]?.first?.contains(what) ?? false } }
      }
      await ask("unknown", "no.such")
      await ask("off", "camera.snap")
      await ask("first", "echo.tell", key: "k")
      #expect(await isTold("first", "ok"))
      await ask("repeat", "echo.tell", key: "k")
      await ask("late", "echo.say", timeoutMs: 10)
      await ask("cancelled", "echo.say", timeoutMs: 60_000)
      await bench.router.cancel("cancelled")
      await ask("stopped", "echo.say", timeoutMs: 60_000)
      #expect(await isTold("late", "timed out"))
      await bench.router.stop()
      await ask("after", "echo.tell")
      #expect(await isTold("unknown", "unknown command"))
      #expect(await isTold("off", "CAMERA_DISABLED"))
      #expect(await isTold("repeat", "ok"))
      #expect(await isTold("cancelled", "node invoke cancelled"))
      #expect(await isTold("stopped", "the node is stopping"))
      #expect(await isTold("after", "the node is stopping"))
      isOver.withLock { $0 = true }
      #expect(told.withLock { $0.values.allSatisfy { $0.count == 1 } })
      #expect((try? await bench.audit.read(last: 20))?.count == 8)
    }
  }

  @Test("a repeat while the first still runs waits for it and gets the same; the module ran once")
  func repeats() async {
    let runs = Lock(0)
    let gate = Lock(false)
    let counter = ScriptedModule.echo { _ throws(CommandError) in
      let run = runs.withLock { runs -> Int in
        runs += 1
        return runs
      }
      _ = await eventually { gate.withLock { $0 } }
      return .json(["run": .int(Int64(run))])
    }
    await Bench.with([counter]) { bench in
      async let first = bench.ask("echo.tell", id: "1", key: "k")
      async let second = bench.ask("echo.tell", id: "2", key: "k")
      _ = await eventually { runs.withLock { $0 } == 1 }
      gate.withLock { $0 = true }
      #expect(await [first.text, second.text] == [#"{"run":1}"#, #"{"run":1}"#])
      #expect(await bench.ask("echo.tell", key: "k").text == #"{"run":1}"#)
      #expect(await bench.ask("echo.tell", key: "other").text == #"{"run":2}"#)
      #expect(await bench.ask("echo.say", key: "k").text == #"{"run":3}"#)
    }
  }

  @Test("a repeat that waits in the queue is answered although the first asker has gone")
  func firstAskerGoes() async {
    let gate = Lock(false)
    let held = ScriptedModule.echo { invocation throws(CommandError) in
      _ = await eventually { gate.withLock { $0 } }
      return .json(["id": .string(invocation.id)])
    }
    await Bench.with([held]) { bench in
      await withTaskGroup(of: Void.self) { group in
        for number in 0..<8 { group.addTask { _ = await bench.ask("echo.tell", id: "\(number)") } }
        _ = await eventually { await bench.router.inFlight == 8 }
        group.addTask {
          #expect(await bench.ask("echo.tell", id: "first", key: "k").message?.contains("cancelled") == true)
        }
        _ = await eventually { await bench.router.unanswered == 9 }
        group.addTask { #expect(await bench.ask("echo.tell", id: "second", key: "k").text == #"{"id":"second"}"#) }
        _ = await eventually { await bench.router.unanswered == 10 }
        await bench.router.cancel("first")
        gate.withLock { $0 = true }
      }
    }
  }

  @Test("at most eight run at once, and all of a burst are answered")
  func burst() async {
    let running = Lock((now: 0, most: 0))
    let busy = ScriptedModule.echo { _ throws(CommandError) in
      running.withLock {
        $0.now += 1
        $0.most = max($0.most, $0.now)
      }
      try? await Task.sleep(for: .milliseconds(2))
      running.withLock { $0.now -= 1 }
      return .none
    }
    await Bench.with([busy]) { bench in
      let codes = await withTaskGroup(of: String.self) { group in
        for number in 0..<100 { group.addTask { await bench.ask("echo.tell", id: "\(number)").code } }
        return await group.reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
      }
      #expect(running.withLock { $0.most } == 8)
      #expect(codes.values.reduce(0, +) == 100 && codes["ok", default: 0] >= 72)
      #expect(Set(codes.keys).isSubset(of: ["ok", "UNAVAILABLE"]))
    }
  }

  @Test("a result that would burst the gateway's limit is refused, to the byte, as it stands in the frame")
  func tooLarge() async {
    let text = Array(#"{"a":"x"}"#.utf8)
    let module = ScriptedModule.echo { _ throws(CommandError) in .encoded(text) }
    await Bench.with([module]) { bench in
      #expect(escapedCount(text) == text.count + 4)
      #expect(await bench.ask("echo.say", limit: text.count + 4).text == #"{"a":"x"}"#)
      #expect(await bench.ask("echo.say", limit: text.count + 3).code == "PAYLOAD_TOO_LARGE")
      let frame = InvokeOutcome.success(text).resultFrame(
        requestID: "r", invoke: InvokeRequest(id: "i", nodeID: "n", command: "c"))
      let empty = InvokeOutcome.success([]).resultFrame(
        requestID: "r", invoke: InvokeRequest(id: "i", nodeID: "n", command: "c"))
      #expect(frame.count - empty.count == escapedCount(text))
    }
  }

  @Test("a reason as long as a book is cut short, not sent")
  func longReason() async {
    let module = ScriptedModule.echo { _ throws(CommandError) in
      throw CommandError("X_FAILED", String(repeating: "long ", count: 10000))
    }
    await Bench.with([module]) { bench in
      let outcome = await bench.ask("echo.say", limit: 4096)
      #expect(outcome.code == "X_FAILED" && (outcome.message?.utf8.count ?? 0) < 100)
    }
  }

  @Test("turning a switch off ends what runs under it")
  func switchedOff() async throws {
    let started = Lock(false)
    let camera = ScriptedModule.camera { _ throws(CommandError) in
      started.withLock { $0 = true }
      try? await Task.sleep(for: .seconds(3600))
      return .none
    }
    try await Bench.with([camera, echo]) { bench in
      try bench.switches.set("camera", enabled: true)
      async let picture = bench.ask("camera.snap")
      _ = await eventually { started.withLock { $0 } }
      try bench.switches.set("camera", enabled: false)
      await bench.router.switchesChanged()
      #expect(await picture.code == "CAMERA_DISABLED")
    }
  }

  @Test("an invoke waits for its module's start, and not for another's")
  func starts() async {
    let gate = Lock(false)
    let order = Lock<[String]>([])
    var slow = ScriptedModule.camera()
    slow.starting = { _ = await eventually { gate.withLock { $0 } } }
    var quick = echo
    quick.starting = { order.withLock { $0.append("start") } }
    let modules: [any CapabilityModule] = [slow, quick]
    await Bench.with(modules) { bench in
      // Without `start()` too: in-process commands need no ceremony.
      #expect(await bench.ask("echo.say").code == "ok")
      async let start: Void = bench.router.start()
      #expect(await bench.ask("echo.say").code == "ok")
      gate.withLock { $0 = true }
      await start
      #expect(order.withLock { $0 } == ["start"])
    }
  }

  @Test("when the node stops, who waits is told so, and who comes later too")
  func stops() async {
    let started = Lock(false)
    let sleeper = ScriptedModule.echo { _ throws(CommandError) in
      started.withLock { $0 = true }
      try? await Task.sleep(for: .seconds(3600))
      return .none
    }
    await Bench.with([sleeper]) { bench in
      async let answer = bench.ask("echo.tell")
      _ = await eventually { started.withLock { $0 } }
      await bench.router.stop()
      #expect(await answer.message == "UNAVAILABLE: the node is stopping")
      #expect(await bench.ask("echo.tell").message == "UNAVAILABLE: the node is stopping")
    }
  }

  @Test("every invoke is in the audit log: who, what, how it ended; never what it was about")
  func audit() async {
    let secret = "very-secret"
    let module = ScriptedModule.echo { _ throws(CommandError) in .json(["text": .string(secret)]) }
    await Bench.with([module, ScriptedModule.camera()]) { bench in
      _ = await bench.ask("echo.say", params: #"{"password":"very-secret"}"#, key: "k")
      _ = await bench.ask("echo.say", key: "k")
      _ = await bench.ask("camera.snap", from: .local)
      _ = await bench.ask("no.such\nthing")
      let entries = (try? await bench.audit.read(last: 10)) ?? []
      #expect(entries.map(\.command) == ["echo.say", "echo.say", "camera.snap", "no.such\nthing"])
      #expect(entries.map(\.outcome) == ["ok", "ok", "CAMERA_DISABLED", "INVALID_REQUEST"])
      #expect(entries.map(\.isRepeat) == [false, true, false, false])
      #expect(entries.map(\.origin) == [.gateway("g"), .gateway("g"), .local, .gateway("g")])
      #expect(Files.text(bench.audit.path)?.contains(secret) == false)
    }
  }

  @Test("a random storm of invokes, repeats, cancels and deadlines: each is answered once")
  func storm() async {
    let seed = UInt64.random(in: 0 ... .max)
    let module = ScriptedModule.echo { invocation throws(CommandError) in
      let wait = invocation.lenientParams["wait"]?.int ?? 0
      try? await Task.sleep(for: .milliseconds(wait))
      if wait % 3 == 0 { throw CommandError("X_FAILED", "as it was told") }
      return .json(["wait": .int(wait)])
    }
    await Bench.with([module]) { bench in
      var random = SeededRandom(seed: seed)
      let asks = (0..<60).map { number in
        (
          number, Int64.random(in: 0...20, using: &random), Int64.random(in: 5...200, using: &random),
          Bool.random(using: &random) ? "k\(Int.random(in: 0...5, using: &random))" : nil,
          Int.random(in: 0...4, using: &random) == 0
        )
      }
      let answers = await withTaskGroup(of: InvokeOutcome.self) { group in
        for (number, wait, timeout, key, isCancelled) in asks {
          group.addTask {
            await bench.ask("echo.tell", id: "\(number)", params: #"{"wait":\#(wait)}"#, timeoutMs: timeout, key: key)
          }
          if isCancelled { await bench.router.cancel("\(number)") }
        }
        return await group.reduce(into: []) { $0.append($1) }
      }
      #expect(answers.count == 60, "seed \(seed)")
      let known: Set<String> = ["ok", "X_FAILED", "UNAVAILABLE"]
      #expect(answers.allSatisfy { known.contains($0.code) }, "seed \(seed)")
    }
  }
}
