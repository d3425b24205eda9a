import GatewayProtocol
import System

/// What does not change while the program runs, but for the name that a person may change: `device.info` (node-commands §9.1). Read
/// once, at the first call.
final class DeviceIdentityFacts: Sendable {
  private let version: String
  private let build: String
  private let locale: String?
  private let machine: MachineFiles
  private let known: Lock<(deviceName: String, text: [UInt8]?)>

  init(deviceName: String, version: String, build: String, locale: String?, machine: MachineFiles) {
    known = Lock((deviceName, nil))
    self.version = version
    self.build = build
    self.locale = locale
    self.machine = machine
  }

  /// The payload. All members are strings, and none is missing.
  var encoded: [UInt8] {
    let (deviceName, text) = known.withLock { $0 }
    if let text { return text }
    let read = json(deviceName).encoded()
    known.withLock { if $0.deviceName == deviceName { $0.text = read } }
    return read
  }

  func rename(_ deviceName: String) { known.withLock { $0 = (deviceName, nil) } }

  private func json(_ deviceName: String) -> JSON {
    [
      "deviceName": .string(deviceName), "modelIdentifier": .string(model), "systemName": "Linux",
      "systemVersion": .string(systemVersion), "appVersion": .string(version), "appBuild": .string(build),
      "locale": .string(languageTag),
    ]
  }

  /// What a firmware's maker leaves in place of a name.
  private static let placeholders: Set<String> = [
    "to be filled by o.e.m.", "system product name", "default string", "none", "not specified", "not applicable", "n/a",
    "o.e.m.", "product name", "system name", "unknown", "invalid", "undefined",
  ]

  /// The firmware's name of the machine, a board's own (Raspberry Pi), or at least its processor family.
  var model: String {
    for name in ["sys/class/dmi/id/product_name", "proc/device-tree/model", "sys/firmware/devicetree/base/model"] {
      if let model = machine.text(name), !Self.placeholders.contains(model.lowercased()) {
        return String(model.prefix(128))
      }
    }
    #if arch(x86_64)
      return "x86_64"
    #elseif arch(arm64)
      return "aarch64"
    #else
      return "Linux"
    #endif
  }

  var systemVersion: String {
    var release = machine.assignments(in: "etc/os-release")
    if release.isEmpty { release = machine.assignments(in: "usr/lib/os-release") }
    let system = release["PRETTY_NAME"] ?? release["NAME"] ?? "Linux"
    guard let kernel = machine.text("proc/sys/kernel/osrelease") else { return system }
    return "\(system), kernel \(kernel)"
  }

  var languageTag: String {
    for name in [
      locale, machine.assignments(in: "etc/locale.conf")["LANG"], machine.assignments(in: "etc/default/locale")["LANG"],
    ] {
      if let name, let tag = Self.languageTag(of: name) { return tag }
    }
    return "en-US"
  }

  /// `de-AT` for `de_AT.UTF-8@euro`; nil for `C`, `POSIX` and what is no locale.
  static func languageTag(of locale: String) -> String? {
    let parts = locale.prefix { $0 != "." && $0 != "@" }.split(
      separator: "_", maxSplits: 1, omittingEmptySubsequences: false)
    guard let language = parts.first, (2...3).contains(language.count), language.allSatisfy(\.isASCIILetter) else {
      return nil
    }
    guard parts.count == 2 else { return language.lowercased() }
    guard (2...3).contains(parts[1].count), parts[1].allSatisfy({ $0.isASCIILetter || $0.isNumber }) else { return nil }
    return language.lowercased() + "-" + parts[1].uppercased()
  }
}

extension Character {
  fileprivate var isASCIILetter: Bool { isASCII && isLetter }
}
