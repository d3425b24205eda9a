import GatewayProtocol
import System
import Transport

/// Requests of an open connection: the frame, the role, the scope, then the method (protocol §2, §5.2).
extension DevGateway {
  /// More than this many calls of the other role's methods in a row end the socket (§1.2).
  static let mostRoleErrors = 10

  func takeRequest(_ message: Message, from connection: Connection, seat: Admission.Welcome) {
    let frame: RawObject
    do { frame = try RawObject(message.bytes) } catch {
      return invalidFrame(connection, id: nil, "\(error)")
    }
    let id = frame.string("id") ?? ""
    guard frame.string("type") == "req" else { return invalidFrame(connection, id: id, "type must be req") }
    if id.isEmpty { return invalidFrame(connection, id: nil, "id must be a non-empty string") }
    guard let method = frame.string("method"), !method.isEmpty else {
      return invalidFrame(connection, id: id, "method must be a non-empty string")
    }
    if let extra = frame.members.map(\.key).first(where: { !Self.requestMembers.contains($0) }) {
      return invalidFrame(connection, id: id, "unexpected property '\(extra)'")
    }
    if method == Self.resultMethod && seat.role == .node {
      connection.roleErrors = 0
      return takeResult(frame, id: id, from: connection)
    }
    do throws(WireError) {
      let call = Call(id: id, method: method, params: frame.json("params"), connection: connection, seat: seat)
      if case .payload(let payload) = try perform(call), !holds(payload, of: call) {
        connection.answer(id, .success(payload))
      }
    } catch {
      connection.answer(id, .failure(error))
      if connection.roleErrors > Self.mostRoleErrors { connection.close(1008, "repeated unauthorized calls") }
    }
  }

  /// Not in the table, because it is answered from its text.
  private static let resultMethod = "node.invoke.result"

  private static let requestMembers: Set<String> = [
    "type", "id", "method", "params", "traceparent", "expectedProfileId",
  ]

  private func invalidFrame(_ connection: Connection, id: String?, _ problem: String) {
    let id = id.flatMap { $0.isEmpty ? nil : $0 } ?? "invalid"
    connection.answer(id, .failure(.invalid("invalid request frame: \(problem)")))
  }

  private func perform(_ call: Call) throws(WireError) -> Answer {
    if call.method == "connect" { throw .invalid("connect is only valid as the first request") }
    guard let method = offered(call.method), method.role == call.seat.role else {
      // A node is told the same about methods that do not exist (§10.1).
      let exists = offered(call.method) != nil || call.method == Self.resultMethod
      if call.seat.role == .operator && !exists { throw .invalid("unknown method: \(call.method)") }
      call.connection.roleErrors += 1
      throw .invalid("unauthorized role: \(call.seat.role.rawValue)")
    }
    call.connection.roleErrors = 0
    if method.role == .operator { try Scope.demand(method.scopes, of: call.seat.scopes) }
    return try method.run(self, call)
  }

  /// What this gateway has: an old one lacks the newer of the two surface methods, a new one the older.
  private func offered(_ name: String) -> Method? {
    let missing = options.protocol3 ? "node.pluginSurface.refresh" : "node.canvas.capability.refresh"
    return name == missing ? nil : Method.table[name]
  }

  var advertisedMethods: [String] {
    Method.families.joined().map(\.name).filter { offered($0) != nil } + [Self.resultMethod]
  }
}
