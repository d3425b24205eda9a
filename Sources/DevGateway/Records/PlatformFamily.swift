/// What kind of device a node is for the command policy (protocol §11.1, node-commands §2.2).
enum PlatformFamily: String, Sendable, CaseIterable {
  case ios, watchos, android, macos, windows, linux, unknown

  /// Compared in small letters. (The gateway also folds look-alike characters, which no client sends; here such a platform is unknown.)
  init(platform: String, deviceFamily: String?, clientID: String = "") {
    let platform = platform.lowercased()
    let device = (deviceFamily ?? "").lowercased()
    if platform.isEmpty {
      self = Self.byDevice(device)
    } else if let family = Self.named(platform), family.accepts(device, isBare: Self(rawValue: platform) != nil) {
      self = family
    } else if clientID == "node-host", device.isEmpty, let family = Self.hostAliases[platform] {
      self = family
    } else {
      self = .unknown
    }
  }

  /// Only the official host's older names are mended, and only when it names no family.
  private static let hostAliases: [String: PlatformFamily] = ["darwin": .macos, "win32": .windows, "linux": .linux]

  private static func byDevice(_ device: String) -> PlatformFamily {
    let tokens: [(String, PlatformFamily)] = [
      ("iphone", .ios), ("ipad", .ios), ("ios", .ios), ("watch", .watchos), ("android", .android), ("mac", .macos),
      ("windows", .windows), ("linux", .linux),
    ]
    return tokens.first { device.contains($0.0) }?.1 ?? .unknown
  }

  /// The family a platform's words name: a bare id, or a versioned label of the platforms that have them.
  private static func named(_ platform: String) -> PlatformFamily? {
    if platform != "unknown", let bare = PlatformFamily(rawValue: platform) { return bare }
    let words = platform.split(separator: " ", maxSplits: 1)
    guard words.count == 2 else { return nil }
    switch words[0] {
    case "ios", "ipados": return isVersion(words[1], parts: 3) ? .ios : nil
    case "watchos": return isVersion(words[1], parts: 3) ? .watchos : nil
    case "macos": return isVersion(words[1], parts: 3) ? .macos : nil
    case "android": return isAndroidVersion(words[1]) ? .android : nil
    default: return nil
    }
  }

  private static func isVersion(_ text: some StringProtocol, parts: Int) -> Bool {
    let numbers = text.split(separator: ".", omittingEmptySubsequences: false)
    return numbers.count <= parts && numbers.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy { 48...57 ~= $0 } }
  }

  /// `15` or `15 (sdk 35)`.
  private static func isAndroidVersion(_ text: some StringProtocol) -> Bool {
    let words = text.split(separator: " ")
    if words.count == 1 { return isVersion(words[0], parts: 3) }
    return words.count == 3 && isVersion(words[0], parts: 3) && words[1] == "(sdk" && words[2].hasSuffix(")")
      && isVersion(words[2].dropLast(), parts: 1)
  }

  private func accepts(_ device: String, isBare: Bool) -> Bool {
    switch self {
    case .ios: ["iphone", "ipad", "ios"].contains(device) || device.isEmpty && isBare
    case .watchos: ["apple watch", "watchos"].contains(device)
    case .android: device == "android" || device.isEmpty && isBare
    case .macos: device == "mac"
    case .windows, .linux: device == rawValue
    case .unknown: false
    }
  }

  /// Whether a device that is pinned to `pinned` may come as `claimed` without a new approval (protocol §6.5): the same words, a
  /// version change within one family for the mobile and macOS apps, or an alias of the official host.
  static func isSame(
    pinned: (platform: String, family: String?), claimed: (platform: String, family: String?), clientID: String
  ) -> Bool {
    func equal(_ left: String?, _ right: String?) -> Bool { (left ?? "").lowercased() == (right ?? "").lowercased() }
    if equal(pinned.platform, claimed.platform) && equal(pinned.family, claimed.family) { return true }
    let mayChangeVersion = ["openclaw-ios", "openclaw-android", "openclaw-watchos", "openclaw-macos"].contains(clientID)
    let alias = clientID == "node-host" && hostAliases[claimed.platform.lowercased()] != nil
    guard mayChangeVersion && equal(pinned.family, claimed.family) || alias && claimed.family == nil else {
      return false
    }
    let before = PlatformFamily(platform: pinned.platform, deviceFamily: pinned.family, clientID: clientID)
    let now = PlatformFamily(platform: claimed.platform, deviceFamily: claimed.family, clientID: clientID)
    return before == now && before != .unknown
  }
}
