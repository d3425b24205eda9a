import Crypto
import GatewayProtocol
import Testing
import Transport

@testable import GatewayClient

/// What each way of being refused leads to (protocol §1.3, §1.6, §4.3, §5.5, §6.2), as one table.
@Suite("A refused connect")
struct VerdictTests {
  /// The short form of a verdict that the table is written in.
  enum Outcome: Equatable {
    case now, backOff, slow
    case after(Int64)
    case wait(String, String?, paused: Bool)
    case stop(String)
  }

  static func outcome(_ verdict: ConnectVerdict) -> Outcome {
    switch verdict.course {
    case .retry(.now, _): .now
    case .retry(.backOff, _): .backOff
    case .retry(.slow, _): .slow
    case .retry(.after(let delay), _): .after(Int64(delay.milliseconds))
    case .wait(let wait): .wait(wait.reason, wait.requestID, paused: wait.isPaused)
    case .stop(let stop): .stop(stop.code)
    }
  }

  static func auth(_ source: AuthAttempt.Source) -> AuthAttempt {
    var auth = AuthAttempt(Credentials(), role: .node)
    auth.source = source
    return auth
  }

  static func context(
    _ source: AuthAttempt.Source = .shared, role: Role = .node, stored: Bool = false, trusted: Bool = false,
    spent: Bool = false, signature: DeviceAuth.Version = .v3, refused: Set<DeviceAuth.Version> = []
  ) -> ConnectContext {
    ConnectContext(
      role: role, url: "ws://10.0.0.5:18789", auth: auth(source), hasUsableDeviceToken: stored,
      isTrustedEndpoint: trusted,
      deviceTokenRetrySpent: spent, signature: signature, signaturesRefused: refused)
  }

  static func error(
    _ code: String?, _ extra: [String: JSON] = [:], top: String = "INVALID_REQUEST", message: String = "no",
    retryable: Bool? = nil, retryAfterMs: Int64? = nil
  ) -> WireError {
    var details = extra
    if let code { details["code"] = .string(code) }
    return WireError(
      code: top, message: message, details: details.isEmpty ? nil : .object(details), retryable: retryable,
      retryAfterMs: retryAfterMs)
  }

  struct Row: Sendable, CustomTestStringConvertible {
    let error: WireError
    let context: ConnectContext
    let outcome: Outcome
    let effects: [ConnectVerdict.Effect]
    init(
      _ error: WireError, _ outcome: Outcome, _ effects: [ConnectVerdict.Effect] = [],
      in context: ConnectContext = VerdictTests.context()
    ) {
      self.error = error
      self.context = context
      self.outcome = outcome
      self.effects = effects
    }
    var testDescription: String { "\(error.detailsCode ?? error.message) \(context.auth.source) → \(outcome)" }
  }

