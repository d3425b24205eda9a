/// The string a device signs to prove its key (protocol §4.2): fields joined with `|`.
public struct DeviceAuth: Sendable, Equatable {
  public enum Version: String, Sendable { case v2, v3 }

  public var deviceID: String
  public var clientID: String
  public var clientMode: String
  public var role: String
  /// In the order sent.
  public var scopes: [String]
  public var signedAtMs: Int64
  /// The first non-empty of `auth.token`, `auth.deviceToken`, `auth.bootstrapToken`, else empty. Never the password.
  public var token: String
  public var nonce: String
  public var platform: String
  public var deviceFamily: String

  public init(
    deviceID: String, clientID: String, clientMode: String, role: String, scopes: [String], signedAtMs: Int64,
    token: String, nonce: String, platform: String, deviceFamily: String
  ) {
    self.deviceID = deviceID
    self.clientID = clientID
    self.clientMode = clientMode
    self.role = role
    self.scopes = scopes
    self.signedAtMs = signedAtMs
    self.token = token
    self.nonce = nonce
    self.platform = platform
    self.deviceFamily = deviceFamily
  }

  public func payload(_ version: Version) -> String {
    var fields = [
      version.rawValue, deviceID, clientID, clientMode, role, scopes.joined(separator: ","), String(signedAtMs), token,
      nonce,
    ]
    if version == .v3 { fields += [Self.normalised(platform), Self.normalised(deviceFamily)] }
    return fields.joined(separator: "|")
  }

  /// Trimmed, and only ASCII letters made small: no Unicode case folding (protocol §4.2).
  static func normalised(_ text: String) -> String {
    var scalars = Array(text.unicodeScalars)
    while let last = scalars.last, last.properties.isWhitespace { scalars.removeLast() }
    scalars = Array(scalars.drop { $0.properties.isWhitespace })
    var out = String.UnicodeScalarView()
    for scalar in scalars {
      out.append(scalar >= "A" && scalar <= "Z" ? Unicode.Scalar(scalar.value + 32)! : scalar)
    }
    return String(out)
  }
}
