import GatewayProtocol

/// What one connect shows to be let in, chosen in the order of protocol §5.1.
struct AuthAttempt: Sendable, Equatable {
  enum Source: Sendable, Equatable {
    case shared, device, bootstrap, password, none
    /// The node's own token on the operator socket, when there is nothing else: it proves that this device is paired.
    case nodeToken
  }
  var source: Source = .none
  var token: String?
  var deviceToken: String?
  var bootstrapToken: String?
  var password: String?

  /// Field 8 of the signature (protocol §4.2): never the password.
  var signedToken: String { [token, deviceToken, bootstrapToken].compactMap { $0 }.first { !$0.isEmpty } ?? "" }

  var json: JSON? {
    if source == .none { return nil }
    return .object(present: [
      "token": token.map(JSON.string), "deviceToken": deviceToken.map(JSON.string),
      "bootstrapToken": bootstrapToken.map(JSON.string), "password": password.map(JSON.string),
    ])
  }

  /// Chooses for one connect. `withDeviceToken` is the one-shot retry of §5.4; `sharedRefused` means that the gateway refused the
  /// shared token in this run while the device token was good, so it is not tried again.
  init(_ credentials: Credentials, role: Role, withDeviceToken: Bool = false, sharedRefused: Bool = false) {
    let stored = credentials.deviceTokens[role]?.token
    let bootstrap = credentials.bootstrappedRoles.contains(role) ? nil : credentials.bootstrapToken
    if let shared = credentials.sharedToken, !(sharedRefused && stored != nil) {
      source = .shared
      token = shared
      if withDeviceToken { deviceToken = stored }
    } else if let stored, bootstrap == nil, credentials.password == nil || sharedRefused {
      source = .device
      token = stored
    } else if let bootstrap, credentials.password == nil {
      source = .bootstrap
      bootstrapToken = bootstrap
    } else if let password = credentials.password {
      source = .password
      self.password = password
    } else if role == .operator, let node = credentials.deviceTokens[.node]?.token {
      source = .nodeToken
      token = node
    }
  }
}
