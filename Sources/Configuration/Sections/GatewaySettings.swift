/// `[gateway]`
public struct GatewaySettings: SettingsSection {
  public static let name = "gateway"
  public static let summary = "How the gateway is reached. Which gateway it is, is told by `talknode pair`."

  /// `Name: value` lines for the upgrade request.
  public var headers: [String]?
  public var headersOrDefault: [String] { headers ?? [] }

  /// The headers split at their first colon.
  public var headerFields: [(name: String, value: String)] {
    headersOrDefault.compactMap { line in
      guard let colon = line.firstIndex(of: ":") else { return nil }
      return (String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " }))
    }
  }

  public static let settings: [Setting<Self>] = [
    .list(
      "headers", \.headers, default: \.headersOrDefault, count: 0...16, of: "header lines",
      example: ["CF-Access-Client-Id: abc"], secret: true, check: complaint,
      """
      Header lines added to the request that opens the connection, for a proxy in front of the gateway that asks for them. \
      Sent over wss only. The values are treated as secrets.
      """)
  ]

  public init() {}

  /// RFC 9110 §5: a name is a token, a value has no control characters. The upgrade's own headers are not a person's to change.
  private static func complaint(_ line: String) -> String? {
    guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else { return "is not `Name: value`" }
    let name = line[..<colon]
    let tokens = Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
    if !name.utf8.allSatisfy(tokens.contains) { return "has a name that HTTP does not allow" }
    if line.utf8.count > 4096 { return "is longer than 4096 bytes" }
    if line.utf8.contains(where: { $0 < 0x20 && $0 != 9 || $0 == 0x7F }) { return "has a control character" }
    let lower = name.lowercased()
    if reserved.contains(lower) || lower.hasPrefix("sec-websocket-") { return "is written by talknode itself" }
    return nil
  }
  private static let reserved: Set<String> = [
    "host", "upgrade", "connection", "origin", "content-length", "transfer-encoding",
  ]
}
