import GatewayProtocol

/// What the gateway's agent does about a message: the steps of its run, played in order.
public typealias Agent = @Sendable (AgentTurn) -> [AgentStep]

/// A message as the agent gets it.
public struct AgentTurn: Sendable {
  public let sessionKey: String
  public let runID: String
  public let text: String

  /// Says the words back, in a few pieces: `You said: …`
  public static let echo: Agent = { turn in
    let words = "You said: \(turn.text)".split(separator: " ", omittingEmptySubsequences: false)
    let size = max(1, (words.count + 3) / 4)
    return stride(from: 0, to: words.count, by: size).map { start in
      .say((start == 0 ? "" : " ") + words[start..<min(start + size, words.count)].joined(separator: " "))
    }
  }
}

public enum AgentStep: Sendable, Equatable {
  case wait(Duration)
  /// One more piece of the reply.
  case say(String)
  /// The reply so far is this, whatever it was.
  case replace(String)
  /// A `status` event with this phase.
  case status(String)
  /// A tool is called: clients that asked for tool events see it start and end.
  case tool(name: String, arguments: JSON, result: JSON)
  /// Ends the run with an error of this kind (`refusal`, `timeout`, `rate_limit`, `context_length`, `unknown`).
  case fail(message: String, kind: String)
  /// Ends it with an empty final, so that the reply must be looked up in the history.
  case endSilently
}
