import Crypto
import GatewayProtocol

/// What a setup code grants (protocol §7.4).
public enum SetupProfile: String, Sendable, CaseIterable {
  case full, limited, node

  var roles: [String] { self == .node ? ["node"] : ["node", "operator"] }

  var scopes: [String] {
    switch self {
    case .full: [Scope.admin, Scope.approvals, Scope.read, Scope.talkSecrets, Scope.write]
    case .limited: [Scope.approvals, Scope.read, Scope.talkSecrets, Scope.write]
    case .node: []
    }
  }

  /// Whether such a client is approved by the code alone.
  func approves(_ client: ConnectParams.Client) -> Bool {
    guard self != .node else { return client.id == "node-host" }
    let family = PlatformFamily(platform: client.platform, deviceFamily: client.deviceFamily)
    return client.id == "openclaw-ios" && family == .ios || client.id == "openclaw-android"
  }
}

/// Bootstrap tokens: issued with a setup code, bound to the first device that shows one, gone when redeemed (protocol §7.4).
struct SetupCodes: Sendable {
  struct Code: Sendable, Equatable {
    var setupID: String
    var token: String
    var profile: SetupProfile
    var expiresAtMs: Int64
    var deviceID: String?
    var publicKey: String?
    var status: Status = .waiting
  }

  enum Status: String, Sendable { case waiting, bound, completed, revoked, expired }

  static let lifeMs: Int64 = 10 * 60_000
  /// Old codes are only kept to answer `setupStatus`.
  private static let kept = 64

  private(set) var codes: [Code] = []

  mutating func issue(_ profile: SetupProfile, nowMs: Int64, lifeMs: Int64 = Self.lifeMs) -> Code {
    let code = Code(setupID: Random.uuid(), token: Random.token(), profile: profile, expiresAtMs: nowMs + lifeMs)
    codes.append(code)
    if codes.count > Self.kept { codes.removeFirst(codes.count - Self.kept) }
    return code
  }

  mutating func status(_ setupID: String, nowMs: Int64) -> Code? {
    for index in codes.indices where codes[index].isLive && codes[index].expiresAtMs < nowMs {
      codes[index].status = .expired
    }
    return codes.first { $0.setupID == setupID }
  }

  /// The live code of a token that this device may use for this role, bound to it from now on.
  mutating func present(_ token: String, deviceID: String, publicKey: String, role: String, nowMs: Int64) -> Code? {
    let found = codes.firstIndex {
      $0.isLive && $0.expiresAtMs >= nowMs && $0.profile.roles.contains(role) && Secret.areEqual($0.token, token)
    }
    guard let index = found else { return nil }
    if codes[index].deviceID == nil {
      codes[index].deviceID = deviceID
      codes[index].publicKey = publicKey
      codes[index].status = .bound
    }
    guard codes[index].deviceID == deviceID, codes[index].publicKey == publicKey else { return nil }
    return codes[index]
  }

  /// The hello of this token has reached its device: the token is used up. Returns the code when that is news.
  mutating func complete(_ token: String) -> Code? {
    guard let index = codes.firstIndex(where: { $0.token == token && $0.isLive }) else { return nil }
    codes[index].status = .completed
    return codes[index]
  }

  /// The owner has refused the device: its codes are worth nothing any more (§6.3).
  mutating func revoke(boundTo deviceID: String, publicKey: String) {
    for index in codes.indices
    where codes[index].deviceID == deviceID && codes[index].publicKey == publicKey && codes[index].isLive {
      codes[index].status = .revoked
    }
  }

  /// The text of a code: base64url of the JSON of §7.1.
  static func text(_ code: Code, urls: [String], fingerprint: String?) -> String {
    let json = JSON.object(present: [
      "url": .string(urls.first ?? ""), "urls": urls.count > 1 ? .strings(urls) : nil,
      "bootstrapToken": .string(code.token), "expiresAtMs": .int(code.expiresAtMs),
      "tlsFingerprint": fingerprint.map(JSON.string),
    ])
    return Base64.encodeURL(json.encoded())
  }
}

extension SetupCodes.Code { var isLive: Bool { status == .waiting || status == .bound } }
