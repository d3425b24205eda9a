import GatewayProtocol

/// How a connect is turned away: the error that answers it, and the close that follows (protocol §3.6, §5.5, §6.2).
public struct Refusal: Error, Sendable, Equatable {
  public var error: WireError
  public var closeCode: UInt16
  public var closeReason: String

  /// The close reason is the message unless another is given, cut to what fits in a close frame.
  public init(_ error: WireError, closeCode: UInt16 = 1008, closeReason: String? = nil) {
    self.error = error
    self.closeCode = closeCode
    self.closeReason = Self.fitting(closeReason ?? error.message)
  }

  /// At most 123 bytes, no character cut through.
  static func fitting(_ reason: String) -> String {
    if reason.utf8.count <= 123 { return reason }
    var kept = reason.unicodeScalars.prefix(123)
    while String(kept).utf8.count > 123 { kept.removeLast() }
    return String(kept)
  }

  /// As a gateway of protocol 3 says it: no details, what matters is in the message (§13).
  var bare: Refusal {
    var refusal = self
    if refusal.error.message != "protocol mismatch" { refusal.error.details = nil }
    if error.detailsCode == "PAIRING_REQUIRED" { refusal.error.message = closeReason }
    return refusal
  }

  // MARK: The handshake's own

  static let firstRequest = Refusal(
    WireError(code: "INVALID_REQUEST", message: "invalid handshake: first request must be connect"))
  static let role = Refusal(WireError(code: "INVALID_REQUEST", message: "invalid role"))
  static let deviceRequired = Refusal(
    WireError(
      code: "NOT_PAIRED", message: "device identity required", details: ["code": "DEVICE_IDENTITY_REQUIRED"]))
  static let starting = Refusal(
    WireError(
      code: "UNAVAILABLE", message: "gateway starting; retry shortly", details: ["reason": "startup-sidecars"],
      retryable: true, retryAfterMs: 500),
    closeCode: 1013, closeReason: "gateway starting")

  static func params(_ error: SchemaError) -> Refusal {
    Refusal(WireError(code: "INVALID_REQUEST", message: "invalid connect params: \(error.text)"))
  }

  static func proof(_ failure: DeviceProof.Failure) -> Refusal {
    Refusal(
      WireError(
        code: "INVALID_REQUEST", message: failure.message,
        details: ["code": .string(failure.code), "reason": .string(failure.reason)]))
  }
}

/// Why a credential did not let a client in (protocol §5.5).
public enum AuthFailure: String, Error, Sendable, CaseIterable {
  case tokenMissing = "token_missing"
  case tokenMismatch = "token_mismatch"
  case tokenNotConfigured = "token_missing_config"
  case passwordMissing = "password_missing"
  case passwordMismatch = "password_mismatch"
  case passwordNotConfigured = "password_missing_config"
  case bootstrapTokenInvalid = "bootstrap_token_invalid"
  case deviceTokenMismatch = "device_token_mismatch"
  case scopeMismatch = "scope_mismatch"
  case rateLimited = "rate_limited"

  public var code: String {
    switch self {
    case .tokenMissing: "AUTH_TOKEN_MISSING"
    case .tokenMismatch: "AUTH_TOKEN_MISMATCH"
    case .tokenNotConfigured: "AUTH_TOKEN_NOT_CONFIGURED"
    case .passwordMissing: "AUTH_PASSWORD_MISSING"
    case .passwordMismatch: "AUTH_PASSWORD_MISMATCH"
    case .passwordNotConfigured: "AUTH_PASSWORD_NOT_CONFIGURED"
    case .bootstrapTokenInvalid: "AUTH_BOOTSTRAP_TOKEN_INVALID"
    case .deviceTokenMismatch: "AUTH_DEVICE_TOKEN_MISMATCH"
    case .scopeMismatch: "AUTH_SCOPE_MISMATCH"
    case .rateLimited: "AUTH_RATE_LIMITED"
    }
  }

  private var text: String {
    switch self {
    case .tokenMissing: "gateway token missing (provide gateway auth token)"
    case .tokenMismatch: "gateway token mismatch (provide gateway auth token)"
    case .tokenNotConfigured: "gateway token not configured on gateway"
    case .passwordMissing: "gateway password missing (provide gateway auth password)"
    case .passwordMismatch: "gateway password mismatch (provide gateway auth password)"
    case .passwordNotConfigured: "gateway password not configured on gateway"
    case .bootstrapTokenInvalid: "bootstrap token invalid or expired (scan a fresh setup code)"
    case .deviceTokenMismatch: "device token mismatch (rotate or reissue device token)"
    case .scopeMismatch: "device token scope mismatch (re-pair or approve scope upgrade)"
    case .rateLimited: "too many failed authentication attempts (retry later)"
    }
  }

  private func nextStep(canRetry: Bool) -> String {
    switch self {
    case .tokenMismatch: canRetry ? "retry_with_device_token" : "update_auth_credentials"
    case .passwordMismatch, .bootstrapTokenInvalid, .deviceTokenMismatch: "update_auth_credentials"
    case .tokenMissing, .tokenNotConfigured, .passwordMissing, .passwordNotConfigured: "update_auth_configuration"
    case .scopeMismatch: "review_auth_configuration"
    case .rateLimited: "wait_then_retry"
    }
  }

  /// The refusal; `canRetry` = the client signed with a device and sent a token but no device token.
  public func refusal(canRetry: Bool = false, retryAfterMs: Int64? = nil) -> Refusal {
    let canRetry = canRetry && self == .tokenMismatch
    return Refusal(
      WireError(
        code: "INVALID_REQUEST", message: "unauthorized: \(text)",
        details: [
          "code": .string(code), "authReason": .string(rawValue), "canRetryWithDeviceToken": .bool(canRetry),
          "recommendedNextStep": .string(nextStep(canRetry: canRetry)),
        ], retryable: self == .rateLimited ? true : nil, retryAfterMs: self == .rateLimited ? retryAfterMs : nil))
  }
}
