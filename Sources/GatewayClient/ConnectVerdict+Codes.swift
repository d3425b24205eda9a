import GatewayProtocol

extension ConnectVerdict {
  /// Codes after which asking again can't help until a person has done something (protocol §1.6, §5.5, §6.2).
  static let stopping: Set<String> = [
    "AUTH_TOKEN_MISSING", "AUTH_TOKEN_MISMATCH", "AUTH_TOKEN_NOT_CONFIGURED", "AUTH_BOOTSTRAP_TOKEN_INVALID",
    "AUTH_PASSWORD_MISSING", "AUTH_PASSWORD_MISMATCH", "AUTH_PASSWORD_NOT_CONFIGURED", "AUTH_SCOPE_MISMATCH",
    "AUTH_VERIFIED_USER_REQUIRED", "AUTH_DEVICE_TOKEN_MISMATCH", "PROTOCOL_MISMATCH", "CLIENT_VERSION_MISMATCH",
    "DEVICE_IDENTITY_REQUIRED", "CONTROL_UI_DEVICE_IDENTITY_REQUIRED", "DEVICE_AUTH_DEVICE_ID_MISMATCH",
    "DEVICE_AUTH_PUBLIC_KEY_INVALID", "DEVICE_AUTH_SIGNATURE_INVALID", "PAIRING_REJECTED",
  ]

  /// Codes that only a change at the gateway ends, which may come at any time: asked again, but rarely.
  static let patient: Set<String> = [
    "OPERATOR_ACCESS_DENIED", "AUTH_REQUIRED", "AUTH_UNAUTHORIZED", "AUTH_TAILSCALE_IDENTITY_MISSING",
    "AUTH_TAILSCALE_PROXY_MISSING", "AUTH_TAILSCALE_WHOIS_FAILED", "AUTH_TAILSCALE_IDENTITY_MISMATCH",
    "AUTH_IDENTITY_HEADER_REQUIRED", "CONTROL_UI_ORIGIN_NOT_ALLOWED", "CONTROL_UI_BUILD_MISMATCH",
    "DEVICE_AUTH_INVALID", "INVALID_CONNECT_PARAMS", "INVALID_ROLE",
  ]

  /// The stable word of a failure: `details.code`, or what the message says where an old gateway gives nothing else (§13.5–§13.6).
  static func code(of error: WireError) -> String? {
    error.detailsCode.flatMap { isCode($0) ? $0 : nil } ?? code(inText: error.message.lowercased())
  }

  /// Whether it may be a code: anything else that a gateway calls so is only shown, as other text of it.
  private static func isCode(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."):
          true
        default: false
        }
      }
  }

  /// `text` in small letters.
  static func code(inText text: String) -> String? { texts.first { text.contains($0.text) }?.code }

  private static let texts: [(text: String, code: String)] = [
    ("pairing required", "PAIRING_REQUIRED"),
    ("protocol mismatch", "PROTOCOL_MISMATCH"),
    ("device identity required", "DEVICE_IDENTITY_REQUIRED"),
    ("device identity mismatch", "DEVICE_AUTH_DEVICE_ID_MISMATCH"),
    ("device signature invalid", "DEVICE_AUTH_SIGNATURE_INVALID"),
    ("device signature expired", "DEVICE_AUTH_SIGNATURE_EXPIRED"),
    ("device nonce required", "DEVICE_AUTH_NONCE_REQUIRED"),
    ("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH"),
    ("device public key invalid", "DEVICE_AUTH_PUBLIC_KEY_INVALID"),
    ("device token mismatch", "AUTH_DEVICE_TOKEN_MISMATCH"),
    ("gateway token mismatch", "AUTH_TOKEN_MISMATCH"),
    ("gateway token missing", "AUTH_TOKEN_MISSING"),
    ("gateway password mismatch", "AUTH_PASSWORD_MISMATCH"),
    ("gateway password missing", "AUTH_PASSWORD_MISSING"),
    ("bootstrap token invalid", "AUTH_BOOTSTRAP_TOKEN_INVALID"),
    ("rate limited", "AUTH_RATE_LIMITED"),
    ("too many failed", "AUTH_RATE_LIMITED"),
    ("invalid connect params", "INVALID_CONNECT_PARAMS"),
    ("invalid role", "INVALID_ROLE"),
  ]

  /// A request id in a message: `(requestId: …)`.
  static func requestID(in text: String) -> String? {
    guard let range = text.firstRange(of: "(requestId:") else { return nil }
    let rest = text[range.upperBound...].drop { $0 == " " }
    guard let end = rest.firstIndex(of: ")") else { return nil }
    return validRequestID(String(rest[..<end]))
  }

  /// A request id goes into a command that a person pastes, so only the pattern of protocol §6.2 is one.
  static func validRequestID(_ text: String) -> String? {
    let isLetterOrDigit: (UInt8) -> Bool = {
      ($0 >= 48 && $0 <= 57) || ($0 >= 65 && $0 <= 90) || ($0 >= 97 && $0 <= 122)
    }
    let bytes = Array(text.utf8)
    guard let first = bytes.first, bytes.count <= 128, isLetterOrDigit(first),
      bytes.allSatisfy({ isLetterOrDigit($0) || "._:-".utf8.contains($0) })
    else { return nil }
    return text
  }

  /// Foreign text for a status line: one line, no control characters, at most 200 characters.
  static func oneLine(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars.prefix(200) {
      line.unicodeScalars.append(scalar.properties.generalCategory == .control ? " " : scalar)
    }
    return line
  }

  static func pairingReason(in text: String) -> String {
    let text = text.lowercased()
    if text.contains("higher role") { return "role-upgrade" }
    if text.contains("more scopes") { return "scope-upgrade" }
    if text.contains("identity changed") { return "metadata-upgrade" }
    return "not-paired"
  }
}

