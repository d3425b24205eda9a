import Configuration
import GatewayClient
import GatewayProtocol
import Glibc
import NodeKit
import System

enum DoctorCommand {
  static let verb = Verb(
    "doctor", "what works, what does not, why, and what to do about it", options: [.json, .config],
    notes: [
      "Ends with 0 when nothing is broken. A capability that this machine can't offer now is told, and is no fault."
    ],
    run: run)

  /// One finding.
  struct Finding: Sendable, Equatable {
    enum Grade: String, Sendable { case ok, note, problem }
    let grade: Grade
    let name: String
    let detail: String
    let remedy: String?

    init(_ grade: Grade, _ name: String, _ detail: String, remedy: String? = nil) {
      self.grade = grade
      self.name = name
      self.detail = detail
      self.remedy = remedy
    }

    var json: JSON {
      .object(present: [
        "grade": .string(grade.rawValue), "name": .string(name), "detail": .string(detail),
        "remedy": remedy.map(JSON.string),
      ])
    }
  }

  private static func run(_ arguments: Arguments, _ terminal: Terminal) async throws(Failure) -> ExitStatus {
    let context = Context(arguments, terminal)
    let loop = context.loop()
    defer { loop.stop() }
    var findings = settings(context)
    findings += state(context.instance)
    let layers = LayeredSettings(from: context.sources)
    var modules: [ModuleState]?
    var transcribers: [JSON]?
    do throws(Failure) {
      if let client = try await context.daemon(loop) {
        // The daemon knows better: it may run in another session, with another bus and other rights.
        let status = NodeStatus(json: try await client.call(.status))
        modules = try await client.call(.availability).array?.compactMap(ModuleState.init(json:))
        transcribers = try? await client.call(.talk(.transcribers), timeout: .seconds(30)).array
        if let status { findings += link(status) + triggers(status) }
      } else {
        findings.append(
          Finding(.note, "daemon", "talknode is not running.", remedy: "systemctl --user start talknode"))
      }
    } catch {
      findings.append(Finding(.problem, "daemon", error.summary, remedy: error.remedy))
    }
    let states: [ModuleState]
    if let modules {
      states = modules
    } else {
      let services = context.services(loop, settings: layers.settings)
      states = await ModuleState.all(Modules.all(layers.settings, services))
      transcribers = await services.talk.transcriberFindings().map(\.json)
      await services.talk.close()
      await services.close()
    }
    let located = context.services(loop, settings: layers.settings)
    findings += await location(located.locator)
    await located.close()
    findings += Self.transcribers(transcribers ?? [])
    findings += capabilities(states, context.capabilities(SwitchStore(path: context.instance.switches), loop))
    findings += await cameras(layers.settings, loop)
    if context.wantsJSON {
      terminal.print(["findings": .array(findings.map(\.json))])
    } else {
      for finding in findings { show(finding, terminal) }
    }
    return findings.contains { $0.grade == .problem } ? .failed : .ok
  }

  private static func show(_ finding: Finding, _ terminal: Terminal) {
    let mark =
      switch finding.grade {
      case .ok: terminal.styled("ok      ", .good)
      case .note: terminal.styled("note    ", .warning)
      case .problem: terminal.styled("problem ", .bad)
      }
    terminal.print("\(mark) \(finding.name): \(finding.detail)")
    if let remedy = finding.remedy { terminal.print("         try: \(remedy)") }
  }

  // MARK: What is looked at

  private static func settings(_ context: Context) -> [Finding] {
    let layers = LayeredSettings(from: context.sources)
    let problems = layers.problems.map { problem in
      Finding(
        problem.severity == .error ? .problem : .note, "settings", "\(problem.place): \(problem.summary)",
        remedy: problem.remedy)
    }
    if !problems.isEmpty { return problems }
    let files = layers.files.isEmpty ? "no file, all defaults" : layers.files.joined(separator: ", ")
    return [Finding(.ok, "settings", files)]
  }

