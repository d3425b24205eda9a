// covers, as json: Sources/GatewayProtocol/JSON.swift Sources/GatewayProtocol/JSONParser.swift Sources/GatewayProtocol/JSONWriter.swift Sources/GatewayProtocol/Frame.swift Sources/GatewayProtocol/WireError.swift
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
}
