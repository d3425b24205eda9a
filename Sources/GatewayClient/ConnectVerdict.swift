import GatewayProtocol
import System
import Transport

/// What is to be done after a connect failed or a session ended: ask again, wait for a person's approval, or stop and tell.
public struct ConnectVerdict: Sendable, Equatable {
  public enum Course: Sendable, Equatable {
    case retry(Pace, reason: String)
    case wait(PairingWait)
    case stop(Stop)
  }

  /// When to ask again.
  public enum Pace: Sendable, Equatable {
    /// At once, but not twice in a row without a stable session between.
    case now
    /// By the doubling back-off.
    case backOff
    /// With the longest back-off at once: asking sooner can't help.
    case slow
    /// When the gateway said.
    case after(Duration)
  }

  /// What is to be changed in what is stored or known about this gateway.
  public enum Effect: Sendable, Equatable {
    case forgetDeviceToken
    case dropBootstrapToken
    /// The next connect sends the device token beside the shared one (protocol §5.4).
    case addDeviceTokenOnce
    case sign(DeviceAuth.Version)
    /// The gateway removed this device: none of its roles is asked for again until a person pairs anew.
    case markRemoved
    /// The gateway revoked this role's token: the role is not asked for again until a person pairs anew, also not with another credential.
    case markRevoked
  }

  public var course: Course
  public var effects: [Effect]

  init(_ course: Course, _ effects: [Effect] = []) {
    self.course = course
    self.effects = effects
  }

  /// `reason` becomes a part of longer sentences: it has no full stop.
  static func retry(_ pace: Pace, _ reason: String, _ effects: [Effect] = []) -> ConnectVerdict {
    ConnectVerdict(.retry(pace, reason: reason.hasSuffix(".") ? String(reason.dropLast()) : reason), effects)
  }
}

/// An approval that the gateway's owner has to give (protocol §6.2).
public struct PairingWait: Sendable, Equatable {
  /// To be named to the gateway; nil when an old gateway does not say.
  public var requestID: String?
  /// `not-paired`, `role-upgrade`, `scope-upgrade`, `metadata-upgrade`, or another word of a newer gateway.
  public var reason: String
  /// The gateway asked for patience: 15 s between two asks instead of 2 s at first.
  public var isPaused: Bool
}

/// Why a socket is not opened again by itself.
public struct Stop: Sendable, Equatable {
  /// A stable word: the gateway's `details.code`, or one of ours.
  public var code: String
  /// One sentence.
  public var summary: String
  /// What a person can do; a command where there is one.
  public var remedy: String
}

/// What a verdict is made from, besides the failure.
public struct ConnectContext: Sendable, Equatable {
  var role: Role
  /// For the commands in remedies.
  var url: String
  var auth: AuthAttempt
  /// A device token for this role is stored, and the scopes asked for lie within its own.
  var hasUsableDeviceToken: Bool
  var isTrustedEndpoint: Bool
  /// The one-shot retry of §5.4 was used since the last hello.
  var deviceTokenRetrySpent: Bool
  var signature: DeviceAuth.Version
  /// Signature versions that this gateway has refused since the last hello.
  var signaturesRefused: Set<DeviceAuth.Version>

  init(
    role: Role, url: String, auth: AuthAttempt, hasUsableDeviceToken: Bool = false, isTrustedEndpoint: Bool = false,
    deviceTokenRetrySpent: Bool = false, signature: DeviceAuth.Version = .v3,
    signaturesRefused: Set<DeviceAuth.Version> = []
  ) {
    self.role = role
    self.url = url
    self.auth = auth
    self.hasUsableDeviceToken = hasUsableDeviceToken
    self.isTrustedEndpoint = isTrustedEndpoint
    self.deviceTokenRetrySpent = deviceTokenRetrySpent
    self.signature = signature
    self.signaturesRefused = signaturesRefused
  }
}

// MARK: The gateway answered connect with an error

