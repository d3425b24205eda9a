import GatewayProtocol
import System
import Transport

/// What the link knows about the approval of its command surface. It is only told on the operator socket; without one it is inferred.
struct SurfaceKnowledge {
  /// What the node declares.
  var declared = NodeSurface()
  /// The newest answer of `node.describe`; nil when there is none for what is declared now.
  var description: NodeDescription?
  /// Commands that agents have called since the start.
  var invoked: Set<String> = []
  /// The digest of the surface that was last seen approved, also before this start.
  var approvedDigest: String?
  var pendingSinceMs: Int64 = 0
  var poll: EventLoop.Token?
  var pollDelay: Duration = .zero
  var isAsking = false
  var asksAgain = false

  func judge(nodeIsConnected: Bool) -> (state: SurfaceState, withheld: [WithheldCommand], effective: [String]) {
    if var description {
      description.isConnected = description.isConnected || nodeIsConnected
      return description.judge(declared, invoked: invoked)
    }
    if approvedDigest == declared.digest { return (.approved, [], declared.commands.sorted()) }
    return (.unknown, [], declared.commands.filter { invoked.contains($0) }.sorted())
  }

  /// The approval that is missing, as far as can be told.
  func missing(_ status: LinkStatus) -> MissingApproval? {
    switch status.surface {
    case .approved: return nil
    case .pending:
      let reason = description?.approvalState == "pending-reapproval" ? "surface-changed" : "not-approved"
      return MissingApproval(
        kind: .surface, requestID: description?.pendingRequestID, reason: reason, sinceMs: pendingSinceMs)
    case .unknown:
      // Only the operator socket tells. While it waits itself, the surface is most likely pending too: a person who goes to the
      // gateway should hear of both.
      guard status.node.isConnected else { return nil }
      switch status.operator {
      case .waitingForApproval, .stopped:
        return MissingApproval(
          kind: .surface, requestID: nil, reason: "unknown-until-operator-approved", sinceMs: pendingSinceMs)
      case .idle, .connecting, .backingOff, .connected: return nil
      }
    }
  }
}

extension GatewayLink {
  /// Tells the gateway that this node is alive, which updates when it was last seen. `handled: true` is the only success.
  func tellPresence(_ channel: GatewayChannel) async {
    let payload = JSON.object(present: [
      "trigger": "connect", "sentAtMs": .int(options.clock().wallMs), "displayName": .string(client.displayName),
      "version": .string(client.version), "platform": .string(ClientInfo.platform),
      "deviceFamily": .string(ClientInfo.deviceFamily), "modelIdentifier": .string(client.modelIdentifier),
    ])
    do throws(LinkError) {
      let answer = try await channel.request(
        "node.event", ["event": "node.presence.alive", "payloadJSON": .string(payload.text)],
        timeout: options.timings.requestTimeout)
      let reason = answer["reason"]?.string.map(ConnectVerdict.oneLine)
      presence = answer["handled"]?.bool == true ? reason ?? "handled" : reason.map { "not handled: \($0)" }
    } catch {
      presence = nil
      Log.debug("node.presence.alive was not answered: \(error)")
    }
  }

  /// Asks the gateway how it sees this node. One question at a time; asked again when something happened meanwhile.
  func describeNode() async {
    forgetSurfacePoll()
    if surface.isAsking {
      surface.asksAgain = true
      return
    }
    surface.isAsking = true
    defer { surface.isAsking = false }
    repeat {
      surface.asksAgain = false
      guard let channel = await `operator`.session else { return }
      let declared = surface.declared
      do throws(LinkError) {
        let answer = try await channel.request(
          "node.describe", ["nodeId": .string(identity.id)], timeout: options.timings.requestTimeout)
        // An answer about what was declared before says nothing about what is declared now.
        if declared == surface.declared {
          surface.description = NodeDescription(payload: answer, nodeID: identity.id)
        }
      } catch {
        Log.debug("node.describe: \(error)")
        if error.code == .timeout { pollSurface() }
        // A gateway that knows nothing of this node any more: what it said before is not so.
        if error.code == .refused && declared == surface.declared { surface.description = nil }
      }
    } while surface.asksAgain
    await noteSurface()
  }

  private func noteSurface() async {
    let nodeIsConnected = await node.session != nil
    if surface.description == nil { return }
    switch surface.judge(nodeIsConnected: nodeIsConnected).state {
    case .approved:
      surface.pendingSinceMs = 0
      surface.pollDelay = .zero
      Log.clear("surface", "\(gateway.name): the commands of this node are approved.")
      guard nodeIsConnected, surface.approvedDigest != surface.declared.digest else { break }
      surface.approvedDigest = surface.declared.digest
      do throws(LinkError) { try await registry.setApprovedSurface(surface.declared.digest, of: gateway.id) } catch {
        Log.warning("\(error)")
      }
    case .pending:
      if surface.pendingSinceMs == 0 { surface.pendingSinceMs = options.clock().wallMs }
      let request = surface.description?.pendingRequestID
      Log.once(
        "surface", .warning,
        "\(gateway.name): the commands of this node wait for approval. On the gateway host: openclaw nodes "
          + (request.map { "approve \($0)" } ?? "pending"))
      pollSurface()
    case .unknown: break
    }
    await publish()
  }

  /// Asks again while an approval is missing: gateways tell it only to operators who may approve.
  private func pollSurface() {
    let timings = options.timings
    forgetSurfacePoll()
    surface.pollDelay = min(max(surface.pollDelay * 2, timings.surfacePoll), timings.longestSurfacePoll)
    surface.poll = loop.after(surface.pollDelay) { [weak self] in
      self?.assumeIsolated { link in
        link.surface.poll = nil
        Task { await link.describeNode() }
      }
    }
  }

  func forgetSurfacePoll() {
    if let poll = surface.poll { loop.cancel(poll) }
    surface.poll = nil
  }

  /// An invoke shows that its command is allowed, and often that the surface was just approved.
  func noteInvoked(_ command: String) {
    guard surface.invoked.count < 256, surface.invoked.insert(command).inserted else { return }
    let isPending = surface.poll != nil
    Task {
      if isPending { await describeNode() } else { await publish() }
    }
  }
}
