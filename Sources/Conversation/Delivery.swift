import Crypto
import GatewayClient
import GatewayProtocol
import System

/// Brings one transcript to the agent and waits for the reply, on the operator socket or, without one, by the reduced path on the node
/// socket (talk-and-chat §2.3). The actor does what `Turn` says.
actor Delivery {
  enum Report: Sendable, Equatable {
    /// The gateway has it: it need not be kept any more.
    case accepted
    /// The run under this id has ended without an answer, and the gateway will say so whenever it is asked again.
    case spent
    case partial(String)
  }

  let link: GatewayLink
  private let sessionKey: String
  private let report: @Sendable (Report) async -> Void
  private var turn: Turn
  private var timers: [Task<Void, Never>] = []
  private var listening: Task<Void, Never>?
  private var outcome: Turn.Outcome?
  private var waiting: CheckedContinuation<Void, Never>?
  private var isAbandoned = false
  private let runID: String
  private let role: Role
  private let sentAtMs = WallClock.milliseconds()

  /// `runID` is the idempotency key: the same one sends the same transcript once, however often it is tried.
  init(
    link: GatewayLink, role: Role, sessionKey: String, runID: String, report: @escaping @Sendable (Report) async -> Void
  ) {
    self.link = link
    self.role = role
    self.sessionKey = sessionKey
    self.runID = runID
    self.report = report
    turn =
      role == .operator
      ? Turn(run: .id(runID), hasHistory: true) : Turn(run: .firstVoice(sessionKey: sessionKey), hasHistory: false)
  }

  /// Sends `text` and returns what came of it.
  func send(_ text: String) async -> Turn.Outcome {
    listen()
    perform(turn.begin())
    // Beside the wait: a link that is given up must not hold anybody until its request times out.
    let sending = Task { if role == .operator { await sendChat(text) } else { await sendVoice(text) } }
    if outcome == nil {
      await withCheckedContinuation { waiter in
        // Looked at again: the runtime may have let others run since.
        if outcome != nil { waiter.resume() } else { waiting = waiter }
      }
    }
    // A reply may overtake the acknowledgement, by which the words are struck out.
    if !isAbandoned { await sending.value }
    listening?.cancel()
    for timer in timers { timer.cancel() }
    if role == .node && !isAbandoned {
      let link = link
      let params = Self.event("chat.unsubscribe", ["sessionKey": .string(sessionKey)])
      Task { _ = try? await link.request("node.event", params, as: .node, timeout: .seconds(10)) }
    }
    return outcome!
  }

  /// Ends the wait: what the agent still says is not spoken.
  func abandon() {
    isAbandoned = true
    on(.lost)
  }

  private func listen() {
    // Before the send: a fast agent answers before the acknowledgement is read.
    let events = link.events(of: role)
    let statuses = link.statuses()
    let role = role
    listening = Task { [weak self] in
      await withTaskGroup(of: Void.self) { group in
        group.addTask {
          for await event in events {
            guard let payload = event.payload else { continue }
            if event.name == "chat" { await self?.on(.chat(payload)) }
            if event.name == "agent" { await self?.on(.agent(payload)) }
            if event.name == GatewayLink.gapEvent && role == .operator { await self?.on(.reconnected) }
          }
        }
        group.addTask {
          var wasConnected = true
          for await status in statuses {
            if role == .node {
              // A node socket's subscription goes with it.
              if !status.node.isConnected { await self?.on(.lost) }
            } else if status.operator.isConnected != wasConnected {
              // On the operator socket the history tells after a reconnect.
              wasConnected.toggle()
              await self?.on(wasConnected ? .reconnected : .disconnected)
            }
          }
          // The link is given up. When this task is cancelled, nobody waits any more.
          await self?.on(.lost)
        }
      }
    }
  }

  private func sendChat(_ text: String) async {
    let params: JSON = [
      "sessionKey": .string(sessionKey), "message": .string(text), "thinking": "low", "timeoutMs": 30000,
      "idempotencyKey": .string(runID),
    ]
    do throws(LinkError) {
      let answer = try await link.request("chat.send", params, as: .operator, timeout: .seconds(30))
      await took(Acknowledgement(answer, runID: runID))
    } catch {
      on(.sendFailed(error.description))
    }
  }

  private func took(_ answer: Acknowledgement) async {
    switch answer {
    case .accepted(let status):
      await report(.accepted)
      on(.acknowledged(status: status))
    case .spent(let status):
      await report(.spent)
      on(.acknowledged(status: status))
    case .foreign: on(.sendFailed("the gateway's answer was about another run"))
    }
  }

  private func sendVoice(_ text: String) async {
    do throws(LinkError) {
      let subscribe = Self.event("chat.subscribe", ["sessionKey": .string(sessionKey)])
      _ = try await link.request("node.event", subscribe, as: .node)
      let voice = Self.event(
        "voice.transcript", ["text": .string(text), "sessionKey": .string(sessionKey), "eventId": .string(runID)])
      on(.sent)
      let answer = try await link.request("node.event", voice, as: .node)
      if answer["handled"]?.bool == false {
        on(.sendFailed("the gateway did not take it (\(answer["reason"]?.string ?? "no reason"))"))
      } else {
        await report(.accepted)
      }
    } catch {
      on(.sendFailed(error.description))
    }
  }

  private static func event(_ name: String, _ payload: JSON) -> JSON {
    ["event": .string(name), "payloadJSON": .string(payload.text)]
  }

  private func on(_ event: Turn.Event) { perform(turn.on(event)) }

  private func perform(_ actions: [Turn.Action]) {
    for action in actions {
      switch action {
      case .startDeadline(let limit): after(limit, .deadline)
      case .startPoll(let interval): after(interval, .pollDue)
      case .startGrace(let limit, let outage): after(limit, .graceOver(outage))
      case .askHistory(let anyTime): askHistory(afterMs: anyTime ? nil : sentAtMs)
      case .partial(let text):
        let report = report
        Task { await report(.partial(text)) }
      case .finish(let outcome):
        self.outcome = outcome
        waiting?.resume()
        waiting = nil
      }
    }
  }

  private func after(_ delay: Duration, _ event: Turn.Event) {
    timers.append(
      Task { [weak self] in
        try? await Task.sleep(for: delay)
        if !Task.isCancelled { await self?.on(event) }
      })
  }

  private func askHistory(afterMs: Int64?) {
    let link = link
    let params: JSON = ["sessionKey": .string(sessionKey), "limit": 20]
    Task { [weak self] in
      let page = try? await link.request("chat.history", params, as: .operator, timeout: .seconds(15))
      await self?.on(.history(page.flatMap { ChatText.newestAssistant(in: $0, afterMs: afterMs) }))
    }
  }
}
