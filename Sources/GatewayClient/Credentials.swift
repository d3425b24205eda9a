import GatewayProtocol

/// What this device may show one gateway to be let in. Never in a log or a status.
public struct Credentials: Sendable, Equatable {
  /// A token the gateway issued to this device for one role (protocol §5.3).
  public struct DeviceToken: Sendable, Equatable {
    public var token: String
    /// Trimmed, unique, sorted.
    public var scopes: [String]
    /// Milliseconds since 1970.
    public var updatedAtMs: Int64

    public init(token: String, scopes: [String], updatedAtMs: Int64) {
      self.token = token
      var unique = Set<String>()
      for scope in scopes {
        let plain = scope.split(whereSeparator: \.isWhitespace).joined()
        if !plain.isEmpty { unique.insert(plain) }
      }
      self.scopes = unique.sorted()
      self.updatedAtMs = updatedAtMs
    }
  }

  /// The gateway's shared token, as a person gave it.
  public var sharedToken: String?
  public var password: String?
  /// The one-time token of a setup code, until it is used up.
  public var bootstrapToken: String?
  /// Roles that have been let in by `bootstrapToken`.
  public var bootstrappedRoles: Set<Role> = []
  public var deviceTokens: [Role: DeviceToken] = [:]
  /// What the gateway was found to understand (protocol §13.3); nil = v3 is tried.
  public var signature: DeviceAuth.Version?
  /// When the gateway said that this device was removed there; it is not asked again until a person pairs anew.
  public var removedAtMs: Int64?
  /// Roles whose token the gateway said was revoked; they are not asked for again until a person pairs anew.
  public var revokedRoles: Set<Role> = []

  public init(sharedToken: String? = nil, password: String? = nil, bootstrapToken: String? = nil) {
    self.sharedToken = sharedToken
    self.password = password
    self.bootstrapToken = bootstrapToken
  }
}

extension Credentials {
  /// What a hello-ok brings is kept (protocol §5.3): the socket's own device token, and after a bootstrap the tokens of other roles.
  /// After a bootstrap both only when the link can be trusted with them.
  mutating func keep(_ auth: HelloOK.Auth, role: Role, bootstrapped: Bool, linkIsTrusted: Bool, nowMs: Int64) {
    if !bootstrapped || linkIsTrusted {
      var issued = auth.deviceTokens
      if let token = auth.deviceToken {
        issued.insert(HelloOK.Auth.Issued(token: token, role: role, scopes: auth.scopes), at: 0)
      }
      // Only a bootstrap hands over tokens of other roles.
      for entry in issued where entry.role == role || bootstrapped {
        if deviceTokens[entry.role]?.token == entry.token { continue }
        deviceTokens[entry.role] = DeviceToken(token: entry.token, scopes: entry.scopes, updatedAtMs: nowMs)
      }
    }
    if bootstrapped {
      bootstrappedRoles.insert(role)
      // A code for both roles whose operator token was not handed over still lets the operator in by itself; it is used up once
      // the operator has a token, or was refused with it.
      if deviceTokens[.operator] != nil || role == .operator { bootstrapToken = nil }
    }
  }

  var json: JSON {
    var tokens: [String: JSON] = [:]
    for (role, token) in deviceTokens {
      tokens[role.rawValue] = [
        "token": .string(token.token), "scopes": .strings(token.scopes), "updatedAtMs": .int(token.updatedAtMs),
      ]
    }
    return .object(present: [
      "version": 1, "token": sharedToken.map(JSON.string), "password": password.map(JSON.string),
      "bootstrapToken": bootstrapToken.map(JSON.string),
      "bootstrappedRoles": bootstrappedRoles.isEmpty ? nil : .strings(bootstrappedRoles.map(\.rawValue).sorted()),
      "deviceTokens": .object(tokens), "signature": signature.map { .string($0.rawValue) },
      "removedAtMs": removedAtMs.map(JSON.int),
      "revokedRoles": revokedRoles.isEmpty ? nil : .strings(revokedRoles.map(\.rawValue).sorted()),
    ])
  }

  /// Reads what `json` writes; nil when it is something else.
  init?(json: JSON) {
    guard json["version"]?.int == 1 else { return nil }
    self.init(
      sharedToken: json["token"]?.string, password: json["password"]?.string,
      bootstrapToken: json["bootstrapToken"]?.string)
    bootstrappedRoles = Set((json["bootstrappedRoles"]?.strings ?? []).compactMap(Role.init(rawValue:)))
    for (name, value) in json["deviceTokens"]?.object ?? [:] {
      guard let role = Role(rawValue: name), let token = value["token"]?.string else { return nil }
      deviceTokens[role] = DeviceToken(
        token: token, scopes: value["scopes"]?.strings ?? [], updatedAtMs: value["updatedAtMs"]?.int ?? 0)
    }
    signature = json["signature"]?.string.flatMap(DeviceAuth.Version.init(rawValue:))
    removedAtMs = json["removedAtMs"]?.int
    revokedRoles = Set((json["revokedRoles"]?.strings ?? []).compactMap(Role.init(rawValue:)))
  }
}
