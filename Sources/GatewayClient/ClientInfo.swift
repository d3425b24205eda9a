/// How this node introduces itself to gateways.
public struct ClientInfo: Sendable, Equatable {
  /// Shown to the gateway's owner, for example `Desk`.
  public var displayName: String
  /// The program's version, for example `1.0.0`.
  public var version: String
  /// For example `Raspberry Pi 4 Model B` or `x86_64`.
  public var modelIdentifier: String
  /// Stable for this installation; the gateway uses it to tell two of our connections from two machines.
  public var instanceID: String
  /// A BCP-47 tag, for example `en-GB`.
  public var locale: String?
  public var userAgent: String

  public init(
    displayName: String, version: String, modelIdentifier: String, instanceID: String, locale: String? = nil,
    userAgent: String
  ) {
    self.displayName = displayName
    self.version = version
    self.modelIdentifier = modelIdentifier
    self.instanceID = instanceID
    self.locale = locale
    self.userAgent = userAgent
  }

  /// Pinned by the gateway at approval (protocol §6.5), so these two never change and never carry a version.
  static let platform = "linux"
  static let deviceFamily = "Linux"
}
