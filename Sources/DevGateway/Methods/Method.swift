import GatewayProtocol

/// One method of the gateway: who may call it, and what answers. Each family has a file of its own and adds its list to
/// `Method.families`.
struct Method: Sendable {
  let name: String
  let role: Role
  /// Scopes an operator must hold, all of them.
  let scopes: [String]
  let run: @Sendable (isolated DevGateway, Call) throws(WireError) -> Answer

  init(
    _ name: String, _ role: Role, _ scopes: String...,
    run: @escaping @Sendable (isolated DevGateway, Call) throws(WireError) -> Answer
  ) {
    self.name = name
    self.role = role
    self.scopes = scopes
    self.run = run
  }

  static let families: [[Method]] = [devices, surfaces, nodes, nodeSide, chats, talks, house]

  static let table = Dictionary(families.joined().map { ($0.name, $0) }) { first, _ in first }
}

/// A request that has passed its gates.
struct Call {
  let id: String
  let method: String
  let params: JSON?
  let connection: Connection
  let seat: Admission.Welcome

  /// The node that calls.
  var nodeID: String { seat.deviceID ?? "" }

  /// Params with no members but `known`; their mistakes are the caller's (§2: objects are closed).
  func closed(_ known: String...) throws(WireError) -> ClosedObject {
    try reading { () throws(SchemaError) in try ClosedObject(params, known: Set(known)) }
  }

  func reading<Value>(_ read: () throws(SchemaError) -> Value) throws(WireError) -> Value {
    do { return try read() } catch { throw Self.invalid(method, error.text) }
  }

  static func invalid(_ method: String, _ problem: String) -> WireError {
    WireError(code: "INVALID_REQUEST", message: "invalid \(method) params: \(problem)")
  }
}

enum Answer {
  case payload(JSON)
  /// Will be answered later, by the call's id on its connection.
  case later
}

extension WireError {
  static func invalid(_ message: String, details: JSON? = nil) -> WireError {
    WireError(code: "INVALID_REQUEST", message: message, details: details)
  }
}
