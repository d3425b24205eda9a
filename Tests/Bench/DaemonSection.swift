import GatewayProtocol
import Glibc
import System

/// `talknode run` as a service: how fast it is there, what it holds, how quiet it is.
extension Section {
  static let daemon = Section(name: "daemon") { options in
    let bed = try await TestBed(options, allow: ["device.info"])
    defer { withExtendedLifetime(bed) {} }
    do {
      let figures = try await measureDaemon(options, bed)
      await bed.close()
      return figures
    } catch {
      await bed.close()
      throw error
    }
  }

  private static func measureDaemon(_ options: Options, _ bed: TestBed) async throws -> [Figure] {
    let id = try await bed.startNode(awaiting: "device.info")
    // The first seconds are the connecting itself.
    try await Task.sleep(for: .seconds(options.isQuick ? 2 : 5))
    let memory = try Machine.memory(of: bed.process)

    let before = Machine.sleeps(of: bed.process)
    let seconds = options.isQuick ? 5.0 : 60.0
    try await Task.sleep(for: .seconds(seconds))
    let after = Machine.sleeps(of: bed.process)

    var status = Samples()
    for _ in 0..<options.times(60) {
      status.add(try Child.milliseconds(options.program, ["status", "--json", "--state", bed.state]))
    }

    let answered = try await used(bed, id)

    let start = try await startTimes(options, bed)
    return [
      Figure(
        "start of `run` to READY", unit: "ms", value: start.ready.median, target: .atMost(50), comparison: start.other),
      Figure("`status` as a process", unit: "ms", value: status.median, target: .atMost(15)),
      Figure(
        "resident memory, connected and idle", unit: "MB", value: memory.resident, target: .atMost(16),
        note: memory.share.map { "of it its own: \(Report.text($0, "MB"))" }),
      Figure("… after 1000 invokes", unit: "MB", value: answered),
      Figure(
        "wake-ups while idle", unit: "/min", value: Double(after.count - before.count) * 60 / seconds,
        note: "\(after.threads) threads, over \(Report.text(seconds, "s"))"),
    ]
  }

  private static func used(_ bed: TestBed, _ node: String) async throws -> Double {
    let client = try await bed.makeOperator()
    for _ in 0..<1000 { _ = try await client.request("node.invoke", Operator.invoke("device.info", of: node)) }
    await client.close()
    return try Machine.memory(of: bed.process).resident
  }

  /// From the start of the process to READY=1, with a paired gateway in its state folder; and the same for the nearest thing to it that is
  /// on this machine: a Python program that has loaded a WebSocket and an Ed25519.
  private static func startTimes(
    _ options: Options, _ bed: TestBed
  ) async throws -> (ready: Samples, other: (String, Double)?) {
    var ready = Samples()
    bed.endNode()
    for _ in 0..<options.times(40) {
      let socket = try NotifySocket(in: bed.folder)
      let start = Monotonic.now()
      let child = try Child(
        options.program, ["run", "--state", bed.state], environment: ["NOTIFY_SOCKET": socket.path])
      try socket.awaitReady()
      ready.add((Monotonic.now() - start).milliseconds)
      child.kill()
    }
    let python = ".build/venv/bin/python"
    guard access(python, X_OK) == 0 else { return (ready, nil) }
    var other = Samples()
    let loads = "import asyncio, websockets.asyncio.client, cryptography.hazmat.primitives.asymmetric.ed25519"
    for _ in 0..<options.times(10) { other.add(try Child.milliseconds(python, ["-c", loads])) }
    return (ready, ("Python client", other.median))
  }
}
