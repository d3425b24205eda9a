/// Which talknode this is.
enum Version {
  static let number = "0.1.0"
  /// `talknode/0.1.0`, as gateways and proxies see it.
  static let userAgent = "talknode/\(number)"
}