extension ConnectVerdict {
  /// Judges an error of `connect`, in the order of protocol §1.6.
  public init(_ error: WireError, _ context: ConnectContext) {
    let code = Self.code(of: error)
    let reason = "\(code ?? Self.oneLine(error.code)): \(Self.oneLine(error.message))"
    if let wait = Self.pairingWait(error, code) {
      self.init(.wait(wait))
      return
    }
    let details = error.details
    let pause = details?["pauseReconnect"]?.bool
    let isRetryable = details?["retryable"]?.bool == true || error.retryable == true
    let hint = error.retryAfterMs ?? details?["retryAfterMs"]?.int
    if pause != true, let verdict = Self.secondWay(code, error, context, reason) {
      self = verdict
      return
    }
    if details?["reason"]?.string == "startup-sidecars" && pause != true {
      self = .retry(.after(Self.startupDelay(hint)), reason)
      return
    }
    if code == "AUTH_RATE_LIMITED" && pause != true {
      // Without a hint: as long as gateways lock an address out (protocol §5.2).
      self = .retry(.after(.milliseconds(min(max(hint ?? 300_000, 1000), 3_600_000))), reason)
      return
    }
    if pause == false || (pause == nil && isRetryable) {
      let pace = hint.map { Pace.after(.milliseconds(min(max($0, 100), 60_000))) } ?? .backOff
      self = .retry(pace, reason)
      return
    }
    if pause == true || Self.stopping.contains(code ?? "") {
      self.init(.stop(Self.stop(code ?? Self.oneLine(error.code), error, context)), Self.effects(of: code, context))
      return
    }
    self = .retry(Self.patient.contains(code ?? "") || code == nil ? .slow : .backOff, reason)
  }

  /// The failures that have a second way: another credential, another signature.
  private static func secondWay(
    _ code: String?, _ error: WireError, _ context: ConnectContext, _ reason: String
  ) -> ConnectVerdict? {
    switch code {
    case "DEVICE_AUTH_SIGNATURE_INVALID":
      // A gateway that knows only v2 refuses v3, and a newer one may some day refuse v2 (protocol §13.3): each is tried once.
      let other: DeviceAuth.Version = context.signature == .v3 ? .v2 : .v3
      if context.signaturesRefused.contains(other) { return nil }
      return .retry(.now, reason, [.sign(other)])
    case "AUTH_BOOTSTRAP_TOKEN_INVALID" where context.auth.source == .bootstrap:
      // A code that is used up may have left a device token (protocol §12); the operator has the node's to fall back to.
      let hasMore = context.hasUsableDeviceToken || context.role == .operator
      return hasMore ? .retry(.now, reason, [.dropBootstrapToken]) : nil
    case "AUTH_DEVICE_TOKEN_MISMATCH" where context.auth.source == .shared:
      // The shared token may still be good; it was sent beside the device token.
      return context.deviceTokenRetrySpent ? nil : .retry(.backOff, reason, [.forgetDeviceToken])
    default:
      let step = error.details?["recommendedNextStep"]?.string
      let suggests =
        code == "AUTH_TOKEN_MISMATCH" || error.details?["canRetryWithDeviceToken"]?.bool == true
        || step == "retry_with_device_token"
      guard suggests, context.auth.source == .shared, context.auth.deviceToken == nil, context.hasUsableDeviceToken,
        context.isTrustedEndpoint, !context.deviceTokenRetrySpent
      else { return nil }
      return .retry(.after(.milliseconds(250)), reason, [.addDeviceTokenOnce])
    }
  }

  private static func effects(of code: String?, _ context: ConnectContext) -> [Effect] {
    switch code {
    case "AUTH_BOOTSTRAP_TOKEN_INVALID": [.dropBootstrapToken]
    // The gateway no longer knows this device's token: it was revoked, or the device removed while we were away.
    case "AUTH_DEVICE_TOKEN_MISMATCH", "AUTH_TOKEN_MISMATCH":
      context.auth.source == .device || context.auth.deviceToken != nil ? [.forgetDeviceToken] : []
    default: []
    }
  }

