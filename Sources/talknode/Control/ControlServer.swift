import GatewayProtocol
import Glibc
import System
import Transport

/// What the control socket asks of the daemon.
protocol ControlHandler: Sendable {
  /// The result's JSON text.
  func answer(_ request: ControlRequest) async throws(Failure) -> [UInt8]
  /// The status now and at each change, the newest only.
  func follow() async -> AsyncStream<JSON>
  /// What goes on while a person talks.
  func watchTalk() async -> AsyncStream<JSON>
}

/// Serves the control socket: each line a request, answered in turn. Only the same user may speak.
struct ControlServer: Sendable {
  private let server: UnixServer

  init(instance: Instance, handler: any ControlHandler, loop: EventLoop) throws(Failure) {
    let path = instance.socket
    let guests = Guests()
    do {
      try Files.makeFolder(String(path[..<path.lastIndex(of: "/")!]))
      server = try UnixServer(path: path, loop: loop) { connection in
        await Self.serve(connection, handler, guests)
      }
    } catch {
      throw Failure(
        "CONTROL_SOCKET", "The control socket can't be opened.", cause: "\(error)",
        remedy: "Use a state folder with a shorter path, on a file system of this machine: talknode run --state DIR",
        exit: .cantCreate)
    }
  }

  func start() async { await server.start() }
  func stop() async { await server.stop() }

  private static func serve(_ connection: UnixConnection, _ handler: any ControlHandler, _ guests: Guests) async {
    // The socket is 0600 already; on a shared /tmp its folder might not be ours.
    guard connection.peerUser == geteuid() else { return await connection.close() }
    let isWelcome = guests.enter()
    defer { if isWelcome { guests.leave() } }
    if isWelcome {
      await converse(connection, handler)
    } else {
      let busy = Failure("BUSY", "Too many programs are talking to talknode.", exit: .temporary)
      try? await connection.writeLine(ControlAnswer.failure(busy).line)
    }
    await connection.close()
  }

  private static func converse(_ connection: UnixConnection, _ handler: any ControlHandler) async {
    var next = Self.nextLine(connection)
    while let line = await next.value {
      next = Self.nextLine(connection)
      let answer: ControlAnswer
      do throws(Failure) {
        let json: JSON
        do { json = try JSON(parsing: line) } catch {
          throw Failure("CONTROL_REQUEST", "The request is no JSON.", cause: "\(error)", exit: .protocolError)
        }
        let request = try ControlRequest(json: json)
        if request == .follow { return await stream(await handler.follow(), to: connection, until: next) }
        if request == .watchTalk { return await stream(await handler.watchTalk(), to: connection, until: next) }
        answer = .result(try await Self.answer(request, handler, next))
      } catch {
        answer = .failure(error)
      }
      do { try await connection.writeLine(answer.line) } catch { return }
    }
  }

  private static func nextLine(_ connection: UnixConnection) -> Task<[UInt8]?, Never> {
    Task { try? await connection.readLine(limit: ControlProtocol.requestLimit) }
  }

  /// A command that a person asked for ends when the person has gone: with Ctrl-C the camera is let go.
  private static func answer(
    _ request: ControlRequest, _ handler: any ControlHandler, _ next: Task<[UInt8]?, Never>
  ) async throws(Failure) -> [UInt8] {
    guard case .invoke = request else { return try await handler.answer(request) }
    let work = Task { () -> Result<[UInt8], Failure> in
      do throws(Failure) { return .success(try await handler.answer(request)) } catch { return .failure(error) }
    }
    let watch = Task { if await next.value == nil { work.cancel() } }
    defer { watch.cancel() }
    return try await work.value.get()
  }

  /// Writes each event until the client hangs up, which is all that it can say now.
  private static func stream(
    _ events: AsyncStream<JSON>, to connection: UnixConnection, until next: Task<[UInt8]?, Never>
  ) async {
    let writer = Task {
      for await event in events {
        do { try await connection.writeLine(ControlAnswer.event(event).line) } catch { break }
      }
      await connection.close()
    }
    _ = await next.value
    writer.cancel()
    await writer.value
  }

  /// Counts the clients.
  private final class Guests: Sendable {
    private let count = Lock(0)
    func enter() -> Bool {
      count.withLock { count in
        if count >= ControlProtocol.connectionLimit { return false }
        count += 1
        return true
      }
    }
    func leave() { count.withLock { $0 -= 1 } }
  }
}
