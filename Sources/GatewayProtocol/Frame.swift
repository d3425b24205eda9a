/// One frame: a JSON object a WebSocket message (protocol §2). Top-level members that are not known are an error when a gateway
/// reads (`closed`), and ignored when a client reads.
public enum Frame: Sendable, Equatable {
  case request(Request)
  case response(Response)
  case event(Event)

  public struct Request: Sendable, Equatable {
    public var id: String
    public var method: String
    public var params: JSON?
    public init(id: String, method: String, params: JSON? = nil) {
      self.id = id
      self.method = method
      self.params = params
    }
  }

  public struct Response: Sendable, Equatable {
    public var id: String
    public var result: Result<JSON?, WireError>
    public init(id: String, result: Result<JSON?, WireError>) {
      self.id = id
      self.result = result
    }
  }

  public struct Event: Sendable, Equatable {
    public var name: String
    public var payload: JSON?
    /// Only on broadcasts: a counter of this connection.
    public var seq: Int64?
    public var stateVersion: JSON?
    public init(name: String, payload: JSON? = nil, seq: Int64? = nil, stateVersion: JSON? = nil) {
      self.name = name
      self.payload = payload
      self.seq = seq
      self.stateVersion = stateVersion
    }
  }
}

/// Why bytes are no frame.
public enum FrameError: Error, Sendable, Equatable {
  case notJSON(JSONError)
  /// JSON, but no frame; `id` is the request id where one could be read.
  case invalid(String, id: String?)
}

extension Frame {
  /// Reads a frame. With `closed`, unknown top-level members are refused as the gateway does.
  public init(decoding bytes: some Collection<UInt8>, closed: Bool = false) throws(FrameError) {
    let json: JSON
    do { json = try JSON(parsing: bytes) } catch { throw .notJSON(error) }
    try self.init(json: json, closed: closed)
  }

  /// Reads a frame from its JSON value.
  public init(json: JSON, closed: Bool = false) throws(FrameError) {
    guard let members = json.object else { throw .invalid("a frame is an object", id: nil) }
    let id = json["id"]?.string
    func check(_ known: Set<String>) throws(FrameError) {
      guard closed, let extra = members.keys.filter({ !known.contains($0) }).min() else { return }
      throw .invalid("unexpected property '\(extra)'", id: id)
    }
    switch json["type"]?.string {
    case "req":
      guard let id, !id.isEmpty else { throw .invalid("id must be a non-empty string", id: nil) }
      guard let method = json["method"]?.string, !method.isEmpty else {
        throw .invalid("method must be a non-empty string", id: id)
      }
      try check(["type", "id", "method", "params", "traceparent", "expectedProfileId"])
      self = .request(Request(id: id, method: method, params: members["params"]))
    case "res":
      guard let id, !id.isEmpty else { throw .invalid("id must be a non-empty string", id: nil) }
      guard let ok = json["ok"]?.bool else { throw .invalid("ok must be a boolean", id: id) }
      try check(["type", "id", "ok", "payload", "error"])
      self = .response(
        Response(id: id, result: ok ? .success(json["payload"]) : .failure(WireError(json: json["error"]))))
    case "event":
      guard let name = json["event"]?.string, !name.isEmpty else {
        throw .invalid("event must be a non-empty string", id: nil)
      }
      self = .event(
        Event(name: name, payload: json["payload"], seq: json["seq"]?.int, stateVersion: json["stateVersion"]))
    default:
      throw .invalid("type must be req, res or event", id: id)
    }
  }

  public var json: JSON {
    switch self {
    case .request(let request):
      .object(present: [
        "type": "req", "id": .string(request.id), "method": .string(request.method), "params": request.params,
      ])
    case .response(let response):
      switch response.result {
      case .success(let payload):
        .object(present: ["type": "res", "id": .string(response.id), "ok": true, "payload": payload])
      case .failure(let error):
        .object(present: ["type": "res", "id": .string(response.id), "ok": false, "error": error.json])
      }
    case .event(let event):
      .object(present: [
        "type": "event", "event": .string(event.name), "payload": event.payload, "seq": event.seq.map(JSON.int),
        "stateVersion": event.stateVersion,
      ])
    }
  }

  public func encoded() -> [UInt8] { json.encoded() }
}
