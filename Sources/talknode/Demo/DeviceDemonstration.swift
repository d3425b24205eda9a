import GatewayProtocol
import NodeKit

/// The machine's own facts.
struct DeviceDemonstration: Demonstration {
  let capability: Capability = "device"

  func steps(_ stage: Stage) -> [DemoStep] {
    [
      DemoStep("device.info") { payload throws(DemoStep.Flaw) in
        guard let name = payload["deviceName"]?.string, let system = payload["systemVersion"]?.string else {
          throw DemoStep.Flaw(sentence: "The answer names neither the device nor its system.")
        }
        return "\(name), \(payload["modelIdentifier"]?.string ?? "unknown model"), \(system)"
      },
      DemoStep("device.status") { payload throws(DemoStep.Flaw) in
        guard let uptime = payload["uptimeSeconds"]?.double else {
          throw DemoStep.Flaw(sentence: "The answer lacks the up-time.")
        }
        let battery = payload["battery"]?["level"]?.double.map { ", battery \(Int($0 * 100)) %" } ?? ""
        let network = payload["network"]?["status"]?.string.map { ", network \($0)" } ?? ""
        return "up \(StatusCommand.span(Int64(uptime * 1000)))" + network + battery
      },
      DemoStep("device.health") { payload throws(DemoStep.Flaw) in
        guard let memory = payload["memory"], let pressure = memory["pressure"]?.string else {
          throw DemoStep.Flaw(sentence: "The answer says nothing about memory.")
        }
        let free = memory["availableRamBytes"]?.double.map { ", \(Int($0 / 1_000_000)) MB free" } ?? ""
        return "memory pressure \(pressure)" + free
      },
      DemoStep("device.permissions") { payload throws(DemoStep.Flaw) in
        guard let permissions = payload["permissions"]?.object else {
          throw DemoStep.Flaw(sentence: "The answer lists no permissions.")
        }
        let granted = permissions.filter { $0.value["status"]?.string == "granted" }.keys.sorted()
        return "granted: " + (granted.isEmpty ? "none" : granted.joined(separator: ", "))
      },
    ]
  }
}
