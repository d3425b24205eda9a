import Glibc

/// `[node]`
public struct NodeSettings: SettingsSection {
  public static let name = "node"
  public static let summary = "This machine, as people and agents see it at the gateway."

  /// The name in the gateway's lists. The host's name when not set.
  public var displayName: String?
  public var displayNameOrDefault: String { displayName ?? Self.hostName }

  public static let settings: [Setting<Self>] = [
    .text(
      "display_name", \.displayName, default: \.displayNameOrDefault, length: 1...64, example: "kitchen",
      "The name shown in the gateway's lists. When not set: this machine's host name.")
  ]

  public init() {}

  /// Up to the first dot; `linux` on a machine without a name.
  private static var hostName: String {
    var buffer = [UInt8](repeating: 0, count: 256)
    let code = buffer.withUnsafeMutableBytes { gethostname($0.baseAddress!.assumingMemoryBound(to: CChar.self), 255) }
    let name = String(decoding: buffer.prefix { $0 != 0 && $0 != UInt8(ascii: ".") }, as: UTF8.self)
    return code == 0 && !name.isEmpty ? name : "linux"
  }
}