  static let codes: [Row] = [
    // §5.5, in its order, without overrides.
    Row(error("AUTH_REQUIRED"), .slow),
    Row(error("AUTH_UNAUTHORIZED"), .slow),
    Row(error("AUTH_TOKEN_MISSING"), .stop("AUTH_TOKEN_MISSING")),
    Row(error("AUTH_TOKEN_MISMATCH"), .stop("AUTH_TOKEN_MISMATCH")),
    Row(error("AUTH_TOKEN_NOT_CONFIGURED"), .stop("AUTH_TOKEN_NOT_CONFIGURED")),
    Row(error("AUTH_PASSWORD_MISSING"), .stop("AUTH_PASSWORD_MISSING")),
    Row(error("AUTH_PASSWORD_MISMATCH"), .stop("AUTH_PASSWORD_MISMATCH"), in: context(.password)),
    Row(error("AUTH_PASSWORD_NOT_CONFIGURED"), .stop("AUTH_PASSWORD_NOT_CONFIGURED"), in: context(.password)),
    Row(
      error("AUTH_BOOTSTRAP_TOKEN_INVALID"), .stop("AUTH_BOOTSTRAP_TOKEN_INVALID"), [.dropBootstrapToken],
      in: context(.bootstrap)),
    Row(error("AUTH_DEVICE_TOKEN_MISMATCH"), .stop("DEVICE_TOKEN_REVOKED"), [.forgetDeviceToken], in: context(.device)),
    Row(error("AUTH_SCOPE_MISMATCH"), .stop("AUTH_SCOPE_MISMATCH"), in: context(.device, role: .operator)),
    Row(error("AUTH_RATE_LIMITED", retryable: true, retryAfterMs: 42_000), .after(42_000)),
    Row(error("AUTH_RATE_LIMITED"), .after(300_000)),
    Row(error("AUTH_RATE_LIMITED", ["retryAfterMs": 5]), .after(1000)),
    Row(error("AUTH_TAILSCALE_IDENTITY_MISSING"), .slow),
    Row(error("AUTH_TAILSCALE_PROXY_MISSING"), .slow),
    Row(error("AUTH_TAILSCALE_WHOIS_FAILED"), .slow),
    Row(error("AUTH_TAILSCALE_IDENTITY_MISMATCH"), .slow),
    Row(error("AUTH_IDENTITY_HEADER_REQUIRED"), .slow),
    Row(error("AUTH_VERIFIED_USER_REQUIRED", top: "NOT_PAIRED"), .stop("AUTH_VERIFIED_USER_REQUIRED")),
    Row(error("AUTHENTICATED_PROFILE_UNAVAILABLE", top: "UNAVAILABLE"), .backOff),
    Row(error("OPERATOR_ACCESS_DENIED"), .slow, in: context(role: .operator)),
    Row(error("PROTOCOL_MISMATCH", ["expectedProtocol": 4]), .stop("PROTOCOL_MISMATCH")),
    Row(error("CLIENT_VERSION_MISMATCH", ["gatewayVersion": "2026.9.1"]), .stop("CLIENT_VERSION_MISMATCH")),
    Row(error("DEVICE_IDENTITY_REQUIRED", top: "NOT_PAIRED"), .stop("DEVICE_IDENTITY_REQUIRED")),
    Row(error("PAIRING_REJECTED"), .stop("PAIRING_REJECTED")),
    Row(error("PAIRING_EXPIRED"), .wait("not-paired", nil, paused: false)),
    Row(error("CONTROL_UI_ORIGIN_NOT_ALLOWED"), .slow),
    Row(error("CONTROL_UI_BUILD_MISMATCH"), .slow),
    Row(error("CONTROL_UI_DEVICE_IDENTITY_REQUIRED"), .stop("CONTROL_UI_DEVICE_IDENTITY_REQUIRED")),
    Row(error("SOMETHING_OF_NEXT_YEAR"), .backOff),
    // §4.3.
    Row(error("DEVICE_AUTH_DEVICE_ID_MISMATCH"), .stop("DEVICE_AUTH_DEVICE_ID_MISMATCH")),
    Row(error("DEVICE_AUTH_SIGNATURE_EXPIRED"), .backOff),
    Row(error("DEVICE_AUTH_NONCE_REQUIRED"), .backOff),
    Row(error("DEVICE_AUTH_NONCE_MISMATCH"), .backOff),
    Row(error("DEVICE_AUTH_PUBLIC_KEY_INVALID"), .stop("DEVICE_AUTH_PUBLIC_KEY_INVALID")),
    Row(error("DEVICE_AUTH_INVALID"), .slow),
    // §13.3: v2 once, then v3 once where v2 was remembered, then no more.
    Row(error("DEVICE_AUTH_SIGNATURE_INVALID"), .now, [.sign(.v2)]),
    Row(error("DEVICE_AUTH_SIGNATURE_INVALID"), .now, [.sign(.v3)], in: context(signature: .v2)),
    Row(
      error("DEVICE_AUTH_SIGNATURE_INVALID"), .stop("DEVICE_AUTH_SIGNATURE_INVALID"),
      in: context(signature: .v2, refused: [.v3])),
    // §3.6.
    Row(error(nil, message: "invalid connect params: at root: unexpected property 'x'"), .slow),
    Row(error(nil, message: "invalid role"), .slow),
    Row(
      error(nil, ["reason": "startup-sidecars"], top: "UNAVAILABLE", retryable: true, retryAfterMs: 700), .after(700)),
    Row(error(nil, ["reason": "startup-sidecars"], top: "UNAVAILABLE", retryAfterMs: 1), .after(100)),
    Row(error(nil, ["reason": "startup-sidecars"], top: "UNAVAILABLE", retryAfterMs: 99_000), .after(2000)),
    Row(error(nil, ["reason": "startup-sidecars"], top: "UNAVAILABLE"), .after(500)),
    Row(error(nil, top: "UNAVAILABLE", message: "draining", retryable: true), .backOff),
    Row(error(nil, message: "who knows"), .slow),
  ]

