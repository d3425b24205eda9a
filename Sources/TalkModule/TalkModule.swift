import Conversation
import GatewayProtocol
import NodeKit
import System

/// TalkModule: `talk.ptt.start|stop|cancel|once` for agents, mapped onto the conversation's push-to-talk (node-commands §4). A person's own
/// key does not come through here and needs no switch.
public struct TalkModule: CapabilityModule {
  public let capability: Capability = "talk"
  public let permissions = ["microphone"]
  private let talk: Talk

  public static let consent = Consent(
    name: "talk",
    allows: "Agents may open the microphone of this machine and hear what is said; each time is heard and shown.",
    refusalCode: "MIC_PERMISSION_REQUIRED")

  public init(talk: Talk) { self.talk = talk }

  public var commands: [Command] {
    [
      command("talk.ptt.start", "Opens the microphone."),
      command("talk.ptt.stop", "Ends the capture and sends what was said to the agent.", isImmediate: true),
      command("talk.ptt.cancel", "Ends the capture and forgets what was said.", isImmediate: true),
      command("talk.ptt.once", "Hears one utterance, of at most 12 s, and sends it to the agent.", .seconds(60)),
    ]
  }

  private func command(
    _ name: String, _ summary: String, _ limit: Duration = .seconds(30), isImmediate: Bool = false
  ) -> Command {
    Command(
      name, summary: summary, gatewayDefault: .allowed, consent: Self.consent, limit: limit, isImmediate: isImmediate)
  }

  public func availability() async -> Availability {
    let choice = await talk.microphoneChoice()
    if let error = choice { return .absent(reason: error.summary, remedy: error.remedy) }
    let findings = await talk.transcriberFindings()
    for finding in findings { if case .ready = finding.availability { return .ready } }
    let remedies = findings.compactMap { finding -> String? in
      if case .absent(_, let remedy?) = finding.availability { remedy } else { nil }
    }
    return .absent(reason: "No transcriber can be used.", remedy: remedies.last)
  }

  public func stop() async { await talk.close() }

  public func forget() async { await talk.agentsRefused() }

  public func handle(_ invocation: Invocation) async throws(CommandError) -> Payload {
    let owner: PushToTalk.Owner =
      switch invocation.origin {
      case .gateway(let id): .gateway(id)
      case .local: .person
      }
    // All four take no parameters; whatever comes is ignored.
    let answer =
      switch invocation.command {
      case "talk.ptt.start": await talk.start(owner)
      case "talk.ptt.stop": await talk.stop()
      case "talk.ptt.cancel": await talk.cancel()
      default: await talk.once(owner)
      }
    return .json(try Self.json(answer))
  }

  /// The wire's form of an answer (node-commands §4.1).
  public static func json(_ answer: PushToTalk.Answer) throws(CommandError) -> JSON {
    switch answer {
    case .capturing(let id): return ["captureId": .string(id)]
    case .ended(let id, let transcript, let status):
      return .object(present: [
        "captureId": .string(id), "transcript": transcript.map(JSON.string), "status": .string(status.rawValue),
      ])
    case .failed(.busy): throw CommandError("PTT_BUSY", "The previous turn is still finishing.", retryAfterMs: 1000)
    case .failed(.cancelled):
      throw CommandError("PTT_CANCELLED", "A stop or cancel came before the microphone was open.")
    case .failed(.unavailable(let code, let summary, let remedy)):
      throw CommandError(code, summary, remedy: remedy)
    }
  }
}
