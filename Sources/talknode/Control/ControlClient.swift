import GatewayProtocol
import System
import Transport

/// A connection to the daemon of a state folder.
struct ControlClient: Sendable {
  private let connection: UnixConnection

  /// Connects; nil when no daemon is running.
  static func connect(to instance: Instance, loop: EventLoop) async throws(Failure) -> ControlClient? {
    var paths = [instance.socket]
    if let last = instance.lastDaemon?.socket, last != instance.socket { paths.insert(last, at: 0) }
    for path in paths where Files.exists(path) {
      do {
        let connection = try await UnixConnection.connect(path: path, loop: loop, timeout: .seconds(2))
        return ControlClient(connection: connection)
      } catch {
        if error.kind == .timedOut {
          throw Failure(
            "DAEMON_SILENT", "The running talknode does not answer.", cause: "\(error)",
            remedy: "systemctl --user restart talknode", exit: .temporary)
        }
        // A socket nobody listens on is what a killed daemon leaves behind.
      }
    }
    return nil
  }

  /// Connects, or says how to start the daemon.
  static func require(_ instance: Instance, loop: EventLoop) async throws(Failure) -> ControlClient {
    guard let client = try await connect(to: instance, loop: loop) else {
      throw Failure(
        "NO_DAEMON", "talknode is not running.", cause: "nothing listens for the state folder \(instance.state)",
        remedy: "systemctl --user start talknode   (or in this terminal: talknode run)", exit: .unavailable)
    }
    return client
  }

  /// Sends a request and returns its result's JSON text.
  func callRaw(_ request: ControlRequest, timeout: Duration = .seconds(20)) async throws(Failure) -> [UInt8] {
    try await send(request)
    while true {
      switch try await answer(timeout) {
      case .event: continue
      case .result(let text): return text
      case .failure(let failure): throw failure
      }
    }
  }

  func call(_ request: ControlRequest, timeout: Duration = .seconds(20)) async throws(Failure) -> JSON {
    let text = try await callRaw(request, timeout: timeout)
    do { return try JSON(parsing: text) } catch { throw Self.lost("\(error)") }
  }

  /// Calls `onEvent` with the status now and at each change, until it returns false or the daemon ends.
  func follow(_ onEvent: (JSON) throws(Failure) -> Bool) async throws(Failure) { try await stream(.follow, onEvent) }

  /// The same for what goes on while a person talks.
  func watch(_ onEvent: (JSON) throws(Failure) -> Bool) async throws(Failure) { try await stream(.watchTalk, onEvent) }

  private func stream(_ request: ControlRequest, _ onEvent: (JSON) throws(Failure) -> Bool) async throws(Failure) {
    try await send(request)
    while true {
      switch try await answer(nil) {
      case .event(let json): if try !onEvent(json) { return }
      case .result: return
      case .failure(let failure): throw failure
      }
    }
  }

  func close() async { await connection.close() }

  private func send(_ request: ControlRequest) async throws(Failure) {
    let line = request.json.encoded()
    // The daemon would hang up without a word.
    if line.count > ControlProtocol.requestLimit {
      throw Failure("TOO_LARGE", "The request is over \(ControlProtocol.paramsLimit >> 20) MiB.", exit: .data)
    }
    do { try await connection.writeLine(line) } catch { throw Self.lost("\(error)") }
  }

  private func answer(_ timeout: Duration?) async throws(Failure) -> ControlAnswer {
    let connection = connection
    let line: [UInt8]?
    do {
      if let timeout {
        line = try await withDeadline(timeout) {
          try await connection.readLine(limit: ControlProtocol.answerLimit)
        }
      } else {
        line = try await connection.readLine(limit: ControlProtocol.answerLimit)
      }
    } catch is DeadlineExceeded {
      throw Failure(
        "DAEMON_SILENT", "The running talknode gave no answer in \(Int(timeout?.inSeconds ?? 0)) s.",
        remedy: "talknode status", exit: .temporary)
    } catch {
      throw Self.lost("\(error)")
    }
    guard let line else { throw Self.lost("it hung up") }
    return try ControlAnswer(line: line)
  }

  private static func lost(_ cause: String) -> Failure {
    Failure(
      "DAEMON_LOST", "The connection to the running talknode was lost.", cause: cause, remedy: "talknode status",
      exit: .temporary)
  }
}