  static let overrides: [Row] = [
    // §1.6: pauseReconnect wins, then retryable.
    Row(error("AUTH_TOKEN_MISSING", ["pauseReconnect": false]), .backOff),
    Row(error("AUTH_TOKEN_MISSING", ["retryable": true]), .backOff),
    Row(error("AUTH_TOKEN_MISSING", retryable: true, retryAfterMs: 900), .after(900)),
    Row(error("AUTH_TOKEN_MISSING", ["pauseReconnect": true, "retryable": true]), .stop("AUTH_TOKEN_MISSING")),
    Row(error("SOMETHING_OF_NEXT_YEAR", ["pauseReconnect": true]), .stop("SOMETHING_OF_NEXT_YEAR")),
    Row(error("AUTH_RATE_LIMITED", ["pauseReconnect": true]), .stop("AUTH_RATE_LIMITED")),
    Row(error("OPERATOR_ACCESS_DENIED", ["pauseReconnect": true]), .stop("OPERATOR_ACCESS_DENIED")),
    Row(error("PROTOCOL_MISMATCH", ["retryable": true]), .backOff),
  ]

  static let pairing: [Row] = [
    // Always waited for, whatever else the error says.
    Row(
      error("PAIRING_REQUIRED", ["reason": "not-paired", "requestId": "5d9c2f8e-req"], top: "NOT_PAIRED"),
      .wait("not-paired", "5d9c2f8e-req", paused: false)),
    Row(
      error("PAIRING_REQUIRED", ["reason": "role-upgrade", "requestId": "r1", "pauseReconnect": true]),
      .wait("role-upgrade", "r1", paused: true)),
    Row(
      error("PAIRING_REQUIRED", ["reason": "scope-upgrade", "retryable": false, "pauseReconnect": false]),
      .wait("scope-upgrade", nil, paused: false)),
    Row(
      error("PAIRING_REQUIRED", ["reason": "metadata-upgrade", "requestId": "$(reboot)"]),
      .wait("metadata-upgrade", nil, paused: false)),
    Row(
      error(nil, top: "NOT_PAIRED", message: "pairing required: device is not approved yet (requestId: ab-1)"),
      .wait("not-paired", "ab-1", paused: false)),
    Row(
      error(
        nil, top: "NOT_PAIRED", message: "pairing required: device is asking for a higher role than currently approved"),
      .wait("role-upgrade", nil, paused: false)),
    Row(
      error(nil, message: "pairing required: device is asking for more scopes than currently approved (requestId: x"),
      .wait("scope-upgrade", nil, paused: false)),
    Row(
      error(nil, message: "Pairing required: device identity changed and must be re-approved"),
      .wait("metadata-upgrade", nil, paused: false)),
  ]

  @Test("what a gateway calls a code is one, or is told as text on a line")
  func hostileCodes() {
    for code in ["\u{1B}]0;PWNED\u{7}\r\nfake: line", String(repeating: "A", count: 3_000_000), "", "a b"] {
      for top in ["INVALID_REQUEST", code] {
        guard case .retry(_, let reason) = ConnectVerdict(Self.error(code, top: top), Self.context()).course else {
          Issue.record("\(code.prefix(20)) is not tried again")
          continue
        }
        #expect(reason.utf8.count < 500 && reason.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F })
      }
    }
  }