// MARK: What a person is told

extension ConnectVerdict {
  static func removed(_ context: ConnectContext) -> Stop {
    Stop(
      code: "DEVICE_REMOVED", summary: "The gateway's owner removed this device, so it does not ask again by itself.",
      remedy: pairAgain(context))
  }

  static func revoked(_ context: ConnectContext) -> Stop {
    Stop(
      code: "DEVICE_TOKEN_REVOKED",
      summary:
        "The gateway no longer accepts this device's \(context.role.rawValue) token: it was revoked, or the device removed.",
      remedy: pairAgain(context))
  }

  private static func pairAgain(_ context: ConnectContext) -> String {
    "Pair again with a new setup code (talknode pair CODE) or the gateway's token: talknode pair \(context.url) --token-file FILE"
  }

  /// A node's own token proves the node only (protocol §5.2): the operator half needs the shared token, or a full setup code, once.
  public static let operatorCredentialMissing = "OPERATOR_CREDENTIAL_MISSING"

  static func stop(_ code: String, _ error: WireError, _ context: ConnectContext) -> Stop {
    func stop(_ summary: String, _ remedy: String) -> Stop { Stop(code: code, summary: summary, remedy: remedy) }
    let withToken = "talknode pair \(context.url) --token-file FILE"
    let withPassword = "talknode pair \(context.url) --password-file FILE"
    let atGateway = "Set it on the gateway host, then: talknode gateways use '\(context.url)'"
    switch code {
    case "AUTH_TOKEN_MISSING" where context.auth.source == .nodeToken,
      "AUTH_TOKEN_MISMATCH" where context.auth.source == .nodeToken,
      "AUTH_DEVICE_TOKEN_MISMATCH" where context.auth.source == .nodeToken,
      "AUTH_BOOTSTRAP_TOKEN_INVALID" where context.role == .operator:
      return Stop(
        code: operatorCredentialMissing,
        summary:
          "This device was let in as a node only; for chat and speech it needs the gateway's token, or a full setup code, once.",
        remedy:
          "\(withToken), or with a new code from the gateway host (openclaw qr --setup-code-only): talknode pair CODE")
    case "AUTH_TOKEN_MISMATCH" where context.auth.source == .device, "AUTH_DEVICE_TOKEN_MISMATCH":
      return revoked(context)
    case "AUTH_TOKEN_MISSING": return stop("The gateway wants its token, and none is stored.", withToken)
    case "AUTH_TOKEN_MISMATCH": return stop("The gateway does not accept the stored token.", withToken)
    case "AUTH_TOKEN_NOT_CONFIGURED": return stop("The gateway wants a token but has none configured.", atGateway)
    case "AUTH_BOOTSTRAP_TOKEN_INVALID":
      return stop(
        "The setup code is used up or too old.",
        "Make a new one on the gateway host (openclaw qr --setup-code-only), then: talknode pair CODE")
    case "AUTH_PASSWORD_MISSING": return stop("The gateway wants its password, and none is stored.", withPassword)
    case "AUTH_PASSWORD_MISMATCH": return stop("The gateway does not accept the stored password.", withPassword)
    case "AUTH_PASSWORD_NOT_CONFIGURED": return stop("The gateway wants a password but has none configured.", atGateway)
    case "AUTH_SCOPE_MISMATCH":
      return stop(
        "This device's token does not cover the scopes \(ConnectParams.operatorScopes.joined(separator: ", ")).",
        withToken)
    case "AUTH_VERIFIED_USER_REQUIRED":
      return stop(
        "The gateway lets only verified users in as operator.", "Ask the gateway's owner to allow this device.")
    case "PROTOCOL_MISMATCH": return protocolMismatch(error, context)
    case "CLIENT_VERSION_MISMATCH":
      let version = error.details?["gatewayVersion"]?.string.map { " (\(oneLine($0)))" } ?? ""
      return stop("The gateway wants nodes of its own version\(version).", "Update TalkNode or the gateway.")
    case "DEVICE_IDENTITY_REQUIRED", "CONTROL_UI_DEVICE_IDENTITY_REQUIRED", "DEVICE_AUTH_DEVICE_ID_MISMATCH",
      "DEVICE_AUTH_PUBLIC_KEY_INVALID":
      return stop("The gateway does not accept this device's identity: \(oneLine(error.message)).", "talknode identity")
    case "DEVICE_AUTH_SIGNATURE_INVALID":
      return stop(
        "The gateway accepts none of this device's signatures.",
        "Update the gateway, or TalkNode; then: talknode doctor")
    case "PAIRING_REJECTED":
      return stop("The gateway's owner refused this device.", "When that was a mistake: talknode pair CODE|URL")
    default:
      return stop(
        "The gateway refuses this device and asks it to wait for a person: \(oneLine(error.message)).",
        "On the gateway host: openclaw devices list")
    }
  }

  /// Protocol §3.5: who of the two is too old.
  private static func protocolMismatch(_ error: WireError, _ context: ConnectContext) -> Stop {
    let expected = error.details?["expectedProtocol"]?.int
    let summary: String
    let remedy: String
    if let expected, expected > Int64(ProtocolLimits.version) {
      summary =
        "TalkNode is too old for this gateway: it speaks protocol \(ProtocolLimits.version), the gateway wants \(expected)."
      remedy = "Update TalkNode."
    } else if let expected {
      summary = "The gateway is too old for the \(context.role.rawValue) half: it speaks protocol \(expected)."
      remedy = "Update the gateway: openclaw update"
    } else {
      summary = "TalkNode and the gateway speak different versions of the protocol."
      remedy = "Update the older of the two."
    }
    return Stop(code: "PROTOCOL_MISMATCH", summary: summary, remedy: remedy)
  }
}
