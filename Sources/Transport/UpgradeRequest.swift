/// The upgrade request as the server side saw it.
public struct UpgradeRequest: Sendable {
  public let path: String
  /// Names in small letters; a repeated header's values joined with ", ".
  public let headers: [String: String]
  /// The peer's address without port.
  public let remoteAddress: String
  public init(path: String, headers: [String: String], remoteAddress: String) {
    self.path = path
    self.headers = headers
    self.remoteAddress = remoteAddress
  }
}