  static let secondWays: [Row] = [
    // §5.4: once, with a device token at hand, to a gateway that is trusted.
    Row(
      error("AUTH_TOKEN_MISMATCH"), .after(250), [.addDeviceTokenOnce], in: context(stored: true, trusted: true)),
    Row(
      error("AUTH_UNAUTHORIZED", ["canRetryWithDeviceToken": true]), .after(250), [.addDeviceTokenOnce],
      in: context(stored: true, trusted: true)),
    Row(
      error("AUTH_UNAUTHORIZED", ["recommendedNextStep": "retry_with_device_token"]), .after(250),
      [.addDeviceTokenOnce],
      in: context(stored: true, trusted: true)),
    Row(error("AUTH_TOKEN_MISMATCH"), .stop("AUTH_TOKEN_MISMATCH"), in: context(stored: true)),
    Row(error("AUTH_TOKEN_MISMATCH"), .stop("AUTH_TOKEN_MISMATCH"), in: context(trusted: true)),
    Row(
      error("AUTH_TOKEN_MISMATCH"), .stop("AUTH_TOKEN_MISMATCH"), in: context(stored: true, trusted: true, spent: true)),
    Row(
      error("AUTH_TOKEN_MISMATCH", ["pauseReconnect": true]), .stop("AUTH_TOKEN_MISMATCH"),
      in: context(stored: true, trusted: true)),
    // A device token that the gateway no longer knows is forgotten, and nobody asks again.
    Row(
      error("AUTH_TOKEN_MISMATCH"), .stop("DEVICE_TOKEN_REVOKED"), [.forgetDeviceToken],
      in: context(.device, stored: true, trusted: true)),
    Row(error("AUTH_DEVICE_TOKEN_MISMATCH"), .backOff, [.forgetDeviceToken], in: context(stored: true)),
    Row(error("AUTH_DEVICE_TOKEN_MISMATCH"), .stop("DEVICE_TOKEN_REVOKED"), in: context(stored: true, spent: true)),
    // A used-up code leaves a device token, and the operator the node's.
    Row(error("AUTH_BOOTSTRAP_TOKEN_INVALID"), .now, [.dropBootstrapToken], in: context(.bootstrap, stored: true)),
    Row(error("AUTH_BOOTSTRAP_TOKEN_INVALID"), .now, [.dropBootstrapToken], in: context(.bootstrap, role: .operator)),
    // The node's token can't be forgotten by the operator.
    Row(error("AUTH_TOKEN_MISMATCH"), .stop("OPERATOR_CREDENTIAL_MISSING"), in: context(.nodeToken, role: .operator)),
    Row(
      error("AUTH_DEVICE_TOKEN_MISMATCH"), .stop("OPERATOR_CREDENTIAL_MISSING"),
      in: context(.nodeToken, role: .operator)),
  ]

  @Test("is judged by its code", arguments: codes + overrides + pairing + secondWays)
  func wire(row: Row) {
    let verdict = ConnectVerdict(row.error, row.context)
    #expect(Self.outcome(verdict) == row.outcome)
    #expect(verdict.effects == row.effects)
  }

  static let closures: [(UInt16, String, Outcome, [ConnectVerdict.Effect])] = [
    (1000, "", .backOff, []),
    (1001, "going away", .backOff, []),
    (1002, "protocol mismatch", .stop("PROTOCOL_MISMATCH"), []),
    (1002, "bad frame", .backOff, []),
    (1005, "", .backOff, []),
    (1006, "", .backOff, []),
    (1008, "invalid role", .slow, []),
    (
      1008, "pairing required: device is not approved yet (requestId: q-1)", .wait("not-paired", "q-1", paused: false),
      []
    ),
    (
      1008, "pairing required: device is asking for a higher role than cur", .wait("role-upgrade", nil, paused: false),
      []
    ),
    (1008, "device identity required", .stop("DEVICE_IDENTITY_REQUIRED"), []),
    (1008, "device signature invalid", .now, [.sign(.v2)]),
    (1008, "unauthorized: gateway token mismatch (provide gateway auth token)", .stop("AUTH_TOKEN_MISMATCH"), []),
    (1008, "slow consumer", .backOff, []),
    (1008, "repeated unauthorized calls", .backOff, []),
    (1009, "message too big", .backOff, []),
    (1011, "internal error", .backOff, []),
    (1012, "service restart", .now, []),
    (1012, "node capabilities changed", .now, []),
    (1013, "gateway starting", .after(500), []),
    (4001, "gateway auth changed", .backOff, []),
    (4001, "device removed", .stop("DEVICE_REMOVED"), [.forgetDeviceToken, .markRemoved]),
    (4001, "client invalidated: device removed", .stop("DEVICE_REMOVED"), [.forgetDeviceToken, .markRemoved]),
    (
      4001, "client invalidated: device token revoked", .stop("DEVICE_TOKEN_REVOKED"),
      [.forgetDeviceToken, .markRevoked]
    ),
    (4001, "client invalidated: device token rotated", .backOff, [.forgetDeviceToken]),
    (4001, "", .backOff, []),
    (4321, "from next year", .backOff, []),
  ]

