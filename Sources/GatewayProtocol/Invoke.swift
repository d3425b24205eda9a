/// What a node offers, as it is declared at connect (protocol §3.2).
public struct NodeSurface: Sendable, Equatable {
  /// Sorted.
  public var caps: [String]
  /// Sorted.
  public var commands: [String]
  public var permissions: [String: Bool]
  public init(caps: [String] = [], commands: [String] = [], permissions: [String: Bool] = [:]) {
    self.caps = caps
    self.commands = commands
    self.permissions = permissions
  }
}

/// The event `node.invoke.request` (protocol §10.2).
public struct InvokeRequest: Sendable, Equatable {
  public var id: String
  public var nodeID: String
  public var command: String
  /// The params' JSON text, not parsed: a module decodes it by its own rules.
  public var paramsText: [UInt8]?
  /// The caller's remaining time: nil = not said (30 s), 0 = the node's own limit.
  public var timeoutMs: Int64?
  public var idempotencyKey: String?
  public var sessionKey: String?

  public init(
    id: String, nodeID: String, command: String, paramsText: [UInt8]? = nil, timeoutMs: Int64? = nil,
    idempotencyKey: String? = nil, sessionKey: String? = nil
  ) {
    self.id = id
    self.nodeID = nodeID
    self.command = command
    self.paramsText = paramsText
    self.timeoutMs = timeoutMs
    self.idempotencyKey = idempotencyKey
    self.sessionKey = sessionKey
  }

  private static func isBlank(_ character: Character) -> Bool {
    character.isWhitespace || character.unicodeScalars.contains { $0.properties.generalCategory == .control }
  }

  /// Reads the event's payload; nil when id, node id or command is missing or blank, or an id or key over 512 bytes: such a frame is ignored (node-commands §1.1). A
  /// payload that is a string holding the object, and a `params` object in place of `paramsJSON`, are understood.
  public init?(payload: JSON?) {
    var payload = payload
    if let text = payload?.string { payload = try? JSON(parsing: text) }
    func filled(_ key: String) -> String? {
      guard let text = payload?[key]?.string else { return nil }
      return text.unicodeScalars.contains { !$0.properties.isWhitespace } ? text : nil
    }
    guard let id = filled("id"), let nodeID = filled("nodeId"), let command = filled("command") else { return nil }
    idempotencyKey = filled("idempotencyKey")
    sessionKey = filled("sessionKey")
    // Kept, compared and told: whoever sends more means harm.
    guard id.utf8.count <= Self.mostBytes, nodeID.utf8.count <= Self.mostBytes,
      idempotencyKey?.utf8.count ?? 0 <= Self.mostBytes, sessionKey?.utf8.count ?? 0 <= Self.mostBytes
    else { return nil }
    self.id = id
    self.nodeID = nodeID
    // No command is as long; what is left of it is answered as unknown.
    let name = String(decoding: command.utf8.prefix(Self.mostBytes), as: UTF8.self)
    let isPlain = name.utf8.allSatisfy { 0x21...0x7E ~= $0 }
    // Names are shown to people: line ends and what moves a terminal's cursor are not part of any.
    let shown = isPlain ? name : name.split(whereSeparator: Self.isBlank).joined(separator: " ")
    if shown.isEmpty { return nil }
    self.command = shown
    if let text = payload?["paramsJSON"]?.string {
      paramsText = Array(text.utf8)
    } else {
      paramsText = payload?["params"]?.encoded()
    }
    timeoutMs = payload?["timeoutMs"]?.double.map { Int64(min(max($0.rounded(.up), 0), 2_147_483_647)) }
  }

  /// For ids, keys and names.
  private static let mostBytes = 512
}

/// How an invoke ended.
public enum InvokeOutcome: Sendable, Equatable {
  /// The payload's JSON text; nil for a command that returns nothing.
  case success([UInt8]?)
  /// The `error` object: `code`, `message`, `details?`, `retryable?`, `retryAfterMs?`.
  case failure(JSON)

  /// The frame of the request `node.invoke.result`, written without passing large text through values.
  public func resultFrame(requestID: String, invoke: InvokeRequest) -> [UInt8] {
    var out: [UInt8] = []
    if case .success(let text?) = self { out.reserveCapacity(text.count + text.count / 16 + 256) }
    func member(_ name: StaticString, _ value: String) {
      out.append(contentsOf: "\"\(name)\":".utf8)
      JSON.encode(string: value, into: &out)
      out.append(UInt8(ascii: ","))
    }
    out.append(contentsOf: #"{"type":"req","method":"node.invoke.result","#.utf8)
    member("id", requestID)
    out.append(contentsOf: #""params":{"#.utf8)
    member("id", invoke.id)
    member("nodeId", invoke.nodeID)
    switch self {
    case .success(let text):
      out.append(contentsOf: #""ok":true"#.utf8)
      if let text {
        out.append(contentsOf: #","payloadJSON":"#.utf8)
        text.withUnsafeBytes { JSON.encode(stringBytes: $0, into: &out) }
      }
    case .failure(let error):
      out.append(contentsOf: #""ok":false,"error":"#.utf8)
      error.encode(into: &out)
    }
    out.append(contentsOf: "}}".utf8)
    return out
  }
}
