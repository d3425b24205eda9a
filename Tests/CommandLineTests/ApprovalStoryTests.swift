import GatewayClient
import Testing

@testable import talknode

/// What is told while the approvals are awaited.
@Suite struct ApprovalStoryTests {
  private func link(
    node: SocketStatus, operator: SocketStatus = .idle, surface: SurfaceState = .unknown, missing: [MissingApproval] = []
  ) -> LinkStatus {
    LinkStatus(
      gatewayID: "manual|h|1", name: "home", url: "ws://h:1", node: node, operator: `operator`, surface: surface,
      missing: missing)
  }

  @Test("each approval is told once with its command, again when its request is a new one, and the end once")
  func story() {
    var story = ApprovalStory()
    func missing(_ id: String?) -> MissingApproval {
      MissingApproval(kind: .device, requestID: id, reason: "not-paired", sinceMs: 0)
    }
    let waiting = link(node: .waitingForApproval(requestID: "r1", reason: "x"), missing: [missing("r1")])
    #expect(
      story.lines(waiting) == [
        "waiting for the approval of this device; on the gateway host, run:", "    openclaw devices approve r1",
      ])
    #expect(story.lines(waiting) == [])
    let later = link(node: .waitingForApproval(requestID: "r2", reason: "x"), missing: [missing("r2")])
    #expect(story.lines(later).last == "    openclaw devices approve r2")
    #expect(story.lines(link(node: .connected(sinceMs: 1))) == ["the node connection is up"])
    #expect(!story.isComplete)
    let complete = link(node: .connected(sinceMs: 1), operator: .connected(sinceMs: 2), surface: .approved)
    #expect(
      story.lines(complete) == [
        "the operator connection is up", "all approvals are there: this machine is a node of home",
      ])
    #expect(story.isComplete && story.failure == nil)
  }

  @Test("a refusal that no waiting mends ends the story with its remedy")
  func refused() {
    var story = ApprovalStory()
    _ = story.lines(link(node: .stopped(code: "AUTH_TOKEN_MISMATCH", summary: "Wrong token.", remedy: "talknode pair CODE")))
    #expect(story.failure?.code == "AUTH_TOKEN_MISMATCH")
    #expect(story.failure?.remedy == "talknode pair CODE")
  }

  @Test("a gateway that is away is told once")
  func away() {
    var story = ApprovalStory()
    let off = link(node: .backingOff(untilMs: 5, reason: "connection refused"))
    #expect(story.lines(off) == ["the node connection is tried again: connection refused"])
    #expect(story.lines(link(node: .connecting(attempt: 2))) == [])
    #expect(story.lines(off) == [])
    #expect(story.failure == nil)
  }
}