  /// `PAIRING_REQUIRED` is always waited for, whatever else the error says: it ends when a person approves.
  private static func pairingWait(_ error: WireError, _ code: String?) -> PairingWait? {
    guard code == "PAIRING_REQUIRED" || code == "PAIRING_EXPIRED" else { return nil }
    let details = error.details
    return PairingWait(
      requestID: details?["requestId"]?.string.flatMap(validRequestID) ?? requestID(in: error.message),
      reason: details?["reason"]?.string.map(oneLine) ?? pairingReason(in: error.message),
      isPaused: details?["pauseReconnect"]?.bool == true)
  }

  private static func startupDelay(_ hintMs: Int64?) -> Duration { .milliseconds(min(max(hintMs ?? 500, 100), 2000)) }
}

// MARK: The socket was closed, or never opened

extension ConnectVerdict {
  /// Judges the end of a session, or a close in place of an answer to `connect` (protocol §1.3).
  public init(_ closure: Closure, _ context: ConnectContext) {
    let reason = Self.oneLine(closure.reason)
    let text = reason.lowercased()
    let told = reason.isEmpty ? "the gateway closed the connection (\(closure.code))" : reason
    switch closure.code {
    case 1002 where text.contains("protocol mismatch"), 1008 where Self.code(inText: text) != nil:
      // The close of a refusal whose response was lost, or of a gateway that sends none.
      self.init(WireError(code: "CLOSED", message: reason), context)
    case 1012: self = .retry(.now, told)
    case 1013: self = .retry(.after(Self.startupDelay(nil)), told)
    case 4001 where text.contains("removed"):
      self.init(.stop(Self.removed(context)), [.forgetDeviceToken, .markRemoved])
    case 4001 where text.contains("revoked"):
      self.init(.stop(Self.revoked(context)), [.forgetDeviceToken, .markRevoked])
    case 4001 where text.contains("rotated") && context.auth.source == .device:
      // The new token is shown to nobody but the gateway's owner, and there is no other credential to ask with.
      self.init(.stop(Self.revoked(context)), [.forgetDeviceToken, .markRevoked])
    case 4001 where text.contains("rotated"): self = .retry(.backOff, told, [.forgetDeviceToken])
    case 1006: self = .retry(.backOff, reason.isEmpty ? "the connection was lost" : reason)
    default: self = .retry(.backOff, told)
    }
  }

  /// Judges a socket that did not open (protocol §1.6, TLS outcomes).
  public init(_ error: TransportError, _ context: ConnectContext) {
    switch error.kind {
    case .pinMismatch(let seen):
      self.init(
        .stop(
          Stop(
            code: "PIN_MISMATCH",
            summary: "The gateway shows another certificate than the one that was accepted (now \(hexadecimal(seen))).",
            remedy: "If it was renewed on purpose: talknode pair \(context.url) --trust \(hexadecimal(seen))")))
    case .untrusted(let seen):
      self.init(
        .stop(
          Stop(
            code: "CERTIFICATE_UNTRUSTED", summary: "This machine does not trust the gateway's certificate.",
            remedy:
              "Compare its fingerprint at the gateway, then: talknode pair \(context.url) --trust \(hexadecimal(seen))")
        ))
    case .address:
      self.init(
        .stop(
          Stop(
            code: "ADDRESS_INVALID", summary: "\(Self.oneLine(error.description))", remedy: "talknode pair CODE|URL")))
    case .notUpgraded(let status) where status == 401 || status == 403 || status == 404:
      self = .retry(.slow, Self.oneLine(error.description))
    default: self = .retry(.backOff, Self.oneLine(error.description))
    }
  }

  /// Judges a gateway that broke the protocol during the handshake.
  init(_ error: LinkError, _ context: ConnectContext) {
    if let wire = error.wire { self.init(wire, context) } else { self = .retry(.backOff, Self.oneLine(error.summary)) }
  }
}
