/// An error object of a response (protocol §2.4). Decisions are made on `detailsCode`, never on the message.
public struct WireError: Error, Sendable, Equatable, CustomStringConvertible {
  public var code: String
  public var message: String
  public var details: JSON?
  public var retryable: Bool?
  public var retryAfterMs: Int64?

  public init(code: String, message: String, details: JSON? = nil, retryable: Bool? = nil, retryAfterMs: Int64? = nil) {
    self.code = code
    self.message = message
    self.details = details
    self.retryable = retryable
    self.retryAfterMs = retryAfterMs
  }

  /// Reads an error object leniently: a gateway that leaves something out is still understood.
  public init(json: JSON?) {
    code = json?["code"]?.string ?? "UNAVAILABLE"
    message = json?["message"]?.string ?? "the gateway gave no reason"
    details = json?["details"]
    retryable = json?["retryable"]?.bool
    retryAfterMs = json?["retryAfterMs"]?.int
  }

  public var json: JSON {
    .object(present: [
      "code": .string(code), "message": .string(message), "details": details, "retryable": retryable.map(JSON.bool),
      "retryAfterMs": retryAfterMs.map(JSON.int),
    ])
  }

  /// `details.code`, the stable word of a handshake failure; nil when there is none.
  public var detailsCode: String? { details?["code"]?.string }
  public var description: String { "\(code): \(message)" }
}
