import GatewayProtocol

/// What a gateway has answered to `chat.send` (talk-and-chat §6.3), as a value.
enum Acknowledgement: Equatable {
  /// It has the words, with its status word: they need not be kept any more.
  case accepted(status: String?)
  /// The run under this id has failed, now or when it was sent before, and will be told so again under the same id: the words stay kept.
  case spent(status: String)
  /// An answer about something else; the run's id must be the one that was sent (node-commands §4.3).
  case foreign

  init(_ answer: JSON, runID: String) {
    let status = answer["status"]?.string
    if answer["runId"] == nil, answer["aborted"] != nil {
      // A stop command: what it ended is no run of ours, and nothing follows.
      self = .accepted(status: "aborted")
    } else if answer["runId"]?.string != runID {
      self = .foreign
    } else if let status, status == "error" || status == "timeout" {
      self = .spent(status: status)
    } else {
      self = .accepted(status: status)
    }
  }
}
