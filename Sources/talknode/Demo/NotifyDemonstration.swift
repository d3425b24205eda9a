import GatewayProtocol
import NodeKit

/// A notification on this machine's own desktop.
struct NotifyDemonstration: Demonstration {
  let capability: Capability = "system"

  func steps(_ stage: Stage) -> [DemoStep] {
    [
      DemoStep(
        "system.notify",
        params: ["title": "TalkNode", "body": "The demo's agent says hello.", "priority": "passive", "sound": "none"]
      ) { payload throws(DemoStep.Flaw) in
        guard payload["ok"]?.bool == true else {
          throw DemoStep.Flaw(sentence: "The answer is not {\"ok\":true} but \(DemoStep.short(payload)).")
        }
        return "shown on this desktop"
      }
    ]
  }
}