  static func state(_ instance: Instance) -> [Finding] {
    var status = stat()
    guard lstat(instance.state, &status) == 0 else {
      return [Finding(.note, "state", "\(instance.state) does not exist yet.", remedy: "talknode pair CODE")]
    }
    var findings: [Finding] = []
    if status.st_uid != geteuid() {
      findings.append(
        Finding(.problem, "state", "\(instance.state) belongs to another user.", remedy: "talknode run --state DIR"))
    }
    for path in [instance.state] + Files.list(instance.state).map({ instance.state + "/" + $0 }) {
      guard lstat(path, &status) == 0, status.st_mode & 0o077 != 0, status.st_mode & S_IFMT != S_IFSOCK else {
        continue
      }
      findings.append(
        Finding(.problem, "state", "\(path) can be read by other users.", remedy: "chmod -R go-rwx \(instance.state)"))
    }
    for name in Files.list(instance.state) where name.contains(".damaged") {
      findings.append(Finding(.note, "state", "\(instance.state)/\(name) was found damaged and set aside."))
    }
    var space = statvfs()
    if statvfs(instance.state, &space) == 0, UInt64(space.f_bavail) * UInt64(space.f_frsize) < 16 << 20 {
      findings.append(Finding(.problem, "state", "Less than 16 MB are free where \(instance.state) is."))
    }
    return findings.isEmpty ? [Finding(.ok, "state", instance.state)] : findings
  }

  static func link(_ status: NodeStatus) -> [Finding] {
    var findings = [Finding(.ok, "daemon", "talknode \(status.version) runs, pid \(status.pid).")]
    if status.version != Version.number {
      findings[0] = Finding(
        .note, "daemon", "talknode \(status.version) runs, and this is \(Version.number).",
        remedy: "systemctl --user restart talknode")
    }
    guard let link = status.link else {
      findings.append(Finding(.note, "gateway", "No gateway is paired yet.", remedy: "talknode pair CODE"))
      return findings
    }
    for (name, socket) in [("node connection", link.node), ("operator connection", link.operator)] {
      switch socket {
      case .connected: findings.append(Finding(.ok, name, "up, to \(link.url)"))
      case .idle, .connecting: findings.append(Finding(.note, name, "not up yet."))
      case .waitingForApproval(_, let reason): findings.append(Finding(.note, name, "waits for approval: \(reason)"))
      case .backingOff(_, let reason): findings.append(Finding(.problem, name, reason, remedy: "talknode status"))
      case .stopped(_, let summary, let remedy): findings.append(Finding(.problem, name, summary, remedy: remedy))
      }
    }
    for approval in link.missing {
      findings.append(
        Finding(
          .problem, "approval", "The gateway waits for \(approval.what).",
          remedy: "on the gateway host: \(approval.command)"))
    }
    for command in link.withheld where command.reason != .notApproved {
      findings.append(
        Finding(
          .note, command.command, "The gateway withholds it (\(command.reason.rawValue)).", remedy: command.remedy))
    }
    return findings
  }

  /// Who turns speech into text: the first that can, and what it is good for. The others stand by, or say what they lack.
  static func transcribers(_ found: [JSON]) -> [Finding] {
    let used = found.firstIndex { $0["ready"]?.bool == true }
    var findings = found.enumerated().map { index, one in
      let name = "transcriber \(one["name"]?.string ?? "")"
      let detail = one["detail"]?.string ?? ""
      if index == used { return Finding(.ok, name, "is used: \(detail)") }
      if one["ready"]?.bool == true { return Finding(.ok, name, "stands by: \(detail)") }
      return Finding(used == nil ? .note : .ok, name, "can't be used: \(detail)", remedy: one["remedy"]?.string)
    }
    if used == nil {
      findings.append(Finding(.note, "transcriber", "Nobody can turn speech into text: what is said is kept as sound."))
    }
    return findings
  }

  static func triggers(_ status: NodeStatus) -> [Finding] {
    status.triggers.map { Finding($0.isReady ? .ok : .note, $0.name, $0.detail, remedy: $0.remedy) }
  }

  static func capabilities(_ states: [ModuleState], _ switches: [CapabilityState]) -> [Finding] {
    let off = switches.filter { !$0.isEnabled }
    return states.map { state in
      switch state.availability {
      case .ready: Finding(.ok, state.capability, "available")
      case .absent(let reason, let remedy): Finding(.note, state.capability, reason, remedy: remedy)
      }
    }
      + off.map { Finding(.ok, $0.name, "switched off", remedy: "talknode capabilities enable \($0.name)") }
  }
}
