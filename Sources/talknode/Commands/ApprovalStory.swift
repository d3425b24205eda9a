import GatewayClient

/// What a person who waits for the three approvals is told: each news once.
struct ApprovalStory: Sendable {
  private var said: Set<String> = []
  private(set) var isComplete = false
  /// The gateway said no, and asking again would not help.
  private(set) var failure: Failure?

  /// The lines that are new.
  mutating func lines(_ link: LinkStatus) -> [String] {
    var lines: [String] = []
    // A request that expired comes back with another id, and so with another command.
    for approval in link.missing where said.insert("\(approval.kind) \(approval.command)").inserted {
      lines.append("waiting for \(approval.kind.inWords); on the gateway host, run:")
      lines.append("    \(approval.command)")
    }
    for (role, socket) in [("node", link.node), ("operator", link.operator)] {
      switch socket {
      case .connected:
        if said.insert("\(role) connected").inserted { lines.append("the \(role) connection is up") }
      case .backingOff(_, let reason):
        said.remove("\(role) connected")
        if said.insert("\(role) \(reason)").inserted { lines.append("the \(role) connection is tried again: \(reason)") }
      case .stopped(let code, let summary, let remedy):
        failure = Failure(code, summary, remedy: remedy, exit: .noPermission)
      case .idle, .connecting, .waitingForApproval: break
      }
    }
    isComplete = link.isComplete
    if isComplete {
      failure = nil
      for command in link.withheld { lines.append("the gateway withholds \(command.command): \(command.remedy)") }
      lines.append("all approvals are there: this machine is a node of \(link.name)")
    }
    return lines
  }
}
