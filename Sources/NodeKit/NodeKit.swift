/// NodeKit: what a node can do, and who may have it done: the modules' seam, the switches, the router that every invoke walks
/// through, and the audit log. Nothing here knows a device or a socket.
import GatewayProtocol

extension Sequence where Element == any CapabilityModule {
  /// The switches of these modules, each once, in the modules' order.
  public var consents: [Consent] {
    var seen: Set<String> = []
    return flatMap { $0.commands.compactMap(\.consent) + $0.switches }.filter { seen.insert($0.name).inserted }
  }

  /// Turns a switch, and those that go with it on this machine; returns all that were turned, this one first.
  public func turn(
    _ name: String, on: Bool, in store: SwitchStore
  ) async throws(SwitchStore.Failure) -> [(name: String, on: Bool)] {
    var turned = [(name: name, on: on)]
    for module in self {
      for (other, isOn) in await module.alsoTurned(with: name, on: on).sorted(by: { $0.key < $1.key }) {
        turned.append((other, isOn))
      }
    }
    for (name, on) in turned { try store.set(name, enabled: on) }
    return turned
  }

  /// What these modules declare under `switches`: registered commands × user switches, never momentary hardware, because any change
  /// re-opens the approval at the gateway (protocol §6.6). What is switched off is left out altogether, so that a release with
  /// a new module that is off changes nothing.
  public func surface(under switches: SwitchStore) -> NodeSurface {
    var caps: Set<String> = []
    var commands: Set<String> = []
    var permissions: [String: Bool] = [:]
    for module in self {
      let enabled = module.commands.filter { $0.consent.map(switches.isEnabled) ?? true }
      if enabled.isEmpty { continue }
      caps.insert(module.capability.rawValue)
      commands.formUnion(enabled.map(\.name))
      for permission in module.permissions { permissions[permission] = true }
    }
    return NodeSurface(caps: caps.sorted(), commands: commands.sorted(), permissions: permissions)
  }
}

/// The bytes that JSON text takes inside a JSON string, quotes not counted: what a payload weighs in `payloadJSON`.
public func escapedCount(_ text: [UInt8]) -> Int {
  text.withUnsafeBufferPointer { bytes in
    var extra = 0
    for byte in bytes {
      // JSON text holds no other control characters than white space, and those have two-byte escapes.
      if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte < 0x20 { extra += 1 }
    }
    return bytes.count + extra
  }
}
