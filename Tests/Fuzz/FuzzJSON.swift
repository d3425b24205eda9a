// covers, as json: Sources/GatewayProtocol/JSON.swift Sources/GatewayProtocol/JSONParser.swift Sources/GatewayProtocol/JSONWriter.swift
import GatewayProtocol

/// JSON and the frames in it: what was read is written and read again as the same value.
@Sendable func fuzzJSON(_ bytes: UnsafeRawBufferPointer) {
  guard let value = try? JSON(parsing: bytes) else { return }
  let written = value.encoded()
  guard let again = try? JSON(parsing: written) else { preconditionFailure("own JSON is not read: \(value.text)") }
  precondition(again == value, "own JSON is read otherwise: \(value.text)")
}
