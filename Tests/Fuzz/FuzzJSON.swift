// covers, as json: Sources/GatewayProtocol/JSON.swift Sources/GatewayProtocol/JSONParser.swift Sources/GatewayProtocol/JSONWriter.swift Sources/GatewayProtocol/Frame.swift Sources/GatewayProtocol/WireError.swift Sources/GatewayProtocol/Invoke.swift
import GatewayProtocol

/// JSON and the protocol's frames: what was read is written and read again as the same value.
@Sendable func fuzzJSON(_ bytes: UnsafeRawBufferPointer) {
  guard let value = try? JSON(parsing: bytes) else { return }
  guard let again = try? JSON(parsing: value.encoded()) else {
    preconditionFailure("own JSON is not read: \(value.text)")
  }
  precondition(again == value, "own JSON is read otherwise: \(value.text)")
  // A gateway reads more strictly than a client: what it takes, the client takes as the same frame.
  guard let frame = try? Frame(json: value) else {
    precondition((try? Frame(json: value, closed: true)) == nil, "a frame for the gateway alone: \(value.text)")
    return
  }
  if let closed = try? Frame(json: value, closed: true) { precondition(closed == frame) }
  precondition((try? Frame(decoding: frame.encoded())) == frame, "own frame is read otherwise: \(value.text)")
  if case .event(let event) = frame { checkInvoke(event.payload) }
}

/// Whatever an invoke's event holds, its answer is one frame that names the same invoke and holds the same payload.
private func checkInvoke(_ payload: JSON?) {
  guard let invoke = InvokeRequest(payload: payload) else { return }
  precondition(!invoke.id.isEmpty && !invoke.nodeID.isEmpty && !invoke.command.isEmpty)
  precondition(invoke.timeoutMs.map { (0...2_147_483_647).contains($0) } ?? true)
  let text = invoke.paramsText ?? Array("{}".utf8)
  let answer = InvokeOutcome.success(text).resultFrame(requestID: "r", invoke: invoke)
  guard case .request(let request)? = try? Frame(decoding: answer) else {
    preconditionFailure("own answer is no frame: \(String(decoding: answer, as: UTF8.self))")
  }
  precondition(request.params?["id"]?.string == invoke.id && request.params?["nodeId"]?.string == invoke.nodeID)
  precondition(request.params?["payloadJSON"]?.string.map { Array($0.utf8) } == text, "another payload than was given")
}