  @Test("or an ended session is judged by its close", arguments: closures.indices)
  func closed(index: Int) {
    let (code, reason, outcome, effects) = Self.closures[index]
    let verdict = ConnectVerdict(Closure(code: code, reason: reason, isClean: true), Self.context())
    #expect(Self.outcome(verdict) == outcome, "\(code) \(reason)")
    #expect(verdict.effects == effects)
  }

  @Test("after a rotation, a node that has nothing but its old token stops")
  func rotatedAlone() {
    let closure = Closure(code: 4001, reason: "client invalidated: device token rotated", isClean: true)
    let verdict = ConnectVerdict(closure, Self.context(.device))
    #expect(
      Self.outcome(verdict) == .stop("DEVICE_TOKEN_REVOKED") && verdict.effects == [.forgetDeviceToken, .markRevoked])
  }

  @Test("or a socket that does not open is judged by what failed")
  func transport() {
    let seen = sha256([1])
    let table: [(TransportError.Kind, Outcome)] = [
      (.address, .stop("ADDRESS_INVALID")), (.nameNotFound, .backOff), (.refused, .backOff), (.unreachable, .backOff),
      (.timedOut, .backOff), (.pinMismatch(seen), .stop("PIN_MISMATCH")),
      (.untrusted(seen), .stop("CERTIFICATE_UNTRUSTED")),
      (.tls, .backOff), (.notUpgraded(0), .backOff), (.notUpgraded(401), .slow), (.notUpgraded(404), .slow),
      (.notUpgraded(503), .backOff), (.proxy, .backOff), (.lost, .backOff), (.cancelled, .backOff),
    ]
    for (kind, outcome) in table {
      let verdict = ConnectVerdict(TransportError(kind, "so it is"), Self.context())
      #expect(Self.outcome(verdict) == outcome, "\(kind)")
      #expect(verdict.effects.isEmpty)
    }
  }

  @Test("tells who of the two is too old")
  func protocolAge() throws {
    func summary(_ expected: JSON?, _ role: Role) throws -> String {
      let details = expected.map { ["expectedProtocol": $0] } ?? [:]
      let verdict = ConnectVerdict(Self.error("PROTOCOL_MISMATCH", details), Self.context(role: role))
      guard case .stop(let stop) = verdict.course else { throw LinkError(.refused, "no stop") }
      return stop.summary
    }
    #expect(try summary(5, .node).hasPrefix("TalkNode is too old"))
    #expect(try summary(3, .operator).hasPrefix("The gateway is too old for the operator half"))
    #expect(try summary(nil, .node).contains("different versions"))
  }

  @Test("that stops always says what to do, on one line")
  func remedies() {
    for row in Self.codes + Self.overrides + Self.secondWays {
      guard case .stop(let stop) = ConnectVerdict(row.error, row.context).course else { continue }
      #expect(!stop.summary.isEmpty && !stop.remedy.isEmpty && !stop.code.isEmpty)
      #expect(!(stop.summary + stop.remedy).contains { $0.isNewline })
    }
  }

  @Test("can't put anything but a plain request id into a command")
  func requestIDs() {
    for good in ["a", "5d9c2f8e-aaaa", "A.b_c:d-9", String(repeating: "a", count: 128)] {
      #expect(ConnectVerdict.validRequestID(good) == good)
    }
    for bad in ["", "-a", ".a", "a b", "a;b", "a\n", "$(x)", "ä", String(repeating: "a", count: 129)] {
      #expect(ConnectVerdict.validRequestID(bad) == nil)
    }
  }
}
